"""The useful bytes per second of the CUDA kernels and of peers on a GPU, under their roof, against D."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from layernorm_backward.figures import _gpu, _panels, style

TABLES = ("timing_gpu",)
CAPTION = (
    "Useful bytes per second on a GPU (median, with quantiles) against the hidden size, by kernel and peer; "
    "$\\gamma$ in the dtype of $x$, arrays beyond the L2 cache. Grey line: the fastest of several copies "
    "(forward) or triads (backward) of the same bytes, the roof; `copy_runtime` is the CUDA runtime's own. "
    "Small points without a line: $D$ is no power of two; kernels are shifted a little against each other "
    "there. `cuda_uncentred`: `cuda_fused` without re-centring; `triton_tutorial`: the kernel of Triton's "
    "tutorial; kernels with one point were timed at that $D$ only. A point that is missing has its reason in "
    "the table."
)
_BESIDE = 0.04  # octaves between kernels at a D that is not a power of two


def draw(timing_gpu: pd.DataFrame) -> Figure:
    """Rows are directions, columns dtypes."""
    rows, cold = _gpu.timed(timing_gpu)
    if rows.empty:
        return _panels.empty(timing_gpu, "Bandwidth of the kernels on a GPU")
    dtypes = _gpu.dtypes(rows)
    rows = _gpu.one_shape(rows[rows["dtype"].isin(dtypes)])
    figure, parts = _gpu.panels(rows, "useful GB / s", 1.0, 1.75)
    for panel, part in parts:
        _panel(panel, part)
    parts[0][0].xaxis.set_major_locator(FixedLocator([4**power for power in range(1, 10)]))
    parts[0][0].set_ylim(0, 1.05 * max(rows["roof_gb_per_s"].max(), rows["useful_gb_per_s"].max()))
    _panels.legend(figure, rows["kernel"], _panels.guide("roof", "-"))
    wanted = timing_gpu[timing_gpu["dtype"].isin(dtypes)]
    _panels.note(figure, _panels.absent(wanted, rows), _launched(rows), _gpu.roofs(rows), cold)
    return figure


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log", base=2)
    rows = rows.sort_values("hidden")
    roof = rows.dropna(subset=["roof_gb_per_s"]).drop_duplicates("hidden")
    roof = roof[_powers_of_two(roof)] if _powers_of_two(roof).any() else roof
    panel.plot(roof["hidden"], roof["roof_gb_per_s"], color=style.GREY, linewidth=0.9, marker="_")
    names = style.ordered(rows["kernel"])
    for number, name in enumerate(names):
        part = rows[rows["kernel"] == name]
        power = _powers_of_two(part)
        beside = 2 ** (_BESIDE * (number - (len(names) - 1) / 2))
        _points(panel, part[power], name, joined=True)
        odd = part[~power]
        _points(panel, odd.assign(hidden=beside * odd["hidden"].astype(float)), name, joined=False)


def _powers_of_two(rows: pd.DataFrame) -> pd.Series:
    return (rows["hidden"] & (rows["hidden"] - 1)) == 0


def _points(panel: Axes, part: pd.DataFrame, name: str, *, joined: bool) -> None:
    look, size = style.look(name), part["bytes"] / 1e9
    value, low, high = (size / part[column] for column in ("median_s", "p80_s", "p20_s"))
    options = look.curve if joined else look.point | {"markersize": 0.65 * look.size}
    _panels.intervals(panel, part["hidden"], value, low, high, **{"linewidth": 0.8} | options)


def _launched(rows: pd.DataFrame) -> str:
    """Whose passes could not be replayed as CUDA graphs, so that the way to the launch is in their time."""
    graphs = rows["method"].eq("graph").groupby(rows["kernel"]).any()
    names = style.ordered(graphs.index[~graphs])
    return f"Launched call by call, not replayed as a CUDA graph: {', '.join(names)}." if names else ""
