"""The time of other packages over ours, by row length, and at one length by what else was varied."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from layernorm_backward.figures import _panels, style

TABLES = ("peers_cpu",)
CAPTION = (
    "Time of each peer over that of `numba_fused` (line: 1), with interval. Open: the package's default, and "
    "`numba_fused` where it allocates its results; filled: at its best (allocator tuned, results' memory "
    "reused). (a) By $D$, beyond the cache; open points are shifted a little to the right; no line connects "
    "only two points. (b) Other cells; an asterisk marks a working set in the cache."
)
CELL = ["direction", "dtype", "gamma_dtype", "threads", "residency"]
AS_THEY_COME = (("torch", "default"), ("jax", "default"), ("numba_fused", "allocating"))
BESIDE = 1.12  # their points stand to the right of the others, so that intervals do not hide each other
COPIES = "out"  # a setting that is neither as a package comes nor its best


def draw(peers_cpu: pd.DataFrame) -> Figure:
    """Left the cell type with most row lengths, beyond the cache if any is; right all others."""
    rows = _panels.measured(peers_cpu[peers_cpu["setting"] != COPIES], "ours_ratio")
    if (rows["ours_ratio"] == 1).all():
        return _panels.empty(peers_cpu, "Time of the peers")
    keys = pd.Series(list(zip(*(rows[name] for name in CELL), strict=True)), index=rows.index)
    beyond = rows[rows["residency"] != "cache"]
    most = (rows if beyond.empty else beyond).groupby(keys)["hidden"].nunique().idxmax()
    others = len(rows[keys != most].drop_duplicates([*CELL, "rows", "hidden"]))
    figure, (axes,) = _panels.grid(1, 2, min(5, max(2.6, 1.0 + 0.16 * others)))
    by_length(axes[0], rows[keys == most])
    axes[0].set_title(f"{most[0]}, {most[1]}, {_thread(most[3])}")
    by_cell(axes[1], rows[keys != most])
    axes[1].set_title("other cells")
    kernels = style.ordered(rows["kernel"])
    fills = [
        Line2D(
            [],
            [],
            color=style.GREY,
            marker="o",
            linestyle="none",
            label="default settings",
            markerfacecolor="none",
        ),
        Line2D([], [], color=style.GREY, marker="o", linestyle="none", label="at its best"),
    ]
    _panels.legend(figure, kernels, *fills)
    return figure


def by_length(panel: Axes, rows: pd.DataFrame) -> None:
    """Ratios against D."""
    sizes = sorted(set(rows["hidden"]))
    for (kernel, setting), part in rows.groupby(["kernel", "setting"]):
        part = part.sort_values("hidden")
        beside = BESIDE if (kernel, setting) in AS_THEY_COME else 1
        _points(panel, part["hidden"] * beside, part, kernel, setting, across=False)
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.xaxis.set_major_locator(FixedLocator([size for size in sizes if size & (size - 1) == 0] or sizes))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())
    _panels.powers(panel.yaxis)
    panel.set(xlabel="hidden size $D$", ylabel="time / ours")


def by_cell(panel: Axes, rows: pd.DataFrame) -> None:
    """Ratios of the other cells, a line each."""
    named = rows.apply(_label, axis=1) if len(rows) else pd.Series(dtype=str)
    names = list(dict.fromkeys(named))
    for (kernel, setting), part in rows.groupby(["kernel", "setting"]):
        heights = named[part.index].map(names.index).astype(float)
        _points(panel, heights, part, kernel, setting, across=True)
    _panels.unmeasured(panel, rows)
    panel.axvline(1, color=style.GREY, linewidth=0.9)
    panel.set_xscale("log")
    _panels.powers(panel.xaxis)
    panel.set_yticks(range(len(names)), names, fontsize=style.SMALL)
    panel.set_ylim(max(1, len(names)) - 0.5, -0.5)
    panel.set_xlabel("time / ours")


def _points(
    panel: Axes, at: pd.Series, part: pd.DataFrame, kernel: str, setting: str, *, across: bool
) -> None:
    value, low, high = (part["ours_ratio" + suffix] for suffix in ("", "_low", "_high"))
    look, as_it_comes = style.look(kernel), (kernel, setting) in AS_THEY_COME
    options = look.point | ({"markerfacecolor": "white"} if as_it_comes else {})
    if not across:
        line = ":" if as_it_comes else look.line
        options |= {"linestyle": line if len(part) > 2 else "none", "linewidth": 0.9}
    x, y = (value, at) if across else (at, value)
    _panels.intervals(panel, x, y, low, high, across=across, **options)


def _label(row: pd.Series) -> str:
    gamma = ", $\\gamma$ float32" if row["gamma_dtype"] != row["dtype"] else ""
    threads, cached = _thread(row["threads"]), row["residency"] == "cache"
    size = f"$N = {row['rows']}$, " * cached + f"$D = {row['hidden']}$"
    return f"{row['direction']}, {row['dtype']}{gamma}, {size}, {threads}" + "*" * cached


def _thread(threads: int) -> str:
    return "1 thread" if threads == 1 else "all threads"
