"""Claims about time: table timing_cpu. The verdicts hold for the machine that was measured."""

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
    """The median ratio of the time of compact to that of the kernel lies in [low, high], widened by the share
    `tolerance`, in each direction; corrected where it is above 1."""
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
        f"published: {number(low)} to {number(high)}; compiled code against NumPy, so the gain is not from "
        "fusion alone; claims about a GPU are judged separately",
    )


def published_times(
    timing_cpu: pd.DataFrame,
    *,
    milliseconds: dict[str, float],
    printed: dict[str, float],
    tolerance: float,
) -> Judgement:
    """The printed GB/s are the useful bytes per published time, within `tolerance` (half a unit of their last
    digit); corrected where they are the elements per time. Our own times are given, but not judged."""
    elements = int(pick(timing_cpu, "rows").max() * pick(timing_cpu, "hidden").max())
    rates = {way: elements / (1e6 * time) for way, time in milliseconds.items()}
    useful = {way: 8 * TENSORS[way] * rate for way, rate in rates.items()}
    as_bytes, as_elements = (
        all(abs(rate - printed[way]) <= tolerance for way, rate in it.items()) for it in (useful, rates)
    )
    unit = said(as_bytes, "useful GB/s", said(as_elements, "elements per ns", "neither of the two"))
    seconds = {way: pick(timing_cpu, "median_s", direction=way).median() for way in milliseconds}
    times = (
        f"{number(1e3 * it)} ms {way} (published {number(milliseconds[way])})" for way, it in seconds.items()
    )
    return Judgement(
        verdict(as_bytes, as_elements),
        f"{listing(times)}; published times give {_rates(rates)} elements per ns and {_rates(useful)} GB/s",
        f"{_what(timing_cpu)}; useful bytes: 8 per element, 2 accesses forward, 3 backward",
        f"the printed {_rates(printed)} are {unit}, rounded; the milliseconds are from another machine",
    )


def _rates(rates: dict[str, float]) -> str:
    return listing(number(rate) for rate in rates.values())


def _what(timing_cpu: pd.DataFrame) -> str:
    return over(timing_cpu, "kernel", "dtype", "shape", "threads")
