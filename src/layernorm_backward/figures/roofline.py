"""Roofline: what every kernel reaches, under the roofs of memory bandwidth and of arithmetic."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.figures import _gpu, _panels, style
from layernorm_backward.figures.timing_cpu import most_threads

TABLES = ("ceiling_cpu", "timing_cpu", "traffic_cpu", "ceiling_gpu", "timing_gpu")
CAPTION = (
    "Operations per second against modelled operations per byte, each kernel at its largest shape ($D$ near "
    "1024) and its most threads. Roofs: best stream and multiply-add peak with all threads (solid) and one "
    "(dashed). The reference has no point in float32, since its intermediates are float64. Where a GPU was "
    "measured: its roof (dotted), and `cuda_fused` with the operations of `numba_fused` and the useful bytes."
)
ALIKE = 0.99  # share of the most elements from which a shape is as large
_GPU = ":"  # the line of its roof
_ON_GPU, _ON_CPU = "cuda_fused", "numba_fused"


def draw(
    ceiling_cpu: pd.DataFrame,
    timing_cpu: pd.DataFrame,
    traffic_cpu: pd.DataFrame,
    ceiling_gpu: pd.DataFrame,
    timing_gpu: pd.DataFrame,
) -> Figure:
    """Rows are directions, columns dtypes; roofs of all threads solid, of one dashed, of a GPU dotted."""
    points = _points(most_threads(_panels.measured(timing_cpu, "median_s")), traffic_cpu)
    roofs = _panels.measured(ceiling_cpu).dropna(subset=["gb_per_s", "gflop_per_s"], how="all")
    if points.empty or roofs.empty:
        return _panels.empty(timing_cpu if points.empty else ceiling_cpu, "Roofline")
    gpu_roofs = _panels.measured(ceiling_gpu).dropna(subset=["gb_per_s", "gflop_per_s"], how="all")
    gpu_points = _points_gpu(timing_gpu, traffic_cpu)
    directions = [name for name in DIRECTIONS if name in set(points["direction"])]
    dtypes = _panels.dtypes(points["dtype"])[:2]
    height = 0.7 + (1.05 if gpu_roofs.empty and gpu_points.empty else 1.45) * len(directions)
    figure, axes = _panels.grid(len(directions), len(dtypes), height, sharex=True, sharey=True)
    reach = (0.5 * points["intensity"].min(), 16 * points["intensity"].max())
    drawn = pd.concat([points, gpu_points]) if len(gpu_points) else points
    for (row, column), panel in np.ndenumerate(axes):
        _roofs(panel, roofs[roofs["dtype"] == dtypes[column]], reach)
        _roof_gpu(panel, gpu_roofs, dtypes[column], reach)
        part = drawn[(drawn["dtype"] == dtypes[column]) & (drawn["direction"] == directions[row])]
        for point in part.to_dict("records"):
            panel.plot(
                [point["intensity"]], [point["gflop_per_s"]], **style.look(point["kernel"]).point, zorder=3
            )
        _panels.unmeasured(panel, part)
        _panels.subject(panel, f"{directions[row]}, {dtypes[column]}")
        if row == len(directions) - 1:
            panel.set_xlabel("operations / byte")
        if column == 0:
            panel.set_ylabel(r"$10^9$ operations / s")
    axes[0, 0].set_ylim(bottom=0.4 * points["gflop_per_s"].min())
    guides = [_panels.guide("roof of all threads", "-"), _panels.guide("roof of one thread")]
    guides += [] if gpu_roofs.empty else [_panels.guide("roof of the GPU", _GPU)]
    shown = drawn[drawn["dtype"].isin(dtypes)]
    _panels.legend(figure, shown["kernel"], *guides, line=False, columns=4)
    _panels.note(figure, _unmeasured(gpu_roofs, ceiling_gpu, gpu_points, timing_gpu))
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
    far = _panels.octaves_off(timing)
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


def _points_gpu(timing: pd.DataFrame, traffic: pd.DataFrame) -> pd.DataFrame:
    """Ours at D nearest to 1024 and there the largest shape, one row per direction and dtype.

    Operations an element are those of the kernel on the CPU, whose sums it does, and bytes the useful ones.
    """
    rows, _ = _gpu.timed(timing[timing["kernel"] == _ON_GPU])
    model = _panels.measured(traffic[traffic["kernel"] == _ON_CPU], "operations_per_element")
    operations = rows["direction"].map(model.groupby("direction")["operations_per_element"].median())
    elements = (rows["rows"] * rows["hidden"]).astype(float)
    rows = rows.assign(
        far=_panels.octaves_off(rows),
        fewer=-elements,
        intensity=operations * elements / rows["bytes"].astype(float),
        gflop_per_s=operations * elements / rows["median_s"] / 1e9,
    ).dropna(subset=["intensity"])
    return rows.sort_values(["far", "fewer"], kind="stable").drop_duplicates(["direction", "dtype"])


def _roof_gpu(panel: Axes, roofs: pd.DataFrame, dtype: str, reach: tuple[float, float]) -> None:
    """The fastest stream over the largest arrays in any dtype, since memory moves bytes; the dtype's peak."""
    streams = roofs[roofs["bytes"] == roofs["bytes"].where(roofs["gb_per_s"].notna()).max()]
    peak = roofs[roofs["dtype"] == sum_dtype(dtype_of(dtype)).name]
    slope, top = streams["gb_per_s"].max(), peak["gflop_per_s"].max()
    if np.isfinite(slope) or np.isfinite(top):
        intensity = np.geomspace(*reach, 200)
        panel.plot(intensity, np.fmin(slope * intensity, top), _GPU, color=style.GREY, zorder=2)


def _unmeasured(
    roofs: pd.DataFrame, ceiling: pd.DataFrame, points: pd.DataFrame, timing: pd.DataFrame
) -> str:
    """What of a GPU was not measured, and why."""
    if roofs.empty and points.empty:
        return f"No GPU was measured: {_panels.reasons(timing)[0]}."
    if roofs.empty:
        return f"The roof of the GPU was not measured: {_panels.reasons(ceiling)[0]}."
    return f"No {_ON_GPU} was timed: {_panels.reasons(timing)[0]}." if points.empty else ""
