"""Relative error of each variance algorithm as the mean grows, apart from what rounding the row has done.

For every row in a dtype two errors are reported separately: representation_error, the exact variance of the
rounded row against that of the real row, which no algorithm can undo; and rel_error, computed against exact
for the rounded row. `computed` is the first row's computed variance. Over the rows of a cell: median and
maximum of rel_error, maximum of representation_error and bound, median of kappa, minimum of distinct_values.
A cell in which some row came out constant or not finite holds nothing to test: it is not representable, and
says why. An algorithm that overflows has an infinite error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from layernorm_backward import inputs, oracle
from layernorm_backward.double_double import DoubleDouble, Floats
from layernorm_backward.dtypes import DtypeName, dtype_of, round_to, unit_roundoff
from layernorm_backward.errors import most_over_bounds, rel_error
from layernorm_backward.experiments._arguments import Count, Distinct, Finite, Names, Seed, Several, each_of
from layernorm_backward.experiments._rows import rounded_rows
from layernorm_backward.records.tabulate import table
from layernorm_backward.theory.exact_rows import kappa
from layernorm_backward.theory.variance_bounds import BOUNDS
from layernorm_backward.variance import ALGORITHMS, accumulators, moments


@dataclass(frozen=True)
class Cell:
    """Rows (rows, D) in a dtype, the exact variance of the real rows, and where they stand in the sweep."""

    x: NDArray
    real_variance: DoubleDouble
    keys: dict[str, Any]


def run(
    *,
    algorithms: Annotated[Names, each_of(ALGORITHMS)],
    dtypes: Several[DtypeName],
    ladder_offsets: Several[Finite],
    long_ladder_repeats: Count,
    gaussian_offsets: Several[Finite],
    gaussian_hidden: Count,
    hidden_offsets: Distinct[Finite],
    hidden_sweep: Distinct[Count],
    rows: Count,
    seed: Seed,
) -> pd.DataFrame:
    """One row per algorithm, accumulator and cell: offsets at one D, then D at few offsets."""
    grid = [(offset, gaussian_hidden) for offset in gaussian_offsets]
    grid += [(offset, hidden) for hidden in hidden_sweep for offset in hidden_offsets]
    records: list[dict[str, Any]] = []
    for dtype in tqdm(dtypes, desc="variance", mininterval=1):
        for cell in _ladder_cells(dtype, ladder_offsets, long_ladder_repeats):
            records += _measure(cell, algorithms)
        for cell in _gaussian_cells(dtype, list(dict.fromkeys(grid)), rows, seed):
            records += _measure(cell, algorithms)
    return table(records, "variance")


def _ladder_cells(dtype: DtypeName, offsets: list[float], repeats: int) -> Iterator[Cell]:
    """offset + [0, 1, 2, 3, 4], and the same five elements many times over: both have variance 2."""
    real = oracle.moments(np.arange(5.0)[None, :]).variance
    for data, times in (("ladder", 1), ("long_ladder", repeats)):
        for offset in offsets:
            keys = {"dtype": dtype, "data": data, "offset": offset, "hidden": 5 * times}
            yield Cell(np.tile(inputs.ladder(offset, dtype_of(dtype)), times), real, keys)


def _gaussian_cells(dtype: DtypeName, grid: list[tuple[float, int]], rows: int, seed: int) -> Iterator[Cell]:
    """The same deviations at every offset: an offset, exactly added, leaves the real variance as it is."""
    for offset, hidden in grid:
        deviations = inputs.generator(seed, hidden).standard_normal((rows, hidden))
        keys = {"dtype": dtype, "data": "gaussian", "offset": offset, "hidden": hidden}
        x = round_to(offset + deviations, dtype_of(dtype))
        yield Cell(x, oracle.moments(deviations).variance, keys)


def _measure(cell: Cell, algorithms: list[str]) -> list[dict[str, Any]]:
    x = inputs.values(cell.x)
    exact = oracle.moments(x)
    facts = _facts(cell, x, exact)
    return [
        cell.keys
        | {"algorithm": name, "accumulator": accumulator}
        | facts
        | _errors(cell, x, exact, name, accumulator)
        for accumulator in accumulators(cell.x.dtype)
        for name in algorithms
    ]


def _facts(cell: Cell, x: Floats, exact: oracle.Moments) -> dict[str, Any]:
    """What holds for the rounded rows, whatever the algorithm."""
    found = rounded_rows(x, cell.keys["dtype"])
    shifted_by_rounding = rel_error(exact.variance.hi[:, None], _column(cell.real_variance))
    return {
        "representation_error": float(np.max(shifted_by_rounding)) if found.finite else np.nan,
        "distinct_values": found.distinct,
        "kappa": float(np.median(kappa(exact))) if found.finite else np.nan,
        "representable": found.reason == "",
        "reason": found.reason,
    }


def _errors(cell: Cell, x: Floats, exact: oracle.Moments, name: str, accumulator: str) -> dict[str, float]:
    """The algorithm's error and bound; empty where a row is constant or not finite."""
    if np.any(~np.isfinite(x)) or np.any(exact.variance.hi == 0):
        return {}
    dtype = accumulators(cell.x.dtype)[accumulator]
    computed = moments(name, cell.x, dtype).variance
    error = rel_error(computed[:, None], _column(exact.variance))
    first = np.abs(exact.centred.hi[:, 0]) / np.sqrt(exact.variance.hi)
    bound = BOUNDS[name](kappa(exact), first, x.shape[-1], unit_roundoff(dtype))
    return {
        "computed": float(computed[0]),
        "rel_error_median": float(np.median(error)),
        "rel_error_max": float(np.max(error)),
        "bound": float(np.max(bound)),
        "bound_ratio_max": most_over_bounds(error, bound),
    }


def _column(rows: DoubleDouble) -> DoubleDouble:
    """One number a row, as a row of one element: what `rel_error` reads row by row."""
    return rows.at((..., None))
