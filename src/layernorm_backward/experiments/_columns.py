"""The columns that the tables of times share: keys and sizes, the roof, ratios with their intervals."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments._sets import Cell
from layernorm_backward.timing import cell_roof, sizing
from layernorm_backward.timing.prepared import ACCESSES
from layernorm_backward.timing.timed import labelled, times

KEYS = ("direction", "dtype", "gamma_dtype", "shape", "threads")  # the keys of a cell in the samples


def of_cell(cell: Cell, threads: int) -> dict[str, Any]:
    """The columns of a cell and a thread count: keys, sizes, residency, note."""
    rows, hidden = cell.shape[0] * cell.shape[1], cell.shape[2]
    size = sizing.touched(cell.direction, rows, hidden, cell.dtype)
    named = {"direction": cell.direction, "dtype": cell.dtype, "gamma_dtype": cell.gamma_dtype}
    sizes = {"shape": "x".join(map(str, cell.shape)), "rows": rows, "hidden": hidden, "bytes": size}
    return named | sizes | {"threads": threads} | sizing.placed(size, cell.note)


def roof(samples: pd.DataFrame, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The fastest stream, its rate, and the noise of the cell."""
    name = cell_roof.fastest(samples, cell["direction"])
    gb_per_s = useful_bytes(cell) / stopwatch.summary(samples, name).median_s / 1e9
    return {"roof_operation": name, "roof_gb_per_s": gb_per_s, "noise": cell_roof.noise(samples)}


def of_call(cell: Mapping[str, Any], samples: pd.DataFrame, name: str) -> dict[str, Any]:
    """The columns of the roof, and the times, the rate and the fraction of the roof of one call."""
    found = roof(samples, cell) | times(samples, name)
    found["useful_gb_per_s"] = useful_bytes(cell) / found["median_s"] / 1e9
    return found | stopwatch.ratio(samples, found["roof_operation"], name).columns("roof_fraction")


def with_keys(samples: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Samples with the keys of their cell in front."""
    return labelled(samples, **{key: cell[key] for key in KEYS})


def useful_bytes(cell: Mapping[str, Any]) -> int:
    """The fewest bytes that the pass must read and write."""
    itemsize = dtype_of(cell["dtype"]).itemsize
    return ACCESSES[cell["direction"]] * cell["rows"] * cell["hidden"] * itemsize
