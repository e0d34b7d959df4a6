"""Claims about time: table timing_cpu. Their verdicts hold for the machine that was measured."""

import pandas as pd

from layernorm_backward.directions import TENSORS
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    count,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)


def fusion_gains(timing_cpu: pd.DataFrame, *, low: float, high: float, tolerance: float) -> Judgement:
    """Time of compact over the kernel's lies in [low, high] widened by the share `tolerance`, or above 1."""
    ratio = pick(timing_cpu, "compact_ratio")
    timed = timing_cpu.loc[ratio.index]
    medians = ratio.groupby(timed["direction"]).median()
    inside = medians.between(low * (1 - tolerance), high * (1 + tolerance))
    ends = [timed["compact_ratio_low"].min(), timed["compact_ratio_high"].max()]
    return Judgement(
        verdict(bool(inside.all()), bool((medians > 1).all())),
        f"{listing(f'{number(value)} {way}' for way, value in medians.items())} (medians, of "
        f"{count(len(ratio), 'cell')}; intervals {span(ends)})",
        f"CPU; time of compact (NumPy, separate passes) over {_what(timed)}",
        f"published: {number(low)} to {number(high)}; compiled code beside NumPy, so more than "
        "fusion; claims about a GPU are judged by themselves",
    )


def published_times(
    timing_cpu: pd.DataFrame,
    *,
    milliseconds: dict[str, float],
    printed: dict[str, float],
    tolerance: float,
) -> Judgement:
    """The printed GB/s are, within `tolerance`, half of their last digit, the useful bytes in the published
    time; corrected where they are the elements in it. Our own times are told beside them, and not judged."""
    elements = int(pick(timing_cpu, "rows").max() * pick(timing_cpu, "hidden").max())
    rates = {way: elements / (1e6 * time) for way, time in milliseconds.items()}
    useful = {way: 8 * TENSORS[way] * rate for way, rate in rates.items()}
    as_bytes, as_elements = (
        all(abs(rate - printed[way]) <= tolerance for way, rate in it.items()) for it in (useful, rates)
    )
    unit = said(as_bytes, "useful GB/s", said(as_elements, "elements a ns", "neither of the two"))
    seconds = {way: pick(timing_cpu, "median_s", direction=way).median() for way in milliseconds}
    times = (
        f"{number(1e3 * it)} ms {way} (published {number(milliseconds[way])})" for way, it in seconds.items()
    )
    return Judgement(
        verdict(as_bytes, as_elements),
        f"{listing(times)}; in the published time {_rates(rates)} elements a ns and {_rates(useful)} GB/s",
        f"{_what(timing_cpu)}; useful bytes: 8 an element, 2 accesses forward, 3 backward",
        f"what is printed, {_rates(printed)}, is {unit}, rounded; the milliseconds are another machine's",
    )


def _rates(rates: dict[str, float]) -> str:
    return listing(number(rate) for rate in rates.values())


def _what(timing_cpu: pd.DataFrame) -> str:
    return over(timing_cpu, "kernel", "dtype", "shape", "threads")
