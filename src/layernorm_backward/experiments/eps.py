"""What eps does in each dtype: error and finiteness on usual, constant and nearly constant rows.

usual: N(0,1). constant: one number a row, from N(0,1). nearly_constant: N(0, eps), so that variance and eps
weigh alike. gamma is N(1, 1/4), dy N(1,1). The oracle takes eps as the real number that its float64 holds;
kernels round it to the dtype of their sums, which is part of their error. error_u_max: maximum over the rows;
infinite where a result is not finite, also where that is because the exact dx, of order 1/sqrt(eps), is above
the largest float16. On constant rows the exact dgamma is 0, so that no relative error exists; `reason` then
gives the largest element computed. eps_in_dtype is eps rounded to the storage dtype.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from layernorm_backward import inputs, oracle
from layernorm_backward.double_double import DoubleDouble
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to
from layernorm_backward.errors import error_u, max_abs_error
from layernorm_backward.experiments._arguments import Count, Eps, RunnableKernels, Seed, Several
from layernorm_backward.experiments._results import results
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.problem import Problem, Results, draw
from layernorm_backward.records.tabulate import table

ROW_KINDS = ("usual", "constant", "nearly_constant")


def run(
    *,
    kernels: RunnableKernels,
    dtypes: Several[DtypeName],
    eps: Several[Eps],
    rows: Count,
    hidden: Count,
    seed: Seed,
) -> pd.DataFrame:
    """One row per kernel, dtype, eps, kind of row and quantity."""
    chosen = [KERNELS[name] for name in kernels]
    records: list[dict[str, Any]] = []
    for dtype in tqdm(dtypes, desc="eps", mininterval=1):
        for value in eps:
            for row_kind in ROW_KINDS:
                rng = inputs.generator(seed, DTYPE_NAMES.index(dtype), ROW_KINDS.index(row_kind))
                x = _rows(rng, row_kind, (rows, hidden), value, dtype)
                problem = draw(rng, x, "shifted", "random")
                keys = {"dtype": dtype, "eps": value, "row_kind": row_kind}
                records += _cell(chosen, problem, keys)
    return table(records, "eps")


def _rows(
    rng: np.random.Generator, row_kind: str, shape: tuple[int, int], eps: float, dtype: DtypeName
) -> NDArray:
    if row_kind == "constant":
        return np.repeat(inputs.rows(rng, shape[0], 1, dtype_of(dtype)), shape[1], axis=1)
    return inputs.rows(rng, *shape, dtype_of(dtype), std=1.0 if row_kind == "usual" else float(np.sqrt(eps)))


def _cell(kernels: list[Kernel], problem: Problem, keys: dict[str, Any]) -> list[dict[str, Any]]:
    eps, dtype = keys["eps"], keys["dtype"]
    exact = oracle.results(*problem.values(), eps)
    keys = keys | {"eps_in_dtype": float(round_to(np.array(eps), dtype_of(dtype)))}
    records = []
    for kernel in kernels:
        computed = results(kernel, problem, eps)
        for quantity in Results._fields:
            found = (
                {"reason": computed}
                if isinstance(computed, str)
                else _measured(getattr(computed, quantity), getattr(exact, quantity))
            )
            records.append(keys | {"kernel": kernel.name, "quantity": quantity} | found)
    return records


def _measured(computed: NDArray, exact: DoubleDouble) -> dict[str, Any]:
    finite = bool(np.isfinite(inputs.values(computed)).all())
    if not np.any(exact.hi):
        largest = max_abs_error(computed, exact)
        return {
            "error_u_max": np.nan,
            "finite": finite,
            "reason": f"exact result is 0; largest computed {largest:.3g}",
        }
    return {"error_u_max": float(np.max(error_u(computed, exact))), "finite": finite, "reason": ""}
