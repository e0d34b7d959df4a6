"""The kernels of `triton_kernels`, launched as Triton's tutorial on layer normalization launches its own.

As there, the row length determines the numbers of warps and groups, and the buffers of the groups are in x's
dtype: 16-bit dgamma and dbeta are rounded each time a row is added. Results are preallocated.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, Directions, refuse_float64
from layernorm_backward.peers_on_gpu.passes import contender

ROW_BYTES = 1 << 16
ADDED_ROWS, ADDED_COLUMNS = 32, 128
_NOTE = "the scheme of Triton's tutorial 05: {warps} warps a row, {groups} groups of rows, a lock for each"


class Launch(NamedTuple):
    """Elements that a program holds, its warps, and the number of groups of rows."""

    block: int
    warps: int
    groups: int


def launch(hidden: int, itemsize: int) -> Launch:
    """The tutorial's choice for a row length; ValueError beyond 64 KB."""
    if hidden * itemsize > ROW_BYTES:
        raise ValueError(f"the tutorial takes rows of at most {ROW_BYTES} bytes, not {hidden * itemsize}")
    block = 1 << (hidden - 1).bit_length()
    groups = next((count for most, count in ((1024, 256), (4096, 128), (8192, 96)) if hidden <= most), 64)
    return Launch(block, min(max(block // 256, 1), 8), groups)


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """On the host it needs Triton's interpreter (TRITON_INTERPRET=1)."""
    refuse_float64(x.dtype, "the tutorial")
    cuda, given = not on_host(x), (x, gamma, beta, dy)
    how = launch(x.shape[1], x.dtype.itemsize)
    forward, backward = _passes(*map(tensor, given), eps, how)
    forward()  # the backward pass reads its mean and rstd, whether it is among `directions` or not
    note = _NOTE.format(**how._asdict())
    return contender(forward, backward, note, given[1], directions, cuda=cuda)


def _passes(
    x: Any, gamma: Any, beta: Any, dy: Any, eps: float, how: Launch
) -> tuple[Callable[[], tuple[Any, ...]], ...]:
    import torch

    from layernorm_backward.peers_on_gpu.triton_kernels import add_groups, differentiate_row, normalize_row

    rows, hidden = x.shape
    means, rstds = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    y, dx, dgamma, dbeta = map(torch.empty_like, (x, x, gamma, beta))
    sums = [torch.empty((how.groups, hidden), dtype=x.dtype, device=x.device) for _ in range(2)]
    locks = torch.empty(2 * how.groups, dtype=torch.int32, device=x.device)
    added = {"ROWS": ADDED_ROWS, "COLUMNS": ADDED_COLUMNS}
    shape = {"BLOCK": how.block, "num_warps": how.warps}

    def forward() -> tuple[Any, ...]:
        normalize_row[(rows,)](x, y, gamma, beta, means, rstds, hidden, eps, **shape)
        return (y,)

    def backward() -> tuple[Any, ...]:
        locks.zero_()
        arrays = (dx, dy, x, gamma, means, rstds, *sums, locks)
        differentiate_row[(rows,)](*arrays, hidden, GROUPS=how.groups, **shape)
        blocks = -(-hidden // ADDED_COLUMNS)
        add_groups[(blocks,)](*sums, dgamma, dbeta, hidden, GROUPS=min(how.groups, rows), **added)
        return dx, dgamma, dbeta

    return forward, backward
