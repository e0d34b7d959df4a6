"""Claims about time: table timing_cpu. Their verdicts hold for the machine that was measured."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)
from layernorm_backward.traffic.least import TENSORS

PRINTED = 0.05  # half of the last digit of a rate that is printed with one decimal


def fusion_gains(timing_cpu: pd.DataFrame, *, low: float, high: float, tolerance: float) -> Judgement:
    """Time of compact over the kernel's lies in [low, high] widened by the share `tolerance`, or above 1."""
    ratio = pick(timing_cpu, "compact_ratio")
    medians = ratio.groupby(timing_cpu["direction"]).median()
    inside = medians.between(low * (1 - tolerance), high * (1 + tolerance))
    return Judgement(
        verdict(bool(inside.all()), bool((medians > 1).all())),
        f"{listing(f'{number(value)} {way}' for way, value in medians.items())} (medians), all {span(ratio)}",
        f"CPU; time of compact (NumPy, separate passes) over {_what(timing_cpu)}",
        f"published: {number(low)} to {number(high)}; claims about a GPU are judged by themselves",
    )


def published_times(
    timing_cpu: pd.DataFrame,
    *,
    elements: int,
    milliseconds: dict[str, float],
    printed: dict[str, float],
    tolerance: float,
) -> Judgement:
    """The printed GB/s are useful bytes (or else elements) a second; the ratio of times is as here."""
    rates = {way: elements / time / 1e6 for way, time in milliseconds.items()}
    useful = {way: 8 * TENSORS[way] * rate for way, rate in rates.items()}
    as_bytes = all(abs(useful[way] - rate) <= PRINTED for way, rate in printed.items())
    as_elements = all(abs(rates[way] - rate) <= PRINTED for way, rate in printed.items())
    times = {way: pick(timing_cpu, "median_s", direction=way).median() for way in milliseconds}
    here, there = times["backward"] / times["forward"], milliseconds["backward"] / milliseconds["forward"]
    alike = 1 / tolerance <= here / there <= tolerance
    unit = said(as_bytes, "bytes", said(as_elements, "elements, not bytes", "neither bytes nor elements"))
    return Judgement(
        verdict(as_bytes and alike, as_elements or alike),
        f"backward/forward {number(here)} (published {number(there)}); the published times are "
        f"{listing(f'{number(rate)} GB/s {way}' for way, rate in useful.items())}",
        f"{_what(timing_cpu)}; useful bytes: 8 an element, 2 accesses forward, 3 backward",
        f"the printed rate counts {unit}; the ratios of times {said(alike, 'agree', 'do not agree')} within "
        f"a factor {number(tolerance)}; milliseconds of another machine are not judged",
    )


def _what(timing_cpu: pd.DataFrame) -> str:
    return over(timing_cpu, "kernel", "dtype", "shape", "threads")
