"""CUDA C++ kernels that read x and dy once: the backward pass in one sweep over memory, then a small sum.

A team of threads (see `cuda/maps.py`) holds a row on the chip, computes its sums, writes dx, and keeps its
share of dgamma and dbeta in registers until its last row; then each block writes one partial sum, and
`add_partials` adds these in a fixed order. Rows too long for the chip are read again (`cuda/wide.cuh`). The
forward pass saves the statistics, not x_hat. An input that is not C-contiguous is copied first, such a result
is copied last. Results have the same bits on every run. On another device, or with another alignment of x,
dy, y or dx modulo 16 bytes, another map may add in another order.
"""

from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks
from layernorm_backward.kernels.cuda import device, plan
from layernorm_backward.kernels.cuda.columns import add_partials, sizes
from layernorm_backward.kernels.cuda.machine import Launch, Machine, Program, cpp
from layernorm_backward.kernels.cuda.maps import Map
from layernorm_backward.kernels.cuda.plan import Hardware, Plan, Rest
from layernorm_backward.sums import threads_depth

WIDE_THREADS, WIDE_COLUMNS = 512, 4  # of a block of the kernels in wide.cuh; columns of a thread
WIDE_BLOCKS = 2  # of a multiprocessor


def depth(hidden: int, itemsize: int) -> int:
    """The most additions between an element and the sum of its row of D, on a device with rings."""
    found = plan.depth(hidden, itemsize)
    return threads_depth(hidden, WIDE_THREADS) if found is None else found


class Saved(NamedTuple):
    """x (..., D), gamma (D,) as given; mean, rstd (..., 1) in the dtype of the sums. All on the device."""

    x: Any
    mean: Any
    rstd: Any
    gamma: Any


def forward(
    x: Any,
    gamma: Any,
    beta: Any,
    eps: float,
    out: Any = None,
    *,
    machine: Machine | None = None,
    chosen: Map | None = None,
    rest: Rest | None = None,
) -> tuple[Any, Saved]:
    """y (..., D) in x's dtype; x, gamma and beta on the device.

    `chosen` replaces the map of the table, and `rest` what that leaves to later clusters.
    """
    machine = machine or device.current()
    arrays = machine.arrays
    eps = checks.forward(x, gamma, beta, eps, arrays)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta), arrays)
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    wide = sum_dtype(x.dtype)
    mean, rstd = (arrays.empty((rows,), wide) for _ in range(2))
    if rows:
        given, vectors = arrays.to_plain(x), [arrays.to_plain(vector) for vector in (gamma, beta)]
        result = y if arrays.plain(y) else arrays.empty(y.shape, y.dtype)
        types = (cpp(x.dtype), cpp(gamma.dtype))
        how = _plan(machine, "forward", types, rows, hidden, x.dtype, (given, result), chosen, rest)
        numbers = (given, *vectors, wide.type(eps), result, mean, rstd, *sizes(rows, hidden))
        if how:
            _over_rows(machine, _program("forward", types, how), how, numbers)
        else:
            program = Program("wide", "forward_wide", (*types, "WideMap"))
            machine.launch(program, Launch(_wide_blocks(machine, rows), WIDE_THREADS), numbers)
        if result is not y:
            y[...] = result
    per_row = (*x.shape[:-1], 1)
    return y, Saved(x, mean.reshape(per_row), rstd.reshape(per_row), gamma)


