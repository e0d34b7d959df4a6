"""What the paper's text measures is told with its scope: which kernels, which dy, which dtype, which rows."""

import re

import pytest

from workspace import ROOT

TEXT = " ".join((ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8").split())


def clause(name: str) -> str:
    """What stands before the last place of a number, from the beginning of its sentence on."""
    before = TEXT[: TEXT.rindex(f"<< n.{name} >>")]
    return re.split(r"(?<=[.:;)])\s+(?=[A-Z])", before)[-1]


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("edge_passed", "All six kernels"),
        ("mean_path_naive_small", r"$dy \sim N(1,1)$"),
        ("mean_path_naive_outlier", r"$dy \sim N(1,1)$"),
        ("mean_path_recentred_bfloat16", r"$dy \sim N(1,1)$"),
        ("mean_path_kappa_g_plain", "in float64"),
        ("model_error_correlated", "in float32"),
    ],
)
def test_a_number_stands_behind_its_scope(name, scope):
    assert scope in clause(name)


def test_rows_of_16_bits_on_which_two_pass_is_harmless_are_named():
    assert "<< n.representation_two_pass_half >> at most on Gaussian rows and rows of integers" in TEXT
