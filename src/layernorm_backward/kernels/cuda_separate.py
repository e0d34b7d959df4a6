"""CUDA C++ kernels for the textbook equations, one for each operator, as in a framework without fusion.

Every operator writes its result to an array in memory, in the dtype of the sums. `STEPS` are the kernels in
the order of execution. This is the baseline of the claims about fusion, tuned for rows of 32 elements or
more. The forward pass saves x_hat, as in the equations. An input that is not C-contiguous is copied first,
such a result is copied last.
"""

from collections.abc import Sequence
from functools import partialmethod
from math import prod
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks
from layernorm_backward.kernels.cuda import device
from layernorm_backward.kernels.cuda.columns import ACROSS, DOWN, add_partials, sizes
from layernorm_backward.kernels.cuda.machine import Launch, Machine, Program, cpp
from layernorm_backward.kernels.cuda.plan import Hardware
from layernorm_backward.sums import threads_depth

SHORT = 1024  # elements: up to this length a row is summed by a warp, above by a block
THREADS, WARP = 256, 32  # of such a block, and of a warp
UNROLL = 4  # of these rows, one after another
BLOCKS = 8  # of a multiprocessor


class Step(NamedTuple):
    """A kernel: the arrays of x's size that it reads and writes, and how many of them are in x's dtype.

    The others are in the dtype of the sums.
    """

    name: str
    reads: int
    writes: int
    stored: int

    @property
    def wide(self) -> int:
        return self.reads + self.writes - self.stored


STEPS: dict[str, tuple[Step, ...]] = {
    "forward": (
        Step("mean(x)", 1, 0, stored=1),
        Step("x - mean", 1, 1, stored=1),
        Step("square", 1, 1, stored=0),
        Step("mean of squares", 1, 0, stored=0),
        Step("rstd", 0, 0, stored=0),
        Step("x_hat", 1, 1, stored=0),
        Step("gamma * x_hat", 1, 1, stored=0),
        Step("+ beta", 1, 1, stored=1),
    ),
    "backward": (
        Step("g = gamma * dy", 1, 1, stored=1),
        Step("mean(g)", 1, 0, stored=0),
        Step("g * x_hat", 2, 1, stored=0),
        Step("mean(g * x_hat)", 1, 0, stored=0),
        Step("g - mean(g)", 1, 1, stored=0),
        Step("x_hat * mean(g * x_hat)", 1, 1, stored=0),
        Step("difference", 2, 1, stored=0),
        Step("dx = rstd * difference", 1, 1, stored=1),
        Step("dy * x_hat", 2, 1, stored=1),
        Step("dgamma, sum over rows", 1, 0, stored=0),
        Step("dbeta, sum over rows", 1, 0, stored=1),
        Step("sums of partial sums", 0, 0, stored=0),
    ),
}


def bytes_per_element(direction: str, dtype: np.dtype) -> int:
    """Bytes that the steps read and write for each element of x."""
    wide = sum_dtype(dtype).itemsize
    return sum(step.stored * dtype.itemsize + step.wide * wide for step in STEPS[direction])


