"""What the paper calls a bound is rounded outward: an upper one up, a lower one down."""

import re

import pytest
import yaml

from workspace import ROOT

TEMPLATE = ROOT / "paper" / "paper.md.j2"
NUMBERS = ROOT / "paper" / "numbers.yaml"
NUMBER = r"<<\s*n\.(?P<name>\w+)(?:\.tex)?\s*>>"
UNIT = r"(?:\s*\$u\$)?"
UPPER = re.compile(
    r"\b(?:at most|up to|(?:no|not|never off by) more than|by less than|below|ends above|stays? at)"
    rf"\s+{NUMBER}"
    rf"|{NUMBER.replace('name', 'first')}{UNIT} (?:at most|or below|or less)\b"
)
LOWER = re.compile(
    rf"\b(?:at least|no less than|not below)\s+{NUMBER}"
    rf"|{NUMBER.replace('name', 'first')}{UNIT}(?: of \w+ \w+)?(?: times)? (?:at least|or more|and more)\b"
)
WHOLE = ("integer", "megabytes", "text", "code")  # counts, sizes and names, which are no measured numbers
MEASURED = ("error", "ratio", "fraction", "change", "cost", "difference")  # in the names of such columns


def bounds(pattern: re.Pattern[str], text: str) -> list[str]:
    """The names of the numbers that a text calls such a bound."""
    return [found["name"] or found["first"] for found in pattern.finditer(text)]


def rounded(number: dict[str, str], end: str) -> bool:
    """Whether a number is printed with the ending `_up` or `_down`, or is whole and printed as it is."""
    whole = number.get("format") in WHOLE and not any(part in number["column"] for part in MEASURED)
    return whole or number.get("format", "").endswith(end)


@pytest.mark.parametrize(("pattern", "reduce", "end"), [(UPPER, "max", "_up"), (LOWER, "min", "_down")])
def test_a_bound_is_rounded_outward(pattern: re.Pattern[str], reduce: str, end: str) -> None:
    numbers = yaml.safe_load(NUMBERS.read_text(encoding="utf-8"))
    called = bounds(pattern, TEMPLATE.read_text(encoding="utf-8"))
    extremes = [name for name in called if numbers[name].get("reduce") == reduce]
    assert extremes
    assert [name for name in extremes if not rounded(numbers[name], end)] == []


@pytest.mark.parametrize(
    ("text", "upper", "lower"),
    [
        ("errs by at most\n<< n.a >> $u$", ["a"], []),
        ("is << n.a >> $u$ or below in", ["a"], []),
        ("the kernels stay at << n.a >> throughout", ["a"], []),
        ("changes by up to << n.a.tex >>", ["a"], []),
        ("all others << n.a >> or more backward", [], ["a"]),
        ("take << n.a >> of our time at least", [], ["a"]),
        ("up to $\\kappa = << n.a >>$ it takes << n.b >> to << n.c >>", [], []),
    ],
)
def test_which_numbers_a_sentence_calls_bounds(text: str, upper: list[str], lower: list[str]) -> None:
    assert (bounds(UPPER, text), bounds(LOWER, text)) == (upper, lower)


@pytest.mark.parametrize(
    ("number", "good"),
    [
        ({"format": "one_up", "column": "error_u_max"}, True),
        ({"format": "one", "column": "error_u_max"}, False),
        ({"column": "error_u_max"}, False),
        ({"format": "integer", "column": "sums_difference_u"}, False),
        ({"format": "integer", "column": "rows"}, True),
    ],
)
def test_how_an_upper_bound_may_be_printed(number: dict[str, str], good: bool) -> None:
    assert rounded(number, "_up") == good
