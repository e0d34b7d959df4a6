"""Files that are written whole or not at all, and that are read with clear errors."""
