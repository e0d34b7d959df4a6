"""Timing of passes, for experiments and `bench`: sizes, checked kernels, roofs, clocks, intervals."""
