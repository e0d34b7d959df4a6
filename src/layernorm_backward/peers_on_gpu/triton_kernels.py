"""Triton kernels after the scheme of Triton's tutorial on layer normalization (05-layer-norm).

One program per row. For dgamma and dbeta the rows are divided into groups. Each group has a buffer, to which
its programs add in turn under a spin lock; another kernel adds the buffers up. The order of the programs is
not deterministic, and neither are the last bits of dgamma and dbeta. Rows are contiguous; all arithmetic is
float32.
"""

import triton
import triton.language as tl


@triton.jit
def normalize_row(x, y, gamma, beta, means, rstds, hidden, eps, BLOCK: tl.constexpr):
    """y (N, D), means, rstds (N,) from x (N, D) and gamma, beta (D,): one row per program."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    here = row * hidden + columns
    values = tl.load(x + here, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / hidden
    centred = tl.where(inside, values - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / hidden + eps)
    tl.store(means + row, mean)
    tl.store(rstds + row, rstd)
    scale = tl.load(gamma + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(beta + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + here, centred * rstd * scale + shift, mask=inside)


@triton.jit
def differentiate_row(
    dx,
    dy,
    x,
    gamma,
    means,
    rstds,
    scale_sums,
    shift_sums,
    locks,
    hidden,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dx (N, D), one row per program, and sums (GROUPS, D) of dy*x_hat and dy over the rows of each group.

    locks (2*GROUPS,) must be zero initially: whether a buffer is locked, then whether it has been written.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    here = row * hidden + columns
    values = tl.load(x + here, mask=inside, other=0.0).to(tl.float32)
    upstream = tl.load(dy + here, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(gamma + columns, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.load(rstds + row)
    x_hat = tl.where(inside, (values - tl.load(means + row)) * rstd, 0.0)
    scaled = scale * upstream
    along = tl.sum(x_hat * scaled, axis=0) / hidden
    level = tl.sum(scaled, axis=0) / hidden
    tl.store(dx + here, (scaled - (x_hat * along + level)) * rstd, mask=inside)

    group = row % GROUPS
    buffer = group * hidden + columns
    lock, written = locks + group, locks + GROUPS + group
    scale_sum, shift_sum = upstream * x_hat, upstream
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    first = tl.load(written) == 0
    if not first:
        scale_sum += tl.load(scale_sums + buffer, mask=inside)
        shift_sum += tl.load(shift_sums + buffer, mask=inside)
    tl.store(scale_sums + buffer, scale_sum, mask=inside)
    tl.store(shift_sums + buffer, shift_sum, mask=inside)
    tl.debug_barrier()  # all threads have read `written` and stored their sums before the lock is released
    if first:
        tl.atomic_xchg(written, 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def add_groups(
    scale_sums,
    shift_sums,
    dgamma,
    dbeta,
    hidden,
    GROUPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """dgamma, dbeta (D,): the sums of the buffers (GROUPS, D), one block of columns per program."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    scale_sum = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    shift_sum = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, GROUPS, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows[:, None] < GROUPS) & (columns[None, :] < hidden)
        here = rows[:, None] * hidden + columns[None, :]
        scale_sum += tl.load(scale_sums + here, mask=inside, other=0.0).to(tl.float32)
        shift_sum += tl.load(shift_sums + here, mask=inside, other=0.0).to(tl.float32)
    tl.store(dgamma + columns, tl.sum(scale_sum, axis=0), mask=columns < hidden)
    tl.store(dbeta + columns, tl.sum(shift_sum, axis=0), mask=columns < hidden)
