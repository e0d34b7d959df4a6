"""Kept as the name by which `bench` knows it: `layernorm_backward.held`."""

from layernorm_backward.held import arrays

__all__ = ["arrays"]
