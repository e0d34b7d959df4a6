"""What calls of numba_fused of one kind have in common: planned once, then looked up in a cache.

The kind of a call is its direction, the shape and dtype of x, the dtype of gamma and the number of threads.
On a few rows most of a call's time is spent in Python, so a call of a known kind makes a single look-up.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import name_of
from layernorm_backward.kernels import checks, numba_plan, numba_scratch, numba_tuning, processor
from layernorm_backward.kernels.lane_memory import as_stored
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_sharing import pieces
from layernorm_backward.kernels.numba_vectors import Vectors, between

Run = Callable[..., bool]
Ints = NDArray[np.intp]
Shape = tuple[int, ...]
Kind = tuple[str, Shape, np.dtype, np.dtype, int]  # the first arguments of `cached_call` and of `call`


class Code(NamedTuple):
    """Which code of `numba_passes` runs: the direction, "forward" or "backward", and the arguments there.

    A forward pass does not use `recentre`.
    """

    direction: str
    dtype: str
    group: int
    ragged: bool
    widened: bool = False
    lag: bool = False
    recentre: bool = True

    def compiled(self) -> Run:
        """The code, compiled or from the cache."""
        if self.direction == "forward":
            return forward_pass(*self[1:-1])
        return backward_pass(*self[1:])


def code(direction: str, hidden: int, dtype: np.dtype, plan: Plan, first: int = 0) -> Code:
    """The code of a plan for rows of D elements; the result's first line boundary is at element `first`."""
    lanes = LINE // dtype.itemsize
    ragged, group = hidden % lanes > 0 or first > 0, plan.group
    if ragged:
        group = numba_tuning.ragged_group(group, hidden * dtype.itemsize, direction, processor.traits())
    lag = not ragged and numba_plan.lags(plan, hidden, lanes)
    chosen = Code(direction, name_of(dtype), group, ragged, plan.widened and group == 1, lag)
    return chosen if direction == "forward" else chosen._replace(recentre=plan.recentre)


class Call(NamedTuple):
    """What calls of a kind have in common.

    run: takes flat arrays and fills the results: run(x, gamma, beta, eps, y, mean, rstd) forward,
    run(dy, x, mean, rstd, gamma, dx, dgamma, dbeta) backward. It returns False, and has written no result,
    where the pass refuses its arguments, and raises Numba's TypeError, as in `numba_passes`.
    compiled, numbers: the code of `numba_passes`, and its argument of that name.
    pieces: the pieces of the work by task.
    wide: the dtype of the sums.
    per_row: the shape of mean and rstd.
    """

    run: Run
    compiled: Run
    numbers: Ints
    pieces: Ints
    wide: np.dtype
    per_row: Shape


def _plain_forward(compiled: Run, scratch: int, wide: np.dtype, numbers: Ints, shares: Ints) -> Run:
    """`run` for x, gamma and beta in the dtype of the sums; scratch: elements."""

    def run(x, gamma, beta, eps, y, mean, rstd):
        held = np.empty(scratch, wide)
        return compiled(x, gamma, beta, eps, y, mean, rstd, held, numbers, shares)

    return run


def _plain_backward(compiled: Run, scratch: int, wide: np.dtype, numbers: Ints, shares: Ints) -> Run:
    """As `_plain_forward`."""

    def run(dy, x, mean, rstd, gamma, dx, dgamma, dbeta):
        held = np.empty(scratch, wide)
        return compiled(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, held, numbers, shares)

    return run


def _narrow_forward(plain: Run, vectors: Vectors | None, hidden: int, columns: int, wide: np.dtype) -> Run:
    """`run` for 16-bit x; vectors: the conversions of gamma, beta, dgamma and dbeta (D,), if needed."""

    def run(x, gamma, beta, eps, y, mean, rstd):
        if beta.dtype != gamma.dtype:  # to be seen here: as stored, float16 and int16 are the same
            return False
        x, gamma, beta, y = map(as_stored, (x, gamma, beta, y))
        if vectors is None:
            return plain(x, gamma, beta, eps, y, mean, rstd)
        widened, fit = [np.empty(columns, wide) for _ in range(2)], gamma.shape == beta.shape == (hidden,)
        if not (fit and vectors.before_forward(x, gamma, beta, y, *widened)):
            return False
        return plain(x, *widened, eps, y, mean, rstd)

    return run


def _narrow_backward(plain: Run, vectors: Vectors | None, hidden: int, columns: int, wide: np.dtype) -> Run:
    """As `_narrow_forward`."""

    def run(dy, x, mean, rstd, gamma, dx, dgamma, dbeta):
        dy, x, gamma, dx, dgamma, dbeta = map(as_stored, (dy, x, gamma, dx, dgamma, dbeta))
        given = dy, x, mean, rstd, gamma, dx, dgamma, dbeta
        if vectors is None:
            return plain(*given)
        widened, *sums = [np.empty(columns, wide) for _ in range(3)]
        if not (gamma.shape == (hidden,) and vectors.before_backward(*given, widened)):
            return False
        done = plain(dy, x, mean, rstd, widened, dx, *sums)
        if done:
            vectors.after_backward(*sums, dgamma, dbeta)
        return done

    return run


_PLAIN = {"forward": _plain_forward, "backward": _plain_backward}
_NARROW = {"forward": _narrow_forward, "backward": _narrow_backward}


@lru_cache(numba_plan.SHAPES)
def cached_call(
    direction: str, shape: Shape, dtype: np.dtype, gamma_dtype: np.dtype, threads: int
) -> Call | None:
    """`call` by the chosen plan where the results stay in the caches; None where they do not."""
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

    begin: the result's address modulo a line, where it is written by non-temporal stores, else None.
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
    compiled, numbers = chosen.compiled(), np.array([*walk, *scratch.places], np.intp)
    shares = pieces(units, tasks, not stream)
    run = _PLAIN[direction](compiled, scratch.size, wide, numbers, shares)
    if dtype.itemsize < wide.itemsize:
        run = _NARROW[direction](run, vectors, hidden, columns, wide)
    return Call(run, compiled, numbers, shares, wide, (*lead, 1))
