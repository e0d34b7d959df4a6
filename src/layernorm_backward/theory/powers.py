"""The power of kappa with which errors grow to first order, by kernel or way to mean and variance.

A kernel that re-centres its mean has 0. One without an entry has no theory beside its slopes, and strict
rules of tolerance are not judged by it.
"""

import math

WIDE = frozenset({"reference", "float64_statistics"})  # means in float64 whatever the dtype
POWERS = (
    dict.fromkeys(("naive", "naive_s2", "naive_nn", "naive_compensated"), 2.0)
    | dict.fromkeys(("two_pass", "two_pass_corrected", "welford", "chan", "shifted", "float64_mean"), 1.0)
    | dict.fromkeys(("compact", "overcached", *WIDE), 1.0)
    | dict.fromkeys(("recentred", "recentred_sums", "numpy_blocked", "numba_fused"), 0.0)
)


def power(name: str, dtype: str) -> float:
    """That of y, dx and dgamma for x of a dtype; NaN for a name that is not known."""
    return 0.0 if name in WIDE and dtype != "float64" else POWERS.get(name, math.nan)
