"""The error of dx against the condition number of the row, for the CUDA kernels and peers on a GPU."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from layernorm_backward.figures import _gpu, _panels, style
from layernorm_backward.figures.backward_error import by_kappa, captioned

TABLES = ("backward_error_gpu",)
CAPTION = (
    "Largest error of $dx$ over the rows, in $u$ of the dtype of $x$, against $\\kappa$, computed on a GPU, "
    "{hidden}, by kernel and peer. Dashed, in the colour of the kernel: bounds. Hatched: "
    "no row of the dtype has this $\\kappa$."
)


def draw(backward_error_gpu: pd.DataFrame) -> Figure:
    """Rows are upstream gradients, columns dtypes."""
    rows = captioned(backward_error_gpu)
    if rows.empty:
        return _panels.empty(backward_error_gpu, "Error of dx against the condition number on a GPU")
    dtypes = _gpu.dtypes(rows)
    rows = rows[rows["dtype"].isin(dtypes)]
    upstreams = [name for name in style.UPSTREAM if name in set(rows["upstream"])]
    height = 1.1 + 1.5 * len(upstreams)
    figure, axes = _panels.grid(len(upstreams), len(dtypes), height, sharex=True, sharey="col")
    for (row, column), panel in np.ndenumerate(axes):
        part = rows[rows["dtype"] == dtypes[column]]
        by_kappa(panel, part[part["upstream"] == upstreams[row]])
        _panels.subject(panel, f"{dtypes[column]}, {style.UPSTREAM[upstreams[row]]}")
        panel.set_ylabel("error of $dx$ ($u$)")
        if row == len(upstreams) - 1:
            panel.set_xlabel(r"condition number $\kappa$")
    for panel in axes[0]:
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, 0.1), max(high, 100))
        _panels.powers(panel.yaxis)
    _panels.powers(axes[0, 0].xaxis)
    for column, dtype in enumerate(dtypes):
        for panel in axes[:, column]:
            _panels.beyond(panel, rows[rows["dtype"] == dtype]["kappa"].max(), rows["kappa"])
    bounds = [_panels.guide("bound")] if rows["bound_u"].notna().any() else []
    _panels.legend(figure, rows["kernel"], *bounds, _panels.no_rows())
    wanted = backward_error_gpu[backward_error_gpu["dtype"].isin(dtypes)]
    _panels.note(figure, _panels.absent(wanted, rows))
    return figure
