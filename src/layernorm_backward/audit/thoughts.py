"""What an audit thinks of what failed, in words: by property, or by a cause that several have."""

FORMULA = "backward is not the derivative of forward, or forward is too rough to tell"
WRONG = "as wrong as everywhere: mend that first"
READ_ONLY = "read-only arrays, as the gradient check passes them too, are refused or written to"
OVERWRITTEN = "backward writes to the y that forward returned: give dx memory of its own"
LAST_AXIS = "normalize over the last axis, sum dgamma and dbeta over all others"
UNLIKE = "no two runs agree, other calls or none: make them repeatable first"
ADVICE: dict[str, str] = {
    "eps_obeyed": "eps is not the one given, or not inside of the root",
    "long_sums": "keep sums over rows in float32 or wider",
    "ones_counted": "dbeta is summed in a dtype that stands still",
    "repeatable": "a sum without a fixed order, memory that was never set, or backward writes to `saved`",
    "undisturbed": "calls share a buffer or a cache: what is saved or returned is overwritten by the next "
    "call, or an earlier call's is taken",
    "inputs_kept": "the caller's arrays are overwritten",
    "into_out": "write each result into all of its `out`, whatever that held, and nothing beside it",
    "edge_width_1": "for D = 1 dx and dgamma are to be exactly 0",
    "edge_no_rows": "for no rows dgamma and dbeta are 0",
    "edge_nan_row": "a NaN stays in its row of y and dx",
    "edge_x_deleted": "backward reads x, which was not saved",
    "edge_non_contiguous": "arrays need not be contiguous: read them by their strides, or copy them",
    "edge_read_only": READ_ONLY,
    "edge_dy_sparse": "where dy is 0, dx is not",
    "edge_gamma_zeros": "x_hat cannot be had from y where gamma is 0; gamma may be negative",
    "edge_gamma_uniform": "gamma may be the same throughout and not 1",
} | dict.fromkeys(("edge_dy_transposed", "edge_dy_expanded"), "dy may lie in memory unlike x")
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
    "what is left over after whole blocks is lost",
)
CHUNKS = "rows of y or dx are wrong where there are many: look at the borders between chunks of rows"
FLAT = (
    "the std is 0, and what the mean is rounded by is all that is left: mend what grows with mean/std first"
)
FAR_MEAN = "the mean is large beside the std: mend what grows with mean/std first"
RANGE = "a square or a product overflows or underflows, or eps is not the one given"
LEVEL = (
    "too large at every mean/std: the formula, eps or a dtype is wrong, the variance is over D-1, or "
    "rows are added up one by one"
)
FEW = "too large from a mean/std on, by no clear power of it"
SWEEP = "grows with mean/std: keep that below the value of _kappa, or centre the row twice"
SQUARE = "grows with the square of mean/std: do not use E[x^2] - E[x]^2, and centre the row twice"
