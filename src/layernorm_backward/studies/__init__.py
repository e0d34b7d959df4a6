"""A study: its config files, what its tables and figures need, the lock of its run, and how it ends."""
