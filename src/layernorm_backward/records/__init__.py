"""What a run leaves: tables by their schemas, a record beside each, and the archive they are promoted to."""
