"""Is a backward pass the derivative of its forward pass? `check(kernel)` returns a table, or raises."""

from layernorm_backward.gradient_check.checker import GradientError, check
from layernorm_backward.gradient_check.datasets import adequate
from layernorm_backward.gradient_check.methods import METHODS
from layernorm_backward.gradient_check.points import Point, normal

__all__ = ["METHODS", "GradientError", "Point", "adequate", "check", "normal"]
