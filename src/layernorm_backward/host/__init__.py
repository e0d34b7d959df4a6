"""Queries to the operating system: limits of memory and cores, caches, variables, installed packages."""
