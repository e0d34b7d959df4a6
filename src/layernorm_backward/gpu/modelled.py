"""Model of the memory traffic of our CUDA kernels, from the plan that they would use."""

from typing import Any

from layernorm_backward.directions import TENSORS, Direction
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.kernels import cuda_fused
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import CPP_TYPES, Machine
from layernorm_backward.kernels.cuda.plan import Hardware
from layernorm_backward.kernels.cuda_separate import STEPS, bytes_per_element, parts
from layernorm_backward.traffic.minimum import VECTORS, small_bytes

AGAIN = {"forward": 3, "backward": 5}  # accesses per element where rows are read twice
COEFFICIENTS = 3  # of a row that is read twice: written by one kernel, read by all tiles of the next
MOMENTS = 2  # mean and rstd, which all tiles read as well
STATISTICS = {"forward": 6, "backward": 5}  # per row, written and read by the separate kernels


def columns(
    name: str, direction: Direction, dtype: str, rows: int, hidden: int, machine: Machine
) -> dict[str, Any]:
    """accesses_per_element and modelled_bytes of cuda_fused and cuda_separate; nothing for others."""
    if name == "cuda_fused":
        found = _fused(direction, dtype, rows, hidden, machine)
    elif name == "cuda_separate":
        found = _separate(direction, dtype, rows, hidden, machine.hardware)
    else:
        return {}
    return dict(zip(("accesses_per_element", "modelled_bytes"), map(float, found), strict=True))


def _fused(direction: Direction, dtype: str, rows: int, hidden: int, machine: Machine) -> tuple[int, int]:
    size, types = dtype_of(dtype).itemsize, (CPP_TYPES[dtype],) * 2
    lie = plan.lie(hidden, size, 0)
    how = cuda_fused.planned(machine, direction, types, rows, hidden, size, lie)
    accesses = (TENSORS if how else AGAIN)[direction]
    moved = accesses * rows * hidden * size + small_bytes(direction, dtype, rows, hidden)
    if direction == "forward":
        return accesses, moved
    if how:
        return accesses, moved + _summed(how.partials, hidden, dtype)
    tiles, partials = cuda_fused.wide_grid(rows, hidden, machine.hardware)
    per_row = COEFFICIENTS + tiles * (COEFFICIENTS + MOMENTS)
    return accesses, moved + rows * per_row * _wide(dtype) + _summed(partials, hidden, dtype)


def _separate(direction: str, dtype: str, rows: int, hidden: int, device: Hardware) -> tuple[int, int]:
    accesses = sum(step.reads + step.writes for step in STEPS[direction])
    partials = parts(rows, hidden, device) if direction == "backward" else 0
    moved = rows * hidden * bytes_per_element(direction, dtype_of(dtype))
    moved += VECTORS[direction] * hidden * dtype_of(dtype).itemsize
    moved += STATISTICS[direction] * rows * _wide(dtype)
    return accesses, moved + _summed(partials, hidden, dtype)


def _summed(partials: int, hidden: int, dtype: str) -> int:
    """Bytes of the partial sums of dgamma and dbeta, written and read once."""
    return 2 * partials * 2 * hidden * _wide(dtype)


def _wide(dtype: str) -> int:
    return sum_dtype(dtype_of(dtype)).itemsize
