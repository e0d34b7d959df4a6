"""dgamma and dbeta of arrays too large for the oracle: sums over rows in float64, whatever the dtype of x.

Each core takes a part of the rows, in blocks; in shorter ones the calls of NumPy take longer than their work.
For float64 x these sums are no more exact than those they are compared with, but both are far better than the
limits by which a kernel is told to be wrong.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import machine
from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.timing.blocks import on_all_cores

Sums = tuple[NDArray[np.float64], NDArray[np.float64]]

_BLOCK = 1 << 17  # elements


def exact_sums(x: NDArray, dy: NDArray, eps: float) -> Sums:
    """dgamma and dbeta (D,) for x and dy (..., D)."""
    hidden = x.shape[-1]
    x, dy = x.reshape(-1, hidden), dy.reshape(-1, hidden)
    ends = np.linspace(0, len(x), machine.usable_cores() + 1).astype(int)
    parts = on_all_cores(lambda its: _sums(x[slice(*its)], dy[slice(*its)], eps), pairwise(ends))
    dgamma, dbeta = (np.sum(its, axis=0) for its in zip(*parts, strict=True))
    return dgamma, dbeta


def _sums(x: NDArray, dy: NDArray, eps: float) -> Sums:
    """Of some rows (n, D)."""
    hidden = x.shape[-1]
    dgamma, dbeta = np.zeros(hidden), np.zeros(hidden)
    step = max(1, _BLOCK // hidden)
    for start in range(0, len(x), step):
        x_hat, given = (array[start : start + step].astype(np.float64) for array in (x, dy))
        x_hat -= x_hat.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", x_hat, x_hat) / hidden
        x_hat *= 1 / np.sqrt(variance + eps)[:, np.newaxis]
        dgamma += np.einsum("ij,ij->j", given, x_hat)
        dbeta += given.sum(axis=0)
    return dgamma, dbeta


def sums_error_u(found: tuple[NDArray, NDArray], exact: Sums) -> float:
    """The larger norm-wise error of dgamma and dbeta, in u of their dtype; infinite where one is NaN."""
    errors = [
        _ratio(np.linalg.norm(one.astype(np.float64) - right), np.linalg.norm(right))
        / unit_roundoff(one.dtype)
        for one, right in zip(found, exact, strict=True)
    ]
    return float(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).max())


def _ratio(error: float, size: float) -> float:
    """Relative to the size; of sums that are 0, such as dgamma for D = 1, right ones have no error."""
    return error / size if size > 0 else 0.0 if error == 0 else np.inf
