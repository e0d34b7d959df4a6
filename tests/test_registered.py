"""What is new of a kind is known wherever its theory, its model and its look are wanted."""

import math

import pytest

from layernorm_backward import kernels, passes
from layernorm_backward.figures import style
from layernorm_backward.kernels.homes import HOMES
from layernorm_backward.theory import kernel_bounds, mean_bounds, powers
from layernorm_backward.traffic import MODELS

OURS = [name for name in HOMES if kernels.KERNELS[name].device == "cpu"]
KNOWN = {
    "theory/kernel_bounds.py": kernel_bounds.MODELS,
    "theory/powers.py": powers.POWERS,
    "traffic": MODELS,
    "figures/style.py": style.LOOKS,
}


@pytest.mark.parametrize("where", KNOWN)
def test_a_kernel_of_ours_is_known(where):
    assert [name for name in OURS if name not in KNOWN[where]] == []


def test_a_way_has_its_bound_its_power_and_its_look():
    assert set(mean_bounds.STATISTICS) == set(passes.ALGORITHMS)
    assert [name for name in passes.ALGORITHMS if math.isnan(powers.power(name, "float32"))] == []
    assert [name for name in passes.ALGORITHMS if name not in style.LOOKS] == []