def backward(
    dy: Any,
    saved: Saved,
    out: checks.Outputs | None = None,
    *,
    machine: Machine | None = None,
    chosen: Map | None = None,
    rest: Rest | None = None,
    recentre: bool = True,
) -> tuple[Any, Any, Any]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; `chosen` and `rest` as in `forward`.

    `recentre=False` leaves rows centred about the saved mean, to measure what re-centring costs.
    """
    machine = machine or device.current()
    arrays = machine.arrays
    checks.saved_fields(saved, Saved)
    x, mean, rstd, gamma = saved
    checks.saved(arrays, x=x, mean=mean, rstd=rstd, gamma=gamma)
    checks.backward(dy, x.shape, x.dtype, arrays)
    checks.saved_statistics(x, mean, rstd, gamma)
    inputs = (dy, x, mean, rstd, gamma)
    dx, *totals = checks.gradients(out, x.shape, x.dtype, gamma.dtype, inputs, arrays)
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    vectors = [one if arrays.plain(one) else arrays.empty(one.shape, one.dtype) for one in totals]
    partials = arrays.empty((0, 2, hidden), mean.dtype)
    if rows:
        result = dx if arrays.plain(dx) else arrays.empty(dx.shape, dx.dtype)
        partials = _gradients(
            machine, rows, [arrays.to_plain(one) for one in inputs], result, (chosen, rest), recentre
        )
        if result is not dx:
            dx[...] = result
    add_partials(machine, partials, *vectors)
    for vector, total in zip(vectors, totals, strict=True):
        if vector is not total:
            total[...] = vector
    return dx, *totals


def _gradients(
    machine: Machine,
    rows: int,
    inputs: list[Any],
    dx: Any,
    way: tuple[Map | None, Rest | None],
    recentre: bool,
) -> Any:
    """Writes dx; returns the partial sums (parts, 2, D) of dgamma and dbeta."""
    dy, x, mean, _, gamma = inputs
    hidden = x.shape[-1]
    types = (cpp(x.dtype), cpp(gamma.dtype))
    how = _plan(machine, "backward", types, rows, hidden, x.dtype, (dx, x, dy), *way)
    size = sizes(rows, hidden)
    if how:
        partials = machine.arrays.empty((how.partials, 2, hidden), mean.dtype)
        program = _program("backward", types, how, () if recentre else ("false",))
        _over_rows(machine, program, how, (*inputs, dx, partials, *size))
        return partials
    blocks = _wide_blocks(machine, rows)
    coefficients = machine.arrays.empty((rows, 3), mean.dtype)
    program = Program("wide", "project_wide", (*types, "WideMap"))
    machine.launch(program, Launch(blocks, WIDE_THREADS), (*inputs, coefficients, *size))
    tiles, parts = wide_grid(rows, hidden, machine.hardware)
    partials = machine.arrays.empty((parts, 2, hidden), mean.dtype)
    program = Program("wide", "differentiate_wide", (*types, "WideMap"))
    arguments = (*inputs, coefficients, dx, partials, *size, np.int32(parts))
    machine.launch(program, Launch(tiles * parts, WIDE_THREADS), arguments)
    return partials


def _plan(
    machine: Machine,
    direction: Direction,
    types: tuple[str, str],
    rows: int,
    hidden: int,
    dtype: np.dtype,
    placed: tuple[Any, ...],
    chosen: Map | None,
    rest: Rest | None,
) -> Plan | None:
    """The plan of a pass over rows of the arrays `placed`, of one dtype; by the map `chosen`, if any."""
    lie = plan.lie(hidden, dtype.itemsize, *(machine.address(array) for array in placed))
    if not chosen:
        return planned(machine, direction, types, rows, hidden, dtype.itemsize, lie)
    one = chosen._replace(lie=lie)
    how = plan.fit(direction, one, rows, hidden, dtype.itemsize, machine.hardware, rest)
    return _resident(machine, direction, types, rows, how)


def planned(
    machine: Machine,
    direction: Direction,
    types: tuple[str, str],
    rows: int,
    hidden: int,
    itemsize: int,
    lie: int,
) -> Plan | None:
    """The plan of a pass by the table's map, for rows of alignment `lie`; types: x's and gamma's in C++."""
    how = plan.choose(direction, rows, hidden, itemsize, lie, machine.hardware)
    return _resident(machine, direction, types, rows, how)


def _resident(
    machine: Machine, direction: Direction, types: tuple[str, str], rows: int, how: Plan | None
) -> Plan | None:
    """The plan, for as many clusters as run at the same time on the machine."""
    if how is None or how.map.cluster == 1:
        return how
    return plan.resident(how, rows, machine.clusters(_program(direction, types, how), _launch(how)))


def _program(direction: str, types: tuple[str, str], how: Plan, more: tuple[str, ...] = ()) -> Program:
    return Program(direction, direction, (*types, how.map.text, *more))


def _launch(how: Plan) -> Launch:
    return Launch(how.blocks, how.map.threads, how.map.cluster, how.dynamic_bytes)


def _over_rows(machine: Machine, program: Program, how: Plan, arguments: tuple[Any, ...]) -> None:
    ring = np.int32(how.stages), np.int32(how.slot)
    bits = how.together.bit_length() - 1  # it is a power of two
    sharing = np.int32(how.lead), np.int32(bits), np.int64(how.shared), np.int64(how.group)
    machine.launch(program, _launch(how), (*arguments, *ring, *sharing))


def wide_grid(rows: int, hidden: int, hardware: Hardware) -> tuple[int, int]:
    """The grid of the kernels that read rows again: tiles of columns, parts of rows; a block for each."""
    tiles = -(-hidden // (WIDE_THREADS * WIDE_COLUMNS))
    return tiles, min(rows, max(1, WIDE_BLOCKS * hardware.multiprocessors // tiles))


def _wide_blocks(machine: Machine, rows: int) -> int:
    return min(rows, WIDE_BLOCKS * machine.hardware.multiprocessors)


KERNEL = Kernel(
    name="cuda_fused",
    device="cuda",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) and (14) of the paper, in CUDA C++",
    requires=("cupy",),
)
