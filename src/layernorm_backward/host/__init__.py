"""What the system tells: of the machine beneath it, and of the packages that are installed."""
