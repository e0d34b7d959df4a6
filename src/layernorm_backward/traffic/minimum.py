"""The minimum number of bytes that a pass can move: each of its arrays is read or written once."""

from layernorm_backward.directions import TENSORS
from layernorm_backward.dtypes import dtype_of, sum_dtype

VECTORS = {"forward": 2, "backward": 3}  # (D,): gamma, beta; gamma, dgamma, dbeta


def minimum_bytes(direction: str, dtype: str, rows: int, hidden: int) -> int:
    """Bytes of all arrays of a pass over (rows, hidden), gamma in x's dtype."""
    tensors = TENSORS[direction] * rows * hidden * dtype_of(dtype).itemsize
    return tensors + small_bytes(direction, dtype, rows, hidden)


def small_bytes(direction: str, dtype: str, rows: int, hidden: int) -> int:
    """Bytes of mean and rstd of each row, and of the vectors of length `hidden`."""
    storage = dtype_of(dtype)
    return 2 * rows * sum_dtype(storage).itemsize + VECTORS[direction] * hidden * storage.itemsize
