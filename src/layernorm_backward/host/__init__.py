"""Queries to the system: limits of memory and cores, caches, environment variables, installed packages."""
