"""The rows of a trained encoder's layer normalizations, and what each way to the statistics makes of them."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("model", "model_error")
CAPTION = (
    "Rows of a trained encoder, $dy\\sim N(1,1)$. (a) $\\lvert$mean$\\rvert$/std of a row at each layer "
    "normalization: 5 % to 95 %, median (dot), largest (cross); grey line: a row of one element. (b) Largest "
    "error of $dx$ in $u$ once multiples of its deviation are added to each row, infinite ones on the upper "
    "edge; shaded: the rows as they are; dashed: bounds of `two_pass` and `recentred`, equal at first. The "
    "naive algorithms nearly coincide, and so do those that stay flat. (c), (d) Largest error on the rows as "
    "they are: all algorithms but `welford` and `shifted` lie close together."
)
_BOUNDED = ("two_pass", "recentred")
_SITE = "layer normalization (0: embeddings)"
_SHADE = "#E4E4E4"
_TOP = 1e7  # the upper edge of panel (b)


def draw(model: pd.DataFrame, model_error: pd.DataFrame) -> Figure:
    """Above: the rows, and the error as they are moved; below: the error at each layer normalization."""
    sites, errors = _panels.measured(model, "offset_median"), _panels.measured(model_error, "dx_error_u_max")
    if sites.empty or errors.empty:
        return _panels.empty(model_error if errors.empty else model, "Rows of a trained encoder")
    sites, errors = (table[table["upstream"] == _upstream(table["upstream"])] for table in (sites, errors))
    wide, narrow = (_panels.dtypes(errors["dtype"])[end] for end in (0, -1))
    stored = errors[errors["accumulator"] == "storage"]
    figure, axes = _panels.grid(2, 2, 4.7)
    _offsets(axes[0, 0], sites[sites["dtype"] == _panels.dtypes(sites["dtype"])[0]])
    _moved(axes[0, 1], sites, stored[stored["dtype"] == wide])
    _panels.subject(axes[0, 1], wide)
    for panel, dtype in zip(axes[1], (wide, narrow), strict=True):
        _each(panel, errors[(errors["offset"] == 0) & (errors["dtype"] == dtype)])
        _panels.subject(panel, dtype if dtype == wide else f"{dtype}, sums {dtype}")
    _panels.legend(figure, errors["algorithm"], _panels.guide("bound"), _panels.guide("slopes 1, 2", ":"))
    return figure


def _upstream(names: pd.Series) -> str:
    return "shifted" if "shifted" in set(names) else names.iloc[0]


def _offsets(panel: Axes, sites: pd.DataFrame) -> None:
    look = style.look("dx")
    panel.vlines(sites["layer"], sites["offset_q05"], sites["offset_q95"], color=look.colour, linewidth=1.2)
    panel.plot(sites["layer"], sites["offset_median"], **look.point)
    panel.plot(sites["layer"], sites["offset_max"], **style.look("y").point)
    alone = 1 / np.sqrt(max(int(sites["hidden"].iloc[0]) - 1, 1))
    panel.axhline(alone, color=style.GREY, linewidth=0.9)
    panel.set_yscale("log")
    _panels.powers(panel.yaxis)
    panel.set_xlabel(_SITE)
    panel.set_ylabel("|mean|/std of a row")


def _moved(panel: Axes, sites: pd.DataFrame, errors: pd.DataFrame) -> None:
    """The layer normalization with the most offsets; its rows as they are stand at their median offset."""
    counts = errors.groupby("layer")["offset"].nunique()
    errors = errors[errors["layer"] == (counts.idxmax() if len(counts) else -1)]
    own = sites["offset_median"].median()
    errors = errors.assign(offset=errors["offset"].where(errors["offset"] > 0, own))
    _panels.unmeasured(panel, errors)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.axvspan(sites["offset_q05"].min(), sites["offset_max"].max(), color=_SHADE, linewidth=0)
    far = np.geomspace(1, max([10.0, *errors["offset"]]), 50)
    for slope in (1, 2):
        panel.plot(far, far**slope, ":", color=style.GREY, linewidth=0.9)
    for name in _BOUNDED:
        part = errors[(errors["algorithm"] == name) & np.isfinite(errors["bound_u"])].sort_values("offset")
        panel.plot(part["offset"], part["bound_u"], "--", color=style.look(name).colour, linewidth=0.8)
    finite = errors[np.isfinite(errors["dx_error_u_max"])]
    _panels.curves(panel, finite, "offset", "dx_error_u_max", "algorithm")
    for row in errors[np.isinf(errors["dx_error_u_max"])].to_dict("records"):
        panel.plot([row["offset"]], [_TOP], **style.look(row["algorithm"]).point, clip_on=False)
    panel.set_ylim(0.5, _TOP)
    _panels.powers(panel.xaxis)
    _panels.powers(panel.yaxis)
    panel.set_xlabel("|mean|/std of the rows")
    panel.set_ylabel("error of $dx$ ($u$)")


def _each(panel: Axes, errors: pd.DataFrame) -> None:
    """Curves for sums in the dtype itself; where wider sums were measured too, their range is shaded."""
    _panels.unmeasured(panel, errors)
    wider = errors[errors["accumulator"] != "storage"].groupby("layer")["dx_error_u_max"].agg(["min", "max"])
    _panels.curves(panel, errors[errors["accumulator"] == "storage"], "layer", "dx_error_u_max", "algorithm")
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    panel.set_ylim(min(low, 0.2), max(high, 30))
    if len(wider):
        panel.fill_between(wider.index, wider["min"] / 1.1, wider["max"] * 1.1, color=style.GREY, linewidth=0)
        at = (wider.index.min(), wider["max"].iloc[0] * 1.2)
        panel.annotate(f"every way, sums {_wider(errors)}", at, va="bottom")
    _panels.powers(panel.yaxis)
    panel.set_xlabel(_SITE)
    panel.set_ylabel("error of $dx$ ($u$)")


def _wider(errors: pd.DataFrame) -> str:
    return next(name for name in errors["accumulator"] if name != "storage")
