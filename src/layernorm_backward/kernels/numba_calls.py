"""What calls of numba_fused of one kind have in common: planned and worked out once.

The kind of a call is the shape and dtype of x, the dtype of gamma, and how its work is shared and written. A
call on a few rows takes as long as what Python does for it, so that is one question to a cache.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import name_of
from layernorm_backward.kernels import checks, numba_pace, numba_plan, numba_scratch, processor
from layernorm_backward.kernels.lane_memory import as_stored
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_sharing import pieces
from layernorm_backward.kernels.numba_vectors import Vectors, between

Shape = tuple[int, ...]
Kind = tuple[str, Shape, np.dtype, np.dtype, int]  # the first arguments of `kept` and of `call`


class Code(NamedTuple):
    """Which code of `numba_passes` runs: that of a pass, "forward" or "backward", for a storage dtype.

    The other fields are as there; a forward pass has no use for `recentre`.
    """

    direction: str
    dtype: str
    group: int
    ragged: bool
    widened: bool = False
    lag: bool = False
    recentre: bool = True

    def compiled(self) -> Callable[..., bool]:
        """The code, compiled or from the cache."""
        if self.direction == "forward":
            return forward_pass(*self[1:-1])
        return backward_pass(*self[1:])


def code(direction: str, hidden: int, dtype: np.dtype, plan: Plan, first: int = 0) -> Code:
    """What a plan runs for rows of D elements, the first of which begin `first` elements before a line."""
    lanes = LINE // dtype.itemsize
    ragged, group = hidden % lanes > 0 or first > 0, plan.group
    if ragged:
        how = processor.few_registers(), processor.asks_far()
        group = numba_pace.ragged_group(group, hidden * dtype.itemsize, direction, *how)
    lag = not ragged and numba_plan.lags(plan, hidden, lanes)
    chosen = Code(direction, name_of(dtype), group, ragged, plan.widened and group == 1, lag)
    return chosen if direction == "forward" else chosen._replace(recentre=plan.recentre)


class Call(NamedTuple):
    """What a call hands to its pass beside its arrays, and the call itself.

    The code of `numba_passes` that runs, the elements of its scratch, its numbers, and the pieces of the work
    by task. The dtype of the sums, whether x is narrower, the shape of mean and rstd, that of gamma, D in
    whole lines, and what converts gamma and its like where they are not of that dtype and order.

    `forward` and `backward` take flat arrays and fill the last of them. They return False, and have written
    no result, where the pass refuses what it is given, and raise Numba's TypeError, as in `numba_passes`.
    """

    compiled: Callable[..., bool]
    scratch: int
    numbers: NDArray[np.intp]
    pieces: NDArray[np.intp]
    wide: np.dtype
    narrow: bool
    per_row: Shape
    vector: Shape
    columns: int
    vectors: Vectors | None

    def forward(
        self,
        x: NDArray,
        gamma: NDArray,
        beta: NDArray,
        eps: float,
        y: NDArray,
        mean: NDArray,
        rstd: NDArray,
    ) -> bool:
        """Fill y, mean and rstd."""
        if self.narrow:
            if beta.dtype != gamma.dtype:  # integers may be those that 16-bit floating point is stored as
                return False
            x, gamma, beta, y = map(as_stored, (x, gamma, beta, y))
        wide = gamma, beta
        if self.vectors:
            wide = [np.empty(self.columns, self.wide) for _ in wide]
            fit = gamma.shape == beta.shape == self.vector
            if not (fit and self.vectors.before_forward(x, gamma, beta, y, *wide)):
                return False
        held = np.empty(self.scratch, self.wide)
        return self.compiled(x, *wide, eps, y, mean, rstd, held, self.numbers, self.pieces)

    def backward(
        self,
        dy: NDArray,
        x: NDArray,
        mean: NDArray,
        rstd: NDArray,
        gamma: NDArray,
        dx: NDArray,
        dgamma: NDArray,
        dbeta: NDArray,
    ) -> bool:
        """Fill dx, dgamma and dbeta."""
        if self.narrow:
            dy, x, gamma, dx, dgamma, dbeta = map(as_stored, (dy, x, gamma, dx, dgamma, dbeta))
        wide = gamma, dgamma, dbeta
        if self.vectors:
            wide = [np.empty(self.columns, self.wide) for _ in wide]
            given = dy, x, mean, rstd, gamma, dx, dgamma, dbeta
            if not (gamma.shape == self.vector and self.vectors.before_backward(*given, wide[0])):
                return False
        held = np.empty(self.scratch, self.wide)
        given = dy, x, mean, rstd, wide[0], dx, *wide[1:]
        done = self.compiled(*given, held, self.numbers, self.pieces)
        if done and self.vectors:
            self.vectors.after_backward(*wide[1:], dgamma, dbeta)
        return done


@lru_cache(numba_plan.SHAPES)
def kept(direction: str, shape: Shape, dtype: np.dtype, gamma_dtype: np.dtype, threads: int) -> Call | None:
    """As `call`, by the plan that is chosen, where the results stay in the caches; None where they do not."""
    checks.sums_of_kind(shape, dtype, *[shape[-1:], gamma_dtype] * 2)
    plan = numba_plan.choose(prod(shape[:-1]), shape[-1], dtype, direction, threads)
    return None if plan.stream else call(direction, shape, dtype, gamma_dtype, threads, None, plan)


@lru_cache(numba_plan.SHAPES)
def call(
    direction: str,
    shape: Shape,
    dtype: np.dtype,
    gamma_dtype: np.dtype,
    threads: int,
    begin: int | None,
    plan: Plan,
) -> Call:
    """The call of a pass, "forward" or "backward", for x (..., D); a wrong shape or dtype raises.

    begin: bytes from the line in which results that go past the caches begin to their own beginning; None
    where they do not.
    """
    wide = checks.sums_of_kind(shape, dtype, *[shape[-1:], gamma_dtype] * 2)
    *lead, hidden = shape
    rows, stream = prod(lead), begin is not None
    lanes = LINE // dtype.itemsize
    first = -begin % LINE // dtype.itemsize if stream else -1
    chosen = code(direction, hidden, dtype, plan, first)
    columns, vectors = -(-hidden // lanes) * lanes, between(chosen.dtype, name_of(gamma_dtype))
    distance = plan.ahead * lanes, plan.spread * lanes, plan.pages
    walk = [columns if vectors else hidden, hidden, *distance, first]
    units = plan.chunks if direction == "backward" else max(plan.chunks, min(rows, threads))
    tasks = max(1, min(threads, units))
    if direction == "backward":
        walk += [plan.block, plan.stretch]
        scratch = numba_scratch.of_backward(
            units, plan.block, plan.stretch, rows, tasks, columns, wide.itemsize, chosen.widened
        )
    else:
        scratch = numba_scratch.of_forward(columns, wide.itemsize, tasks if chosen.widened else 0)
    return Call(
        chosen.compiled(),
        scratch.size,
        np.array([*walk, *scratch.places], np.intp),
        pieces(units, tasks, not stream),
        wide,
        dtype.itemsize < wide.itemsize,
        (*lead, 1),
        (hidden,),
        columns,
        vectors,
    )