def parts(rows: int, hidden: int, hardware: Hardware) -> int:
    """The number of partial sums over rows of each column."""
    most = max(1, BLOCKS * hardware.multiprocessors // _tiles(hidden))
    return min(-(-rows // (DOWN * UNROLL)), most)


def depth(hidden: int, itemsize: int) -> int:
    """The most additions between an element and the sum of its row of D."""
    return threads_depth(hidden, WARP if hidden <= SHORT else THREADS)


class Saved(NamedTuple):
    """x_hat (..., D) and rstd (..., 1) in the dtype of the sums, gamma (D,) as given; the dtype of x."""

    x_hat: Any
    rstd: Any
    gamma: Any
    dtype: np.dtype


def forward(
    x: Any, gamma: Any, beta: Any, eps: float, out: Any = None, *, machine: Machine | None = None
) -> tuple[Any, Saved]:
    """y (..., D) in x's dtype; x, gamma and beta on the device."""
    machine = machine or device.current()
    arrays = machine.arrays
    eps = checks.forward(x, gamma, beta, eps, arrays)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta), arrays)
    result = y if arrays.plain(y) else arrays.empty(y.shape, y.dtype)
    given, scale, shift = (arrays.to_plain(one) for one in (x, gamma, beta))
    eager = _Eager(machine, x.shape, sum_dtype(x.dtype))
    mean = eager.mean(given)  # (1)  (..., 1)
    centred = eager.minus(given, mean)  # (..., D)
    var = eager.mean(eager.times(centred, centred))  # (2)  (..., 1)
    rstd = eager.inverse_root(var, eps)  # (3)  (..., 1)
    x_hat = eager.times(centred, rstd)  # (4)  (..., D)
    eager.plus(eager.times(scale, x_hat), shift, result)  # (5)  (..., D)
    if result is not y:
        y[...] = result
    return y, Saved(x_hat, rstd, gamma, x.dtype)


def backward(
    dy: Any, saved: Saved, out: checks.Outputs | None = None, *, machine: Machine | None = None
) -> tuple[Any, Any, Any]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's."""
    machine = machine or device.current()
    arrays = machine.arrays
    checks.saved_fields(saved, Saved)
    *kept, dtype = saved
    x_hat, rstd, gamma = kept
    checks.saved(arrays, x_hat=x_hat, rstd=rstd, gamma=gamma)
    checks.backward(dy, x_hat.shape, dtype, arrays)
    checks.saved_normalized(*kept, dtype)
    inputs = (dy, *kept)
    results = checks.gradients(out, dy.shape, dtype, gamma.dtype, inputs, arrays)
    dx, *totals = written = [
        one if arrays.plain(one) else arrays.empty(one.shape, one.dtype) for one in results
    ]
    given, x_hat, rstd, scale = (arrays.to_plain(one) for one in inputs)
    rstd = rstd.reshape(*dy.shape[:-1], 1)
    eager = _Eager(machine, dy.shape, rstd.dtype)
    partials = arrays.empty((eager.parts, 2, dy.shape[-1]), rstd.dtype)
    g = eager.times(scale, given)  # (6)  (..., D)
    c1 = eager.mean(g)  # (7)  (..., 1)
    c2 = eager.mean(eager.times(g, x_hat))  # (8)  (..., 1)
    difference = eager.minus(eager.minus(g, c1), eager.times(x_hat, c2))  # (..., D)
    products = arrays.empty(dy.shape, rstd.dtype)  # before dx is written, in case memory runs out
    eager.times(difference, rstd, dx)  # (9)  (..., D)
    eager.sum_columns(eager.times(given, x_hat, products), partials[:, 0])  # (10) (parts, D)
    eager.sum_columns(given, partials[:, 1])  # (11) (parts, D)
    add_partials(machine, partials, *totals)  # (D,)
    for mine, result in zip(written, results, strict=True):
        if mine is not result:
            result[...] = mine
    return results


class _Eager:
    """Operators, one kernel each, on plain arrays: (..., D) of one shape; (..., 1) and (D,) broadcast to it.

    Results are new arrays in the dtype of the sums, unless one is given. Without rows, nothing is launched.
    """

    def __init__(self, machine: Machine, shape: tuple[int, ...], wide: np.dtype) -> None:
        self._machine, self._wide = machine, wide
        self._shape, self._per_row = shape, (*shape[:-1], 1)
        self._rows, self._hidden = prod(shape[:-1]), shape[-1]
        self._blocks = BLOCKS * machine.hardware.multiprocessors
        self.parts = parts(self._rows, self._hidden, machine.hardware)

    def combine(self, operator: str, a: Any, b: Any, result: Any = None) -> Any:
        """A binary operator, element by element."""
        if result is None:
            result = self._machine.arrays.empty(self._shape, self._wide)
        types = (operator, *(cpp(one.dtype) for one in (a, b, result)), "ColumnMap")
        arguments = (a, *self._strides(a), b, *self._strides(b), result, *self._size)
        self._launch("combine", types, self._tiled, arguments)
        return result

    plus = partialmethod(combine, "Plus")
    minus = partialmethod(combine, "Minus")
    times = partialmethod(combine, "Times")

    def mean(self, terms: Any) -> Any:
        """The mean of each row."""
        means = self._machine.arrays.empty(self._per_row, self._wide)
        name, teams = ("WarpMap", THREADS // WARP) if self._hidden <= SHORT else ("BlockMap", 1)
        how = Launch(min(-(-self._rows // teams), self._blocks), THREADS)
        self._launch("mean_rows", (cpp(terms.dtype), name), how, (terms, means, *self._size))
        return means

    def inverse_root(self, var: Any, eps: float) -> Any:
        """1/sqrt(var + eps), of each row."""
        rstd = self._machine.arrays.empty(self._per_row, self._wide)
        how = Launch(min(-(-self._rows // THREADS), self._blocks), THREADS)
        arguments = (var, self._wide.type(eps), rstd, np.int64(self._rows))
        self._launch("inverse_root", (cpp(self._wide), "BlockMap"), how, arguments)
        return rstd

    def sum_columns(self, terms: Any, sums: Any) -> None:
        """The column sums of each part of the rows, into `sums` (parts, D), every second row of an array."""
        self._launch("sum_columns", (cpp(terms.dtype), "ColumnMap"), self._tiled, (terms, sums, *self._size))

    @property
    def _size(self) -> tuple[np.int64, np.int32]:
        return sizes(self._rows, self._hidden)

    @property
    def _tiled(self) -> Launch:
        return Launch(_tiles(self._hidden) * self.parts, ACROSS * DOWN)

    def _strides(self, operand: Any) -> tuple[np.int32, np.int32]:
        """Elements from row to row, and from column to column."""
        if operand.shape == self._shape:
            return np.int32(self._hidden), np.int32(1)
        per_row = operand.shape == self._per_row
        return np.int32(per_row), np.int32(not per_row)

    def _launch(self, kernel: str, types: tuple[str, ...], how: Launch, arguments: Sequence[Any]) -> None:
        if self._rows:
            self._machine.launch(Program("separate", kernel, types), how, arguments)


def _tiles(hidden: int) -> int:
    return -(-hidden // ACROSS)


KERNEL = Kernel(
    name="cuda_separate",
    device="cuda",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) of the paper, a CUDA C++ kernel for each operator",
    requires=("cupy",),
)
