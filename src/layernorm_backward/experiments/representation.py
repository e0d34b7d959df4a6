"""What rounding a row with an offset does to dx and to the variance, and what each algorithm adds to that.

For every row in a dtype two errors are reported separately: representation_error, the exact result for the
rounded row against that for the real row, which no algorithm can undo; and error_max, computed against exact,
both for the rounded row. Both are relative (norm-wise for dx), and the largest over the rows; kappa is their
median, distinct_values their minimum. Rows are offset + [0, 1, 2, 3, 4]; offset + D integers drawn from these
five, which a dtype holds without error as far as it holds the offset; and offset + N(0,1). An offset added
exactly leaves the real dx as it is. gamma is N(1, 1/4). A cell in which some row comes out constant or not
finite holds nothing to test: it is not representable, and says why.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward import inputs, oracle, passes
from layernorm_backward.double_double import DoubleDouble, Floats
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to
from layernorm_backward.errors import rel_error
from layernorm_backward.experiments._arguments import Count, Eps, Finite, Named, Names, Seed, Several, each_of
from layernorm_backward.experiments._rows import RoundedRows, rounded_rows
from layernorm_backward.problem import Problem, draw
from layernorm_backward.records.tabulate import table
from layernorm_backward.theory.exact_rows import kappa
from layernorm_backward.variance import accumulators

LADDER = 5
DEVIATIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "ladder": lambda rng, shape: np.tile(np.arange(float(LADDER)), (shape[0], 1)),
    "integers": lambda rng, shape: rng.integers(0, LADDER, shape).astype(np.float64),
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
}


class _Cell(NamedTuple):
    """A problem whose x is offset + deviations, rounded; the exact results of the real rows; its keys."""

    problem: Problem
    real: dict[str, DoubleDouble]
    keys: dict[str, Any]


def run(
    *,
    algorithms: Annotated[Names, each_of(passes.ALGORITHMS)],
    dtypes: Several[DtypeName],
    upstreams: Annotated[Named[Several[inputs.UpstreamKind]], each_of(DEVIATIONS)],
    offsets: Several[Finite],
    hidden: Count,
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per dtype, kind of data, upstream, offset, accumulator, algorithm, quantity (dx, variance)."""
    kinds = [(data, upstream) for data, chosen in upstreams.items() for upstream in chosen]
    records: list[dict[str, Any]] = []
    for dtype in tqdm(dtypes, desc="representation", mininterval=1):
        for data, upstream in kinds:
            keys = {"dtype": dtype, "data": data, "upstream": upstream}
            shape = (rows, LADDER if data == "ladder" else hidden)
            for cell in _cells(keys, offsets, shape, eps, seed):
                records += _measure(cell, algorithms, eps)
    return table(records, "representation")


def _cells(
    keys: dict[str, str], offsets: list[float], shape: tuple[int, int], eps: float, seed: int
) -> Iterator[_Cell]:
    """The same deviations, gamma and dy at every offset."""
    rng, dtype = inputs.generator(seed, DTYPE_NAMES.index(keys["dtype"]), shape[1]), dtype_of(keys["dtype"])
    deviations = DEVIATIONS[keys["data"]](rng, shape)
    problem = draw(rng, round_to(deviations, dtype), keys["upstream"], "random")
    real = _exact(deviations, problem, eps)
    for offset in offsets:
        x = round_to(offset + deviations, dtype)
        yield _Cell(problem._replace(x=x), real, keys | {"offset": offset, "hidden": shape[1]})


def _exact(x: Floats, problem: Problem, eps: float) -> dict[str, DoubleDouble]:
    """Exact dx (rows, D) and variance (rows, 1) of rows x with the problem's gamma and dy."""
    _, gamma, _, dy = problem.values()
    return {
        "dx": oracle.backward(x, gamma, dy, eps).dx,
        "variance": oracle.moments(x).variance.at((..., None)),
    }


def _measure(cell: _Cell, algorithms: list[str], eps: float) -> list[dict[str, Any]]:
    problem, keys = cell.problem, cell.keys
    x = inputs.values(problem.x)
    found = rounded_rows(x, keys["dtype"])
    common = keys | {"distinct_values": found.distinct, "representable": found.reason == ""}
    runs = [(name, sums) for sums in accumulators(problem.x.dtype) for name in algorithms]
    exact = _exact(x, problem, eps) if found.reason == "" else {}
    facts = {quantity: _facts(cell, found, x, exact, quantity) for quantity in cell.real}
    records = []
    for name, sums in runs:
        errors = _errors(name, sums, problem, exact, eps)
        labels = {"algorithm": name, "accumulator": sums}
        records += [
            common | labels | facts[quantity] | {"quantity": quantity} | errors.get(quantity, {})
            for quantity in cell.real
        ]
    return records


def _facts(
    cell: _Cell, found: RoundedRows, x: Floats, exact: dict[str, DoubleDouble], quantity: str
) -> dict[str, Any]:
    """What holds for the rounded rows, whatever the algorithm."""
    if not exact:
        return {"reason": found.reason}
    moments = oracle.moments(x)
    moved, real = exact[quantity] - cell.real[quantity], cell.real[quantity].hi
    error = np.linalg.norm(moved.hi, axis=-1) / np.linalg.norm(real, axis=-1)
    return {"representation_error": float(np.max(error)), "kappa": float(np.median(kappa(moments)))}


def _errors(
    name: str, sums: str, problem: Problem, exact: dict[str, DoubleDouble], eps: float
) -> dict[str, dict[str, float]]:
    if not exact:
        return {}
    accumulator = accumulators(problem.x.dtype)[sums]
    found = passes.statistics(name, problem.x, eps, accumulator)
    with np.errstate(over="ignore", invalid="ignore"):
        gamma, dy = (array.astype(accumulator, copy=False) for array in (problem.gamma, problem.dy))
        dx, _ = passes.gradients(found.x_hat, found.rstd, gamma, dy)
        computed = {"dx": passes.stored(dx, problem.x.dtype), "variance": found.variance[:, None]}
    return {
        quantity: {"error_max": float(np.max(rel_error(computed[quantity], exact[quantity])))}
        for quantity in exact
    }
