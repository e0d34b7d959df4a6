"""The power of kappa with which errors grow to first order, by kernel or by algorithm of `passes`.

It is 0 for a kernel that re-centres its mean. For kernels without an entry there is no theoretical slope, and
they are not used to judge strict tolerance rules.
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
    """The power for y, dx and dgamma, with x of this dtype; NaN for an unknown name."""
    return 0.0 if name in WIDE and dtype != "float64" else POWERS.get(name, math.nan)
