"""What our CUDA kernels are written to move to and from memory, by the plan that they would run by."""

from typing import Any

from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.plan import Hardware

ONCE = {"forward": 2, "backward": 3}  # accesses of an element where rows stay on the chip
AGAIN = {"forward": 4, "backward": 5}  # where they are read again
READ = {"forward": 1, "backward": 2}  # arrays


def columns(
    name: str, direction: str, dtype: str, rows: int, hidden: int, device: Hardware
) -> dict[str, Any]:
    """accesses_per_element and modelled_bytes of cuda_fused; nothing for others."""
    if name != "cuda_fused":
        return {}
    size, wide = dtype_of(dtype).itemsize, sum_dtype(dtype_of(dtype)).itemsize
    lie = plan.lie(hidden, size, 0)
    how = plan.choose(rows, hidden, size, lie, READ[direction], device)
    accesses = (ONCE if how else AGAIN)[direction]
    moved = accesses * rows * hidden * size + 2 * rows * wide
    if direction == "forward":
        moved += 2 * hidden * size
    else:
        partials = how.partials if how else 0
        moved += 3 * hidden * size + 2 * partials * 2 * hidden * wide
    return {"accesses_per_element": float(accesses), "modelled_bytes": float(moved)}
