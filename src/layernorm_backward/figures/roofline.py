"""Roofline: what every kernel reaches, under the roofs of memory bandwidth and of arithmetic."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.timing_cpu import most_threads

TABLES = ("ceiling_cpu", "timing_cpu", "traffic_cpu")
CAPTION = (
    "Operations a second against modelled operations a byte, each kernel at its largest shape ($D$ near "
    "1024) and its most threads. Roofs: best stream and multiply-add peak with all threads (solid) and one "
    "(dashed). The reference has no point in float32, since its intermediates are float64."
)
HIDDEN = 1024
ALIKE = 0.99  # share of the most elements from which a shape is as large


def draw(ceiling_cpu: pd.DataFrame, timing_cpu: pd.DataFrame, traffic_cpu: pd.DataFrame) -> Figure:
    """Rows are directions, columns dtypes; solid roofs with all threads, dotted ones with one."""
    points = _points(most_threads(_panels.measured(timing_cpu, "median_s")), traffic_cpu)
    roofs = ceiling_cpu.dropna(subset=["gb_per_s", "gflop_per_s"], how="all")
    if points.empty or roofs.empty:
        return _panels.empty(timing_cpu if points.empty else ceiling_cpu, "Roofline")
    directions = [name for name in style.DIRECTIONS if name in set(points["direction"])]
    dtypes = _panels.dtypes(points["dtype"])[:2]
    height = 0.7 + 1.05 * len(directions)
    figure, axes = _panels.grid(len(directions), len(dtypes), height, sharex=True, sharey=True)
    reach = (0.5 * points["intensity"].min(), 16 * points["intensity"].max())
    for (row, column), panel in np.ndenumerate(axes):
        _roofs(panel, roofs[roofs["dtype"] == dtypes[column]], reach)
        part = points[(points["dtype"] == dtypes[column]) & (points["direction"] == directions[row])]
        for point in part.to_dict("records"):
            panel.plot(
                [point["intensity"]], [point["gflop_per_s"]], **style.look(point["kernel"]).point, zorder=3
            )
        _panels.subject(panel, f"{directions[row]}, {dtypes[column]}")
        if row == len(directions) - 1:
            panel.set_xlabel("operations / byte")
        if column == 0:
            panel.set_ylabel(r"$10^9$ operations / s")
    axes[0, 0].set_ylim(bottom=0.4 * points["gflop_per_s"].min())
    _panels.legend(
        figure,
        points["kernel"],
        _panels.guide("roof of all threads", "-"),
        _panels.guide("roof of one thread"),
        line=False,
        columns=4,
    )
    return figure


def _points(timing: pd.DataFrame, traffic: pd.DataFrame) -> pd.DataFrame:
    """A shape of each kernel: of its largest that with D nearest to 1024, with the model's operations, bytes.

    Those of the size nearest to it: whether stores go past the caches, and so the bytes, depend on the size.
    """
    if timing.empty or traffic.empty:
        return timing.iloc[:0]
    keys = ["kernel", "direction", "dtype"]
    elements = (timing["rows"] * timing["hidden"]).astype(float)
    largest = elements.groupby([timing[key] for key in keys]).transform("max")
    timing = timing[elements > ALIKE * largest]
    far = np.abs(np.log2(timing["hidden"].astype(float) / HIDDEN))
    timing = timing.loc[far.sort_values(kind="stable").index].drop_duplicates(keys)
    model = _panels.measured(traffic, "operations_per_element", "modelled_bytes")
    size = (model["rows"] * model["hidden"]).astype(float)
    model = model.assign(size=size, bytes_per_element=model["modelled_bytes"] / size)
    points = timing.merge(model[[*keys, "operations_per_element", "bytes_per_element", "size"]], on=keys)
    far = np.abs(np.log2((points["rows"] * points["hidden"]).astype(float) / points["size"]))
    points = points.loc[far.sort_values(kind="stable").index].drop_duplicates(keys)
    elements = (points["rows"] * points["hidden"]).astype(float)
    return points.assign(
        intensity=points["operations_per_element"] / points["bytes_per_element"],
        gflop_per_s=points["operations_per_element"] * elements / points["median_s"] / 1e9,
    )


def _roofs(panel: Axes, roofs: pd.DataFrame, reach: tuple[float, float]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    intensity = np.geomspace(*reach, 200)
    threads = sorted(set(roofs["threads"]))
    for number in {threads[0], threads[-1]} if threads else ():
        part = roofs[roofs["threads"] == number]
        streams = part[part["bytes"] == part["bytes"].where(part["gb_per_s"].notna()).max()]
        slope, top = streams["gb_per_s"].max(), part["gflop_per_s"].max()
        line = "-" if number == threads[-1] else "--"
        panel.plot(intensity, np.fmin(slope * intensity, top), line, color=style.GREY, zorder=2)
    _panels.powers(panel.xaxis)
    _panels.powers(panel.yaxis)
