"""The powers of kappa that the theory gives."""

import math

import pytest

from layernorm_backward.theory.kernel_bounds import MODELS
from layernorm_backward.theory.powers import power


@pytest.mark.parametrize(
    ("name", "dtype", "found"),
    [
        ("compact", "float32", 1),
        ("recentred", "float32", 0),
        ("naive", "float64", 2),
        ("reference", "float64", 1),
        ("reference", "float32", 0),  # its sums are wider than x
        ("float64_statistics", "bfloat16", 0),
    ],
)
def test_a_power_is_that_of_the_sums(name, dtype, found):
    assert power(name, dtype) == found


def test_every_kernel_with_a_bound_has_one_but_for_those_on_a_gpu():
    unknown = {name for name in MODELS if math.isnan(power(name, "float32"))}
    assert unknown == {"cuda_fused", "cuda_separate"}
