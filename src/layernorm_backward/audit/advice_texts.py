"""The likely causes that an audit prints for failed properties, by property or by a shared cause."""

FORMULA = "backward is not the derivative of forward, or forward is too inaccurate to tell"
WRONG = "as wrong as on ordinary rows: correct that first"
READ_ONLY = "read-only arrays are refused or written to; the gradient check passes them, too"
OVERWRITTEN = "backward writes to the y that forward returned: allocate dx separately"
LAST_AXIS = "normalize over the last axis, sum dgamma and dbeta over all others"
UNLIKE = "runs differ even without other calls between them: make them repeatable first"
ADVICE: dict[str, str] = {
    "eps_obeyed": "eps is not the one given, or not inside the root",
    "long_sums": "keep sums over rows in float32 or wider",
    "ones_counted": "dbeta is summed in a dtype too narrow for the count: sum in float32 or wider",
    "repeatable": "a sum without a fixed order, uninitialized memory, or backward writes to `saved`",
    "undisturbed": "calls share a buffer or a cache: the next call overwrites what is saved or returned, or "
    "a call reuses what an earlier one left",
    "inputs_kept": "the input arrays are overwritten",
    "into_out": "write each result to all of its `out`, whatever that held, and nothing outside it",
    "edge_width_1": "for D = 1 dx and dgamma must be exactly 0",
    "edge_no_rows": "for no rows dgamma and dbeta must be 0",
    "edge_nan_row": "a NaN must stay in its row of y and dx",
    "edge_x_deleted": "backward reads x, which was not saved",
    "edge_non_contiguous": "arrays may be non-contiguous: use their strides, or copy them",
    "edge_read_only": READ_ONLY,
    "edge_dy_sparse": "dx is not 0 in general where dy is 0",
    "edge_gamma_zeros": "x_hat cannot be recomputed from y where gamma is 0; gamma may be negative",
    "edge_gamma_uniform": "gamma may be constant and not 1",
} | dict.fromkeys(("edge_dy_transposed", "edge_dy_expanded"), "dy may have another memory layout than x")
ADVICE |= dict.fromkeys(("edge_leading_axes", "edge_one_axis", "edge_four_axes"), LAST_AXIS)
ADVICE |= dict.fromkeys(
    (
        "edge_widths",
        "edge_widths_far",
        "edge_width_4099",
        "edge_rows_1031",
        "edge_widths_short",
        "edge_few_rows",
    ),
    "the elements or rows that remain after whole blocks are lost",
)
CHUNKS = "rows of y or dx are wrong where there are many rows: check the boundaries between chunks of rows"
FLAT = (
    "the std is 0, so that only the rounding error of the mean is left: correct the error that grows with "
    "mean/std first"
)
FAR_MEAN = "the mean is much larger than the std: correct the error that grows with mean/std first"
RANGE = "a square or a product overflows or underflows, or eps is not the one given"
LEVEL = (
    "too large at every mean/std: the formula, eps or a dtype is wrong, the variance is divided by D-1, or "
    "rows are summed term by term"
)
FEW = "too large from some mean/std on, without a clear power law"
SWEEP = "error grows with mean/std: keep mean/std below the value of _kappa, or centre the row twice"
SQUARE = "error grows with the square of mean/std: do not use E[x^2] - E[x]^2, and centre the row twice"
