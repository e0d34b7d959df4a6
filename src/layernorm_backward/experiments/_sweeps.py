"""Points to fit slopes to: the errors of three tables in one form, divided into sweeps of one variable."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import dtype_of, sum_dtype, unit_roundoff
from layernorm_backward.theory.powers import WIDE

KEYS = ["source", "kernel", "dtype", "accumulator", "upstream", "quantity"]
COLUMNS = [*KEYS, "kappa", "spread", "hidden", "kappa_g", "error_u_median", "reason"]


class Sweep(NamedTuple):
    """The measured x and median errors, both (n,), of one key along `axis`: kappa, hidden or kappa_g.

    kappa: where it is held fixed, else NaN.
    """

    key: dict[str, str]
    axis: str
    x: Floats
    error: Floats
    kappa: float


def gathered(
    mean_path: pd.DataFrame, backward_error: pd.DataFrame, cancellation: pd.DataFrame
) -> pd.DataFrame:
    """The Gaussian rows of the three tables with COLUMNS; `kernel` holds the algorithm of `mean_path`."""
    ways = mean_path[mean_path["data"] == "gaussian"].rename(columns={"algorithm": "kernel"})
    kernels = backward_error.assign(spread=0.0, accumulator=_sums(backward_error))
    projected = cancellation.assign(
        upstream="aligned", quantity="dx", kappa=1.0, accumulator=_sums(cancellation)
    )
    sources = {"mean_path": ways, "backward_error": kernels, "cancellation": projected}
    return pd.concat([part.assign(source=name)[COLUMNS] for name, part in sources.items()], ignore_index=True)


def first_order(points: pd.DataFrame, below: float, kappa_u: float) -> pd.Series:
    """Which points the first-order law can hold for; unmeasured points are kept for their keys."""
    names = points[["kernel", "dtype", "accumulator"]].drop_duplicates()
    u = {key: _sum_u(*key) for key in names.itertuples(index=False, name=None)}
    sums = [u[key] for key in zip(points["kernel"], points["dtype"], points["accumulator"], strict=True)]
    result = points["dtype"].map({name: unit_roundoff(dtype_of(name)) for name in names["dtype"]})
    error = points["error_u_median"] * result
    small = (error > 0) & (error < below) & (points["kappa"] * sums < kappa_u)
    return small | (points["reason"] != "")


def sweeps(points: pd.DataFrame, hidden: int, fewest: int) -> Iterator[Sweep]:
    """kappa at D = `hidden`; D at the largest kappa, and kappa_g at the smallest, that has `fewest` points.

    A key without a measured point keeps its sweep, which is empty.
    """
    plain, at_hidden = points["spread"] == 0, points["hidden"] == hidden
    projected = (points["upstream"] == "aligned") & (points["quantity"] == "dx")
    for sweep, _ in _along("kappa", points[plain & at_hidden]):
        yield sweep
    for sweep, kappas in _along("hidden", points[plain]):
        yield _at_one(sweep, kappas, fewest, max)
    for sweep, kappas in _along("kappa_g", points[projected & at_hidden]):
        yield _at_one(sweep, kappas, fewest, min)


def _along(axis: str, points: pd.DataFrame) -> Iterator[tuple[Sweep, Floats]]:
    """A sweep over all the measured points of each key, and the kappa of each."""
    x, error, kappa = (points[name].to_numpy(float) for name in (axis, "error_u_median", "kappa"))
    measured = points["reason"].to_numpy() == ""
    for names, rows in points.groupby(KEYS, sort=False).indices.items():
        kept = rows[measured[rows]]
        yield Sweep(dict(zip(KEYS, names, strict=True)), axis, x[kept], error[kept], np.nan), kappa[kept]


def _at_one(sweep: Sweep, kappas: Floats, fewest: int, pick: Callable[[list[float]], float]) -> Sweep:
    """The sweep's points at one kappa; where none has `fewest` of them, at one that has most."""
    found, counts = np.unique(kappas, return_counts=True)
    if not found.size:
        return sweep
    kappa = pick(found[counts >= min(fewest, counts.max())].tolist())
    here = kappas == kappa
    return sweep._replace(x=sweep.x[here], error=sweep.error[here], kappa=kappa)


def _sum_u(kernel: str, dtype: str, accumulator: str) -> float:
    """u of the dtype in which a kernel or way keeps the sums of its statistics."""
    name = dtype if accumulator == "storage" else accumulator
    return unit_roundoff(dtype_of("float64" if kernel in WIDE else name))


def _sums(kernels: pd.DataFrame) -> pd.Series:
    """The dtype in which kernels keep their sums; "storage" where it is the dtype of x."""
    names = [
        "float64" if kernel in WIDE else sum_dtype(dtype_of(dtype)).name
        for kernel, dtype in zip(kernels["kernel"], kernels["dtype"], strict=True)
    ]
    own = kernels["dtype"].to_numpy() == names
    return pd.Series(names, index=kernels.index).mask(own, "storage")
