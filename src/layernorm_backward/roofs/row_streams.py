"""Loops between a stream and numba_fused: the accesses of its passes, added one kind at a time.

    backward                                       forward
    by_row        dx = x + s*dy, row by row        y = s*x, row by row
    read_twice    and x, dy of the next row        and x of the next row
    gamma         and gamma with both              and gamma and beta
    partial_sums  and dgamma, dbeta added to       -

Each step makes the accesses of the one before and its own, in the order of the pass and with its prefetches
and stores. Its arithmetic only keeps the compiler from removing them. The time of the pass beyond the last
step goes to its arithmetic, and to the work for each row, block and chunk.
"""

from collections.abc import Callable

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.kernels import numba_plan, numba_scratch
from layernorm_backward.kernels.lane_memory import as_stored, in_columns, in_lanes, parity_lanes
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_sharing import UNITS, pieces
from layernorm_backward.roofs.row_loops import compiled
from layernorm_backward.timing.clock import Call

SCALE = 0.5
STEPS: dict[str, tuple[str, ...]] = {
    "forward": ("by_row", "read_twice", "gamma"),
    "backward": ("by_row", "read_twice", "gamma", "partial_sums"),
}
_SEEN = 64  # numbers a thread: two lines of sums and more


def forward(step: str, x: NDArray, gamma: NDArray, beta: NDArray, y: NDArray, plan: Plan) -> Call:
    """A call of one step forward, which writes y and returns the sums of the rows read twice.

    x, y (N, D) of one dtype, C-contiguous, rows of whole lines, N a multiple of the plan's group; gamma, beta
    (D,). The thread count is the one set at the time of the call. ValueError for an unknown step and for
    other rows.
    """
    number, wide = _number("forward", step), sum_dtype(x.dtype)
    run, flat = _compiled("forward", x, plan), _flat(plan, x, y)
    vectors, distance = _vectors(x.dtype, gamma, beta), _distance(plan, x.dtype)
    layout = numba_scratch.of_forward(x.shape[-1], wide.itemsize)

    def call() -> NDArray:
        threads, held = get_num_threads(), np.empty(layout.size, wide)
        seen, ends = np.zeros((threads, _SEEN), wide), pieces(UNITS, threads, not plan.stream)
        scratch = seen, held, layout.places
        run(number, flat[0], *vectors, flat[1], *scratch, ends, distance, wide.type(SCALE))
        return seen

    return call


def backward(step: str, dy: NDArray, x: NDArray, gamma: NDArray, dx: NDArray, plan: Plan) -> Call:
    """A call of one step backward, which writes dx and returns the sums, dgamma and dbeta; else as `forward`.

    dgamma and dbeta (D,), in the dtype of the sums, are the sums of x and dy over all rows, and 0 in the
    steps that do not add them.
    """
    number, wide = _number("backward", step), sum_dtype(x.dtype)
    run, flat = _compiled("backward", x, plan), _flat(plan, dy, x, dx)
    (vector,), distance = _vectors(x.dtype, gamma), _distance(plan, x.dtype)
    dgamma, dbeta = np.empty((2, gamma.size), wide)
    rows, columns = x.shape

    def call() -> tuple[NDArray, NDArray, NDArray]:
        threads = get_num_threads()
        layout = numba_scratch.of_backward(1, rows, 0, rows, threads, columns, wide.itemsize)
        held, ends = np.empty(layout.size, wide), pieces(UNITS, threads, not plan.stream)
        seen = np.zeros((threads, _SEEN), wide)
        run(
            number,
            *flat[:2],
            vector,
            flat[2],
            dgamma,
            dbeta,
            seen,
            held,
            layout.places,
            ends,
            distance,
            wide.type(SCALE),
        )
        return seen, *(in_columns(sums, parity_lanes(x.dtype)) for sums in (dgamma, dbeta))

    return call


def compile_steps(direction: str, hidden: int, dtype: str, plan: Plan) -> None:
    """Compile the loops of a plan, of all steps, or find them in the cache, as a first call would."""
    x, result = (aligned_empty((plan.group, hidden), dtype_of(dtype)) for _ in range(2))
    x.fill(1)
    step, vector = STEPS[direction][0], x[0]
    if direction == "forward":
        forward(step, x, vector, vector, result, plan)()
    else:
        backward(step, x, x, vector, result, plan)()


def _number(direction: str, step: str) -> int:
    if step not in STEPS[direction]:
        raise ValueError(f"unknown step {step!r} {direction}; allowed: {', '.join(STEPS[direction])}")
    return STEPS[direction].index(step)


def _flat(plan: Plan, *arrays: NDArray) -> list[NDArray]:
    rows, columns = arrays[0].shape
    if columns % _lanes(arrays[0].dtype) or rows % plan.group or rows == 0:
        allowed = f"rows of whole lines of {LINE} bytes, in whole groups of {plan.group}"
        raise ValueError(f"arrays have shape {rows, columns}; allowed: {allowed}")
    return [as_stored(array.reshape(-1)) for array in arrays]


def lags(plan: Plan, hidden: int, dtype: np.dtype) -> bool:
    """Whether the rows of a group lag by a line, as in numba_fused."""
    return numba_plan.lags(plan, hidden, _lanes(dtype))


def _compiled(direction: str, x: NDArray, plan: Plan) -> Callable[..., None]:
    return compiled(direction, plan.group, lags(plan, x.shape[-1], x.dtype), plan.stream)


def _vectors(dtype: np.dtype, *vectors: NDArray) -> list[NDArray]:
    wide, lanes = sum_dtype(dtype), parity_lanes(dtype)
    return [np.ascontiguousarray(in_lanes(vector.astype(wide), lanes)) for vector in vectors]


def _distance(plan: Plan, dtype: np.dtype) -> tuple[int, int, int]:
    """`distance` of `numba_walk.prefetch_schedule` for a plan: ahead and spread in columns, and pages."""
    return plan.ahead * _lanes(dtype), plan.spread * _lanes(dtype), plan.pages


def _lanes(dtype: np.dtype) -> int:
    return LINE // dtype.itemsize
