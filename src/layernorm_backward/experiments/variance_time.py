"""Time of each variance algorithm in NumPy, paired with the two-pass one and interleaved with all others.

Rows are N(0,1) in the storage dtype; the cast to the accumulator is part of the time. These are array
programs: welford and naive_compensated take D steps over all rows at once, the others log2(D) steps, so the
ratios hold for NumPy at these shapes and say little about compiled loops. One thread.
"""

from typing import Annotated, Any

import pandas as pd
from numpy.typing import DTypeLike, NDArray
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from tqdm import tqdm

from layernorm_backward import inputs, stopwatch
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.experiments._arguments import AtLeast, Count, Names, Seconds, Seed, Several, each_of
from layernorm_backward.records.tabulate import table
from layernorm_backward.storage.yamlfile import REFUSED
from layernorm_backward.timing.timed import labelled, seed_of, times, together
from layernorm_backward.variance import ALGORITHMS, accumulators, moments

PARTNER = "two_pass"


def _with_partner(algorithms: list[str]) -> list[str]:
    if PARTNER not in algorithms:
        said = {"partner": PARTNER}
        raise PydanticCustomError(REFUSED, "no {partner}; it must be among them, for the ratios", said)
    return algorithms


def run(
    *,
    algorithms: Annotated[Names, each_of(ALGORITHMS), AfterValidator(_with_partner)],
    dtypes: Several[DtypeName],
    shapes: Several[tuple[Count, Count]],
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per algorithm, dtype, accumulator and (rows, D); a cell of samples ends after `budget_s`."""
    records: list[dict[str, Any]] = []
    samples: list[pd.DataFrame] = []
    for dtype, accumulator, shape in tqdm(_cells(dtypes, shapes), desc="variance_time", mininterval=1):
        x = inputs.rows(inputs.generator(seed, *shape), *shape, dtype_of(dtype))
        calls = {name: _call(name, x, accumulators(x.dtype)[accumulator]) for name in algorithms}
        with stopwatch.threads(1):
            order = seed_of(seed, dtype, accumulator, shape)
            found = stopwatch.compare(
                calls, repeats=repeats, at_least=at_least, budget_s=budget_s, seed=order
            )
        keys = {"dtype": dtype, "accumulator": accumulator, "rows": shape[0], "hidden": shape[1]}
        records += [_row(keys, name, found) for name in algorithms]
        samples.append(labelled(found, **keys))
    return table(records, "variance_time"), together(samples)


def _cells(
    dtypes: list[DtypeName], shapes: list[tuple[int, int]]
) -> list[tuple[DtypeName, str, tuple[int, int]]]:
    return [
        (dtype, accumulator, shape)
        for dtype in dtypes
        for accumulator in accumulators(dtype_of(dtype))
        for shape in shapes
    ]


def _call(name: str, x: NDArray, sums: DTypeLike) -> stopwatch.Call:
    return lambda: moments(name, x, sums)


def _row(keys: dict[str, Any], name: str, samples: pd.DataFrame) -> dict[str, Any]:
    ratio = stopwatch.ratio(samples, name, PARTNER)
    return keys | {"algorithm": name} | times(samples, name) | ratio.columns("two_pass_ratio")
