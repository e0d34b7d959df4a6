"""What the appendix says of spells and of near cores follows the bands that hold a measurement."""

import re

import pytest

from layernorm_backward.paper.context import Number, constant
from layernorm_backward.paper.render import environment
from workspace import ROOT

TEMPLATE = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
MACROS = "\n".join(re.findall(r"<% macro (?:to|span|at_each|at_sizes)\(.*?<% endmacro %>", TEMPLATE))
FREE, CONTENDED = (0.0, 1.1), (1.4, float("inf"))
NEAR, FAR = (0.0, 120.0), (120.0, float("inf"))
CELL = {"direction": "backward", "residency": "memory", "threads": 1}


class Numbers:
    """Numbers of the paper: those that are given, and 7 for all others."""

    def __init__(self, **values):
        self._values = values

    def __getattr__(self, name):
        value = self._values.get(name, 7)
        number = Number("n/a" if value is None else str(value))
        number.value, number.cells = value, 1
        return number


def paragraph(begins, ends, **names):
    (text,) = re.findall(rf"\n({begins}.*?)\n\n{ends}", TEMPLATE, flags=re.DOTALL)
    filled = environment(ROOT / "paper").from_string(MACROS + text).render(c=constant, **names)
    return " ".join(filled.split())


def spells(*bands):
    nan = float("nan")
    rows = [
        CELL | {"hidden": size, "update_from": nan, "update_below": nan, "roof_fraction": 0.5}
        for size in (64, 256)
    ]
    for size, (start, end), fraction in bands:
        rows.append(
            CELL
            | {"hidden": size, "update_from": start, "update_below": end, "roof_fraction": fraction or nan}
        )
    names = {"n": Numbers(), "rows": lambda stem: rows, "judged": {"core-slows-kernel-more": "a claim"}}
    return paragraph(r"\*\*Spells of", r"!\[", **names)


def handover(lacking, *bands):
    """The paragraph where one number is lacking; bands: row length, latencies, and fraction of the roof."""
    rows = [
        {"working_set": "beyond_cache", "hidden": size, "latency_from_ns": start, "latency_below_ns": end}
        | {"roof_fraction": fraction or float("nan")}
        for size, (start, end), fraction in bands
    ]
    numbers = Numbers(**{f"handover_{lacking}_ns": None})
    return paragraph(r"\*\*Near and far", "For the cells of", n=numbers, rows=lambda stem: rows)


def test_only_row_lengths_with_enough_repetitions_are_named_and_a_contended_core_in_every_band():
    told = spells(
        (64, FREE, None),
        (256, FREE, 0.96),
        (64, (1.2, 1.4), 0.91),
        (64, CONTENDED, 0.9),
        (256, CONTENDED, 0.93),
    )
    assert "on a free core: 0.96 at $D = 256$; on a contended one: 0.91 at $D = 64$ (below 1.4 times" in told
    assert "the minimum), 0.90 at $D = 64$ and 0.93 at $D = 256$. At the other $D$ too few" in told


def test_free_and_contended_cores_are_compared_where_every_row_length_met_both():
    told = spells(*((size, band, 0.9) for size in (64, 256) for band in (FREE, CONTENDED)))
    assert "Between these two the kernel's time over its minimum goes from 7 to 7" in told
    assert "on a free core: none, for too few repetitions; on a contended one: none" in spells(
        (64, FREE, None)
    )


@pytest.mark.parametrize(
    ("lacking", "said", "small"),
    [
        (
            "near",
            "Beyond the cache, at $D = 1024$, too few repetitions ran on cores near to each other",
            True,
        ),
        (
            "far",
            "Beyond the cache, at $D = 1024$, too few repetitions ran on cores far from each other",
            True,
        ),
        ("small_near", "the triad beyond the cache moves 7 GB/s", False),
    ],
)
def test_near_and_far_cores_are_compared_wherever_both_were_met(lacking, said, small):
    told = handover(lacking, (256, NEAR, 1.04), (1024, FAR, 1.01))
    assert said in told
    assert ("On arrays of 12 MB, where a turn takes less than 120 ns, 7 ns in the median" in told) is small
    assert told.endswith("differences need not be due to placement.")


def test_the_fraction_on_near_and_on_far_cores_is_told_with_its_row_length():
    told = handover("small_near", (1024, NEAR, 1.04), (256, NEAR, None), (256, FAR, 1.13), (1024, FAR, 1.01))
    assert "of which the pass reaches 1.04 at $D = 1024$; where it takes more" in told
    assert "7 GB/s and 1.13 at $D = 256$ and 1.01 at $D = 1024$." in told
