"""Error of y, dx, dgamma, dbeta by every way to the statistics, beside first-order theory and the bound.

error_u is norm-wise, in units of u of the dtype: over the rows its median, with an interval, and
its maximum (dgamma, dbeta are one row each). identity_u is the size of the error that eta and rho, measured
in the pass, cause by first-order theory; residual_u_max is what is left of the error when that is taken away,
and remainder_u_max what is left without the exact effect of the same eta and rho. bound_u is the largest
bound of a row (infinite where one has none), bound_ratio the error over the bound row by row, violations the
number of rows that exceed theirs. Only rows that have a bound, bounded_rows of them, count in these two.

Data are Gaussian, or `outlier` (module `outliers`). An upstream gradient `aligned` is 1 + x_hat +
spread*N(0,1), with gamma = 1, of which dx keeps the share 1/kappa_g; otherwise gamma is N(1, 1/4) and the
spread 0. Cells whose rounded rows do not have the kappa of their key are not measured, and say why.
"""

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from tqdm import tqdm

from layernorm_backward import inputs, oracle, outliers
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of
from layernorm_backward.experiments._arguments import (
    Count,
    Eps,
    Kappa,
    Listed,
    Names,
    NotNegative,
    Seed,
    Several,
    each_of,
)
from layernorm_backward.experiments._pass_errors import Case, measure
from layernorm_backward.experiments._rows import kappa_mismatch
from layernorm_backward.outliers import Data
from layernorm_backward.passes import ALGORITHMS
from layernorm_backward.problem import Problem, Results, draw, draw_aligned
from layernorm_backward.records.tabulate import table
from layernorm_backward.storage.yamlfile import REFUSED
from layernorm_backward.timing.median_interval import median_interval
from layernorm_backward.variance import accumulators


class Sweep(NamedTuple):
    """The product of its lists, for every dtype; spreads are those of `aligned`, [0] without it."""

    data: Data
    kappas: Several[Kappa]
    upstreams: Several[Literal["normal", "shifted", "correlated", "aligned"]]
    spreads: Several[NotNegative]
    hidden: Several[Count]


def _spread_where_aligned(sweep: Sweep) -> Sweep:
    if sweep.upstreams != ["aligned"] and sweep.spreads != [0]:
        said = {"spreads": str(sweep.spreads), "upstreams": ", ".join(sweep.upstreams)}
        wish = "spreads {spreads} for {upstreams}; allowed: [0], others where upstreams is [aligned]"
        raise PydanticCustomError(REFUSED, wish, said)
    return sweep


def run(
    *,
    algorithms: Annotated[Names, each_of(ALGORITHMS)],
    dtypes: Several[DtypeName],
    sweeps: Listed[Annotated[Sweep, AfterValidator(_spread_where_aligned)]],
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per way, accumulator, cell of a sweep and quantity; a cell of two sweeps is measured once."""
    cells = [cell for dtype in dtypes for sweep in sweeps for cell in _cells(dtype, sweep)]
    records: list[dict[str, Any]] = []
    distinct = {tuple(cell.values()): cell for cell in cells}.values()
    for cell in tqdm(distinct, "mean_path", mininterval=1):
        records += _cell(cell, algorithms, rows, eps, seed)
    return table(records, "mean_path")


def _cells(dtype: DtypeName, sweep: Sweep) -> Iterator[dict[str, Any]]:
    names = ("kappa", "upstream", "spread", "hidden")
    for values in product(sweep.kappas, sweep.upstreams, sweep.spreads, sweep.hidden):
        yield {"dtype": dtype, "data": sweep.data} | dict(zip(names, values, strict=True))


def _cell(
    cell: dict[str, Any], algorithms: list[str], rows: int, eps: float, seed: int
) -> Iterator[dict[str, Any]]:
    rng = inputs.generator(seed, DTYPE_NAMES.index(cell["dtype"]), cell["hidden"])
    keys = [
        cell | {"algorithm": way, "accumulator": accumulator, "rows": rows}
        for accumulator in accumulators(dtype_of(cell["dtype"]))
        for way in algorithms
    ]
    try:
        x = _rows(rng, cell, rows)
        moments = oracle.moments(inputs.values(x))
        reason = kappa_mismatch(moments, cell["kappa"], cell["dtype"])
    except ValueError as error:
        reason = str(error)
    if reason:
        return [
            key | {"quantity": quantity, "reason": reason} for key in keys for quantity in Results._fields
        ]
    case = Case.of(_problem(rng, cell, x), moments, eps)
    records = [key | found for key in keys for found in measure(case, key["algorithm"], key["accumulator"])]
    return [_with_interval(record) for record in records]


def _rows(rng: np.random.Generator, cell: dict[str, Any], rows: int) -> NDArray:
    dtype, kappa = dtype_of(cell["dtype"]), cell["kappa"]
    if cell["data"] == "outlier":
        return outliers.rows(rng, rows, cell["hidden"], dtype, kappa)
    return inputs.rows(rng, rows, cell["hidden"], dtype, mean=inputs.mean_of_kappa(kappa))


def _problem(rng: np.random.Generator, cell: dict[str, Any], x: NDArray) -> Problem:
    if cell["upstream"] == "aligned":
        return draw_aligned(rng, x, cell["spread"])
    return draw(rng, x, cell["upstream"], "random")


def _with_interval(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the interval of its median, if of more than one row, in place of its `errors`."""
    errors = record.pop("errors")
    if len(errors) == 1 or not np.isfinite(errors).all():
        return record
    low, high = median_interval(errors)
    return record | {"error_u_median_low": low, "error_u_median_high": high}
