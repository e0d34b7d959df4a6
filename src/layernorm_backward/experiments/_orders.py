"""The computations of dgamma and dbeta that `summation` compares: orders of summation, and whole kernels."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import dtype_of, sum_dtype, unit_roundoff
from layernorm_backward.inputs import values
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.kernels.numba_plan import block, chunks
from layernorm_backward.sums import (
    chunked_depth,
    chunked_sum,
    compensated_tree,
    running_sum,
    tree_depth,
    tree_sum,
)
from layernorm_backward.theory.kernel_bounds import MODELS

Quantity = Literal["dbeta", "dgamma"]


class Order(NamedTuple):
    """A sum over the last axis, and its first-order error bound (count, u) relative to sum |terms|."""

    total: Callable[[NDArray], NDArray]
    bound: Callable[[int, float], float]


def _cut(count: int) -> tuple[int, int]:
    """The number of chunks, and the rows per block, of numba_fused; a few columns are treated like one."""
    return chunks(count, 1), block(count, 1)


ORDERS: dict[str, Order] = {
    "running": Order(running_sum, lambda count, u: (count - 1) * u),
    "pairwise": Order(tree_sum, lambda count, u: tree_depth(count) * u),
    "chunked": Order(
        lambda terms: chunked_sum(terms, *_cut(terms.shape[-1])),
        lambda count, u: chunked_depth(count, *_cut(count)) * u,
    ),
    "compensated": Order(
        lambda terms: np.add(*compensated_tree(terms)), lambda count, u: (tree_depth(count) * u) ** 2
    ),
}
_OF_KERNELS = {"numba_fused": "chunked"} | dict.fromkeys(  # NumPy adds rows of two or more columns in turn
    ("reference", "compact", "overcached", "recentred"), "running"
)
_NOT_KNOWN = Order(running_sum, lambda count, u: np.nan)
# dgamma: 3 roundings of rstd, 1 of x_hat and 1 of the product.
_TERM_ROUNDINGS: dict[Quantity, int] = {"dbeta": 0, "dgamma": 5}


class Summation(NamedTuple):
    """One computation of the sums: its name, the accumulator (its name in the table, its dtype), order, code.

    sums(x, dy, eps, quantities) takes rows (N, D) and gives each quantity (D,) in the accumulator's dtype.
    x_hat_u is the roundoff of storing x_hat, where that is done.
    """

    scheme: str
    accumulator: str
    dtype: np.dtype
    order: Order
    sums: Callable[[NDArray, NDArray, float, Iterable[str]], dict[str, NDArray]]
    x_hat_u: float = 0.0

    def bound(self, count: int, quantity: str, size: Floats, exact: Floats) -> Floats:
        """First-order bound relative to the exact sums (D,), size (D,) the sums of magnitudes."""
        u = unit_roundoff(self.dtype)
        final = u if self.scheme == "compensated" else 0.0
        terms = _TERM_ROUNDINGS[quantity] * u + (self.x_hat_u if quantity == "dgamma" else 0.0)
        return (self.order.bound(count, u) + terms) * size / exact + final


def summations(
    orders: list[str], kernels: list[str], storage: str, accumulators: list[str]
) -> Iterator[Summation]:
    """Every order with every accumulator ("storage", or a dtype), then the kernels that take `storage`."""
    for accumulator in accumulators:
        dtype = dtype_of(storage if accumulator == "storage" else accumulator)
        for name in orders:
            yield Summation(name, accumulator, dtype, ORDERS[name], _by_order(ORDERS[name].total, dtype))
    dtype = sum_dtype(dtype_of(storage))
    for kernel in (KERNELS[name] for name in kernels):
        if storage in kernel.dtypes:
            accumulator = "storage" if dtype == dtype_of(storage) else dtype.name
            code, stored = _by_kernel(kernel, dtype), _x_hat_u(kernel.name, dtype_of(storage))
            yield Summation(f"kernel:{kernel.name}", accumulator, dtype, _order_of(kernel.name), code, stored)


def _order_of(kernel: str) -> Order:
    """The order in which a kernel adds rows; one without a bound if it is none of ORDERS."""
    return ORDERS.get(_OF_KERNELS.get(kernel, ""), _NOT_KNOWN)


def _x_hat_u(kernel: str, dtype: np.dtype) -> float:
    """The roundoff of storing x_hat, for kernels that round it to 16 bits; else 0."""
    rounds = kernel in MODELS and MODELS[kernel].rounds_x_hat and dtype.itemsize == 2
    return unit_roundoff(dtype) if rounds else 0.0


def _by_order(total: Callable[[NDArray], NDArray], dtype: np.dtype) -> Callable[..., dict[str, NDArray]]:
    def sums(x: NDArray, dy: NDArray, eps: float, quantities: Iterable[str]) -> dict[str, NDArray]:
        upstream = np.ascontiguousarray(dy.T).astype(dtype, copy=False)
        found = {}
        for quantity in quantities:
            terms = upstream * _x_hat(x, eps, dtype) if quantity == "dgamma" else upstream
            with np.errstate(over="ignore", invalid="ignore"):  # float16 ends at 65504
                found[quantity] = total(terms)
        return found

    return sums


def _x_hat(x: NDArray, eps: float, dtype: np.dtype) -> NDArray:
    """x_hat, transposed (D, N), for rows of mean 0 and one variance, whose elements are powers of two."""
    rstd = np.asarray(1 / np.sqrt(np.mean(values(x[0]) ** 2) + eps)).astype(dtype)
    return np.ascontiguousarray(x.T).astype(dtype, copy=False) * rstd


def _by_kernel(kernel: Kernel, dtype: np.dtype) -> Callable[..., dict[str, NDArray]]:
    def sums(x: NDArray, dy: NDArray, eps: float, quantities: Iterable[str]) -> dict[str, NDArray]:
        gamma = np.ones(x.shape[-1], dtype)
        _, saved = kernel.forward(x, gamma, gamma, eps)
        _, dgamma, dbeta = kernel.backward(np.ascontiguousarray(dy), saved)
        return {"dgamma": dgamma, "dbeta": dbeta}

    return sums
