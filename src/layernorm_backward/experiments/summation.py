"""How dgamma and dbeta lose accuracy as rows are added up, by order of summation and by accumulator.

Rows x are +-1, +-2, +-4, +-8, each row shifted cyclically by a number drawn for it: mean 0 and variance 21.25
hold exactly in every dtype, so that x_hat is right to a few u and what is left is the sum over rows. dy is
N(0,1), N(1,1) or all ones. The orders running, pairwise, chunked (the chunks of numba_fused) and compensated
add the same terms, each rounded to the accumulator; a scheme `kernel:` is what a kernel returns, with float32
gamma beside 16-bit x. Over 8 columns and the seeds: median and maximum of |computed - exact|/|exact|, before
rounding to the storage dtype; medians of the computed sum and of sum |terms|, both over the exact sum, and of
the first-order bound; the largest error over its own bound; the share of sums without any error. For
up to `reversed_rows` rows, order_change is the largest |change|/|exact| when the rows come in reverse. growth
is the exponent in N of a curve's median errors below 1/2 from 100 rows on, by Theil and Sen, with
its 95 % interval, the same on each row of a curve. Where a sum overflows (float16), nothing is measured.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from layernorm_backward import inputs
from layernorm_backward.double_double import DoubleDouble, Floats, exactly
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.errors import rel_error
from layernorm_backward.experiments._arguments import (
    ByDtype,
    Count,
    Distinct,
    Eps,
    Listed,
    Named,
    RunnableKernels,
    Seed,
    Several,
    Whole,
    each_of,
    one_for_each_of,
)
from layernorm_backward.experiments._growth import with_growth
from layernorm_backward.experiments._orders import ORDERS, Quantity, Summation, summations
from layernorm_backward.records.tabulate import table
from layernorm_backward.sums import compensated_tree

PATTERN = np.array([1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 8.0, -8.0])
ONES = "ones"  # an upstream gradient beside those of `inputs`
Accumulator = Literal["storage", DtypeName]
CURVE = ["scheme", "quantity", "dtype", "accumulator", "upstream"]


class Exact(NamedTuple):
    """The exact sums (8,) of a quantity and the sums (8,) of its terms' magnitudes."""

    total: DoubleDouble
    size: Floats


class Cell(NamedTuple):
    """Rows x, dy (N, 8) in a dtype, and what is exact for each quantity."""

    x: NDArray
    dy: NDArray
    exact: dict[str, Exact]


class Sample(NamedTuple):
    """Of each sum (8,): error, change in reverse order, computed sum, sum |terms|, bound, over the exact."""

    error: Floats
    order_change: Floats
    computed_share: Floats
    condition: Floats
    bound: Floats


def run(
    *,
    schemes: Annotated[Distinct[str], each_of(ORDERS)],
    kernels: RunnableKernels,
    accumulators: ByDtype[Several[Accumulator]],
    upstreams: Annotated[Named[Several[Quantity]], each_of((*get_args(inputs.UpstreamKind), ONES))],
    rows: Several[Count],
    seeds: Annotated[Listed[Count], one_for_each_of("rows")],
    ones_rows: Whole,
    reversed_rows: Whole,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per scheme, quantity, dtype, accumulator, upstream and N; `seeds` says how many for each N.

    dy of ones is summed over up to `ones_rows` rows only: its sum stands still, or is exact, long before.
    """
    records: list[dict[str, Any]] = []
    for count, repeats in tqdm(list(zip(rows, seeds, strict=True)), desc="summation", mininterval=1):
        for dtype in accumulators:
            chosen = list(summations(schemes, kernels, dtype, accumulators[dtype]))
            for upstream, quantities in upstreams.items():
                if upstream == ONES and count > ones_rows:
                    continue
                keys = {"dtype": dtype, "upstream": upstream, "rows": count}
                generators = (inputs.generator(seed, count, number) for number in range(repeats))
                cells = (_cell(rng, keys, quantities, eps) for rng in generators)
                records += _measure(chosen, cells, keys, eps, count <= reversed_rows)
    return with_growth(table(records, "summation"), CURVE)


def _cell(rng: np.random.Generator, keys: dict[str, Any], quantities: list[str], eps: float) -> Cell:
    shift = rng.integers(len(PATTERN), size=keys["rows"])
    x = np.stack([np.roll(PATTERN, n) for n in range(len(PATTERN))])[shift].astype(dtype_of(keys["dtype"]))
    dy = np.ones_like(x) if keys["upstream"] == ONES else inputs.upstream(rng, keys["upstream"], x)
    return Cell(x, dy, {quantity: _exact(x, dy, quantity, eps) for quantity in quantities})


def _exact(x: NDArray, dy: NDArray, quantity: str, eps: float) -> Exact:
    terms, rstd = inputs.values(dy), exactly(1.0)
    if quantity == "dgamma":
        terms = terms * inputs.values(x)  # exact: x is a power of two
        rstd = 1.0 / (exactly(np.mean(PATTERN**2)) + eps).sqrt()
    columns = np.ascontiguousarray(terms.T)
    return Exact(DoubleDouble(*compensated_tree(columns)) * rstd, np.sum(np.abs(columns), axis=-1) * rstd.hi)


def _measure(
    chosen: list[Summation], cells: Iterator[Cell], keys: dict[str, Any], eps: float, reverse: bool
) -> list[dict[str, Any]]:
    """One record a way and quantity, over all sums of all cells; a cell is held no longer than it is used."""
    samples: dict[tuple[Summation, str], list[Sample]] = defaultdict(list)
    for cell in cells:
        for way in chosen:
            computed = way.sums(cell.x, cell.dy, eps, cell.exact)
            other = way.sums(cell.x[::-1], cell.dy[::-1], eps, cell.exact) if reverse else {}
            for quantity in cell.exact:
                found = _sample(way, cell, quantity, computed[quantity], other.get(quantity))
                samples[way, quantity].append(found)
    return [
        keys
        | {"scheme": way.scheme, "accumulator": way.accumulator, "quantity": quantity}
        | _summary(Sample(*map(np.concatenate, zip(*found, strict=True))))
        for (way, quantity), found in samples.items()
    ]


def _sample(way: Summation, cell: Cell, quantity: str, computed: NDArray, other: NDArray | None) -> Sample:
    exact, size = cell.exact[quantity]
    computed, magnitude = inputs.values(computed), np.abs(exact.hi)
    change = np.full_like(magnitude, np.nan) if other is None else np.abs(inputs.values(other) - computed)
    return Sample(
        error=rel_error(computed[:, None], exact.at((..., None))),
        order_change=change / magnitude,
        computed_share=computed / exact.hi,
        condition=size / magnitude,
        bound=way.bound(len(cell.x), quantity, size, magnitude),
    )


def _summary(sample: Sample) -> dict[str, Any]:
    sums, lost = len(sample.error), int(np.sum(~np.isfinite(sample.computed_share)))
    if lost:
        return {"sums": sums, "reason": f"{lost} of {sums} sums overflow"}
    return {
        "sums": sums,
        "rel_error_median": float(np.median(sample.error)),
        "rel_error_max": float(np.max(sample.error)),
        "computed_share_median": float(np.median(sample.computed_share)),
        "condition_median": float(np.median(sample.condition)),
        "bound": float(np.median(sample.bound)),
        "bound_ratio_max": float(np.max(sample.error / sample.bound)),
        "exact_share": float(np.mean(sample.error == 0)),
        "order_change": float(np.max(sample.order_change)),
    }
