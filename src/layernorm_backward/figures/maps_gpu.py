"""The fraction of the roof that each way to lay threads over rows reaches on a GPU, and that of the table."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from layernorm_backward.figures import _gpu, _panels, style

TABLES = ("maps_gpu",)
CAPTION = (
    "Fraction of the roof that `cuda_fused` reaches with each assignment of threads to rows that was tried, "
    "by hidden size: that of its table, and the fastest. Grey line: the roof, the fastest of several copies "
    "(forward) or triads (backward); `copy_runtime` is the CUDA runtime's own. An assignment is named by the "
    "threads of a block x blocks of a multiprocessor, blocks of a cluster, threads of a team, which share a "
    "row, chunks of 16 bytes of a thread, rows that a team loads at once (ring: ahead, into shared memory), "
    "and rest: the share of the rows that later clusters take / rounds of each."
)
TABLE = "table"
_WORTH = 0.98  # only ways below this fraction of the time of the table's way are named
_MOST = 6  # ways that are named
_OTHER = {"marker": ".", "color": "#9A9A9A", "markersize": 3, "linestyle": "none", "alpha": 0.6}
_FASTEST = {
    "marker": "D",
    "color": "#D55E00",
    "markersize": 5,
    "linestyle": "none",
    "markerfacecolor": "none",
}


def draw(maps_gpu: pd.DataFrame) -> Figure:
    """Rows are directions, columns dtypes."""
    rows = _panels.measured(maps_gpu, "roof_fraction")
    if rows.empty:
        return _panels.empty(maps_gpu, "Ways to lay threads over rows on a GPU")
    dtypes = _gpu.dtypes(rows)
    rows = rows[rows["dtype"].isin(dtypes)]
    figure, parts = _gpu.panels(rows, "fraction of the roof", 1.0, 1.75)
    for panel, part in parts:
        _panel(panel, part)
    parts[0][0].xaxis.set_major_locator(FixedLocator([4**power for power in range(1, 10)]))
    parts[0][0].set_ylim(0, 1.05 * max(1.0, rows["roof_fraction"].max()))
    looks = {"of the table": style.look("cuda_fused").point, "the fastest": _FASTEST, "others": _OTHER}
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    figure.legend(
        handles=[*handles, _panels.guide("roof", "-")], loc="outside upper center", ncols=len(handles) + 1
    )
    _panels.note(figure, _faster(rows), _gpu.roofs(rows))
    return figure


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log", base=2)
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    mine = rows["way"] == TABLE
    panel.plot(rows["hidden"][~mine], rows["roof_fraction"][~mine], **_OTHER)
    panel.plot(rows["hidden"][mine], rows["roof_fraction"][mine], **style.look("cuda_fused").point)
    fastest = _fastest(rows)
    panel.plot(fastest["hidden"], fastest["roof_fraction"], **_FASTEST)


def _fastest(rows: pd.DataFrame) -> pd.DataFrame:
    cells = rows.groupby(["direction", "dtype", "hidden"], sort=False)
    return rows.loc[cells["roof_fraction"].idxmax()]


def _faster(rows: pd.DataFrame) -> str:
    """The ways that are clearly faster than the table's, the fastest first."""
    found = _fastest(rows).sort_values("table_ratio")
    found = found[found["table_ratio_high"] < _WORTH]
    named = [
        f"{row.direction} {row.dtype} D = {row.hidden}: {row.way} ({row.table_ratio:.2f})"
        for row in found.head(_MOST).itertuples()
    ]
    if not named:
        return ""
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"Faster than the table's way (time over its time): {'; '.join(named)}{more}."
