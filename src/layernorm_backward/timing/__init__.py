"""What timed passes share, in experiments and in `bench`: sizes, checked kernels, roofs, thread counts."""
