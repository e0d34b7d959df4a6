"""Atomic writes of files, and reads with clear errors."""
