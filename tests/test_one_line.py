"""An exception is told in one line by one function."""

import pytest

from layernorm_backward.one_line import MOST, one_line
from layernorm_backward.records.provenance import ROOT


@pytest.mark.parametrize(
    ("error", "most", "wanted"),
    [
        (ValueError("first\n  second\tthird "), MOST, "ValueError: first second third"),
        (KeyError(), MOST, "KeyError"),
        (OSError("x" * 900), MOST, f"OSError: {'x' * MOST}"),
        (OSError("x" * 900), None, f"OSError: {'x' * 900}"),
    ],
)
def test_an_exception_is_its_type_and_what_it_says(error, most, wanted):
    assert one_line(error, most) == wanted


def test_no_other_function_makes_a_line_of_an_exception():
    """Four did, each in its way."""
    found = [path.name for path in ROOT.rglob("*.py") if "type(error).__name__" in path.read_text("utf-8")]
    assert found == ["one_line.py"]
