"""The largest error that a timed kernel may have, in u of the result's dtype.

Sums over rows have the dtype of gamma, and limits in its u. A kernel that saves x or x_hat rounded to 16 bits
adds a rounding error to each term of dgamma: about 0.4 u of x's dtype against the root of the sum
of their squares, which is about dgamma here, whatever the rows. No dbeta depends on x_hat.
"""

from typing import Any

from numpy.typing import NDArray

from layernorm_backward.bench.setting import Setting
from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.untrusted.reachable import arrays as arrays_in

LIMIT_U = {2: 8.0, 4: 100.0, 8: 100.0}  # by bytes of a number
SUM_LIMIT_U = 0.1  # a row more: what a running sum over the rows shows is below a fifth of it
FIRST_ROWS = 64  # that tell whether an array is x
ROUNDED_U = 2.0  # of x's dtype: a factor of 1.01 is 2.56 u in bfloat16


def limit_u(result: str, setting: Setting, rounded: bool) -> float:
    """Of y, dx, dgamma or dbeta; `rounded` says that the backward pass gets x in 16 bits from the forward."""
    if result not in ("dgamma", "dbeta"):
        return LIMIT_U[setting.itemsize]
    itemsize = dtype_of(setting.gamma_dtype).itemsize
    limit = LIMIT_U[itemsize] + (SUM_LIMIT_U * setting.rows if itemsize > 2 else 0.0)
    if result == "dgamma" and rounded and itemsize > setting.itemsize:
        in_u = unit_roundoff(dtype_of(setting.dtype)) / unit_roundoff(dtype_of(setting.gamma_dtype))
        return max(limit, ROUNDED_U * in_u)
    return limit


def rounds(saved: Any, x: NDArray) -> bool:
    """Whether an array of x's size in `saved` has 16 bits and is not x; or none is seen there at all."""
    if x.itemsize > 2:
        return False
    like = [part for part in arrays_in(saved) if part.size == x.size and part.ndim > 1]
    return not like or any(part.itemsize == 2 and not _is(part, x) for part in like)


def _is(part: NDArray, x: NDArray) -> bool:
    return bool((part.reshape(x.shape)[:FIRST_ROWS] == x[:FIRST_ROWS]).all())
