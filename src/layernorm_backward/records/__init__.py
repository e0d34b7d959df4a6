"""The output of a run: tables with schemas, a record of each, and the archive to which they are promoted."""
