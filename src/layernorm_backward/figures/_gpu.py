"""Shared by the figures of times on a GPU: the selection of rows, and their panels."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels

OURS = ("cuda_fused", "cuda_uncentred", "cuda_separate", "cupy_compact")
DTYPES = ("float32", "bfloat16")  # in which all contenders are measured
Panel = tuple[Axes, pd.DataFrame]
COLD = "Working sets under four times the L2 cache, which is filled with other data before each pass."


def dtypes(rows: pd.DataFrame) -> list[str]:
    """float32 and bfloat16 where they occur, else the others."""
    found = _panels.dtypes(rows["dtype"])
    return [name for name in DTYPES if name in found] or found


def directions(rows: pd.DataFrame) -> list[str]:
    """The directions that occur, backward first."""
    return [name for name in ("backward", "forward") if name in set(rows["direction"])]


def panels(rows: pd.DataFrame, label: str, aside: float, each: float) -> tuple[Figure, list[Panel]]:
    """A panel for each direction and dtype of `dtypes(rows)`, over D, with the rows it is to show.

    Directions are rows of panels, `each` inches high, dtypes columns; the figure is `aside` inches higher.
    """
    wide, found = dtypes(rows), directions(rows)
    figure, axes = _panels.grid(len(found), len(wide), aside + each * len(found), sharex=True, sharey=True)
    parts = []
    for (row, column), panel in np.ndenumerate(axes):
        part = rows[(rows["direction"] == found[row]) & (rows["dtype"] == wide[column])]
        parts.append((panel, part))
        _panels.unmeasured(panel, part)
        _panels.subject(panel, f"{found[row]}, {wide[column]}")
        if row == len(found) - 1:
            panel.set_xlabel("hidden size $D$")
        if column == 0:
            panel.set_ylabel(label)
    return figure, parts


def roofs(rows: pd.DataFrame) -> str:
    """Which streams are the roof and in how many cells, the most frequent first, as a note."""
    cells = rows.dropna(subset=["roof_gb_per_s"]).drop_duplicates(["direction", "dtype", "rows", "hidden"])
    counts = cells.groupby("direction")["roof_operation"].value_counts()
    told = [
        f"{direction}, {', '.join(f'{name} ({count})' for name, count in counts[direction].items())}"
        for direction in directions(cells)
    ]
    return f"The roof, by number of cells: {'; '.join(told)}." if told else ""


def timed(timing_gpu: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows with a time, gamma in the dtype of x, and a working set larger than the cache; and a note.

    If there are none, rows with smaller working sets.
    """
    rows = _panels.measured(timing_gpu, "median_s")
    rows = rows[rows["gamma_dtype"] == rows["dtype"]]
    beyond = rows[rows["residency"] == "memory"]
    return (rows, COLD if len(rows) else "") if beyond.empty else (beyond, "")


def one_shape(rows: pd.DataFrame) -> pd.DataFrame:
    """For each D, direction and dtype one N: that whose working set is nearest to the median one."""
    cell = ["direction", "dtype"]
    size = np.log2(rows["bytes"].astype(float))
    far = (size - size.groupby([rows[name] for name in cell]).transform("median")).abs()
    at = rows.loc[far.sort_values(kind="stable").index, [*cell, "hidden", "rows"]]
    return rows.merge(at.drop_duplicates([*cell, "hidden"]))
