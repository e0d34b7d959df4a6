"""Claims about time: table timing_cpu. Their verdicts hold for the machine that was measured."""

import pandas as pd

from layernorm_backward.directions import TENSORS
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
    milliseconds: dict[str, float],
    printed: dict[str, float],
    tolerance: float,
) -> Judgement:
    """The printed GB/s are, within the factor `tolerance`, the useful bytes a second that are measured here;
    corrected where they are the elements a second."""
    seconds = {way: pick(timing_cpu, "median_s", direction=way).median() for way in milliseconds}
    elements = int((timing_cpu["rows"] * timing_cpu["hidden"]).max())
    rates = {way: elements / time / 1e9 for way, time in seconds.items()}
    useful = {way: 8 * TENSORS[way] * rate for way, rate in rates.items()}
    as_bytes, as_elements = (
        all(_rounds_to(printed[way], rate, tolerance) for way, rate in it.items()) for it in (useful, rates)
    )
    unit = said(as_bytes, "bytes", said(as_elements, "elements, not bytes", "neither bytes nor elements"))
    times = (
        f"{number(1e3 * it)} ms {way} (published {number(milliseconds[way])})" for way, it in seconds.items()
    )
    return Judgement(
        verdict(as_bytes, as_elements),
        f"{listing(times)}; {_rates(rates)} elements a ns, {_rates(useful)} GB/s",
        f"{_what(timing_cpu)}; useful bytes: 8 an element, 2 accesses forward, 3 backward",
        f"the printed rates, {_rates(printed)}, are within a factor {number(tolerance)} of those measured "
        f"here as {unit}; the milliseconds are another machine's",
    )


def _rounds_to(printed: float, rate: float, factor: float) -> bool:
    return (printed - PRINTED) / factor <= rate <= (printed + PRINTED) * factor


def _rates(rates: dict[str, float]) -> str:
    return listing(number(rate) for rate in rates.values())


def _what(timing_cpu: pd.DataFrame) -> str:
    return over(timing_cpu, "kernel", "dtype", "shape", "threads")
