"""The time of PyTorch and JAX beside ours, each at its best, in one paired run.

Each peer and setting (`peers_at_work.settings`) works in a process of its own on x and dy in shared memory,
with as many threads as ours, and times its own calls. All are timed in turn with our kernel and with the
roof, copy or triad, in this process on the same x and dy. Everyone writes to memory of its own. Our kernel
writes into given arrays (setting `default`); in cells with a package in its default setting, it is also timed
with allocation of its results (`allocating`), from memory that was freed before, as PyTorch does in its best
case. A time includes one call and the release of what it returned. What a peer's backward pass needs of its
forward pass is computed before.

ours_ratio is the peer's time over that of our kernel; roof_fraction the roof's time over the row's.
cores_busy is CPU time over wall time in a row's samples, so the number of threads that really worked;
idle_share is the same in a peer's process between its samples. page_faults are per call. sums_difference_u is
the distance of dgamma and dbeta from ours, in u of x's dtype. The other columns are as in `timing_cpu`.
"""

import mmap
from contextlib import closing
from math import prod
from typing import Annotated

import pandas as pd
from pydantic import Field
from tqdm import tqdm

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _columns, _peer_cells
from layernorm_backward.experiments._arguments import (
    AtLeast,
    ByDtype,
    Count,
    Named,
    Names,
    Positive,
    Seconds,
    Seed,
    sets_of,
)
from layernorm_backward.experiments._peers import Limits
from layernorm_backward.experiments._sets import Set, cells
from layernorm_backward.kernels import KERNELS
from layernorm_backward.peers_at_work.crew import Crew
from layernorm_backward.peers_at_work.memory import SharedMemory
from layernorm_backward.peers_at_work.settings import SETTINGS
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import difference, sizing
from layernorm_backward.timing.pool import Pool
from layernorm_backward.timing.timed import seed_of, together

REQUIRES = ("torch", "jax")  # import names; without them the rows say so
SHARE = 3  # the arrays take at most this part of what other timings allow: each peer keeps several more


def run(
    *,
    kernels: Annotated[Names, Field(max_length=1)],
    sets: Annotated[Named[Set], sets_of(SETTINGS)],
    repeats: Count,
    at_least: AtLeast,
    at_least_resident: AtLeast,
    budget_s: Seconds,
    error_elements: Count,
    error_limit_u: ByDtype[Positive],
    sums_limit_u: ByDtype[Positive],
    answers_within_s: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per kernel or peer, setting, cell and thread count; `sets` name settings of peers.

    `kernels` holds ours, one. `budget_s` is for a cell; one in the cache has `at_least_resident` repetitions,
    since such short calls differ more from one sample to the next. Errors are looked at in rows of
    `error_elements` in all, and refused over the limit of x's dtype. A peer that does not answer within
    `answers_within_s` is given up.
    """
    (ours,) = kernels
    wanted = cells(sets, sizing.memory_limit() // SHARE)
    how = {"repeats": repeats, "budget_s": budget_s}
    limits = Limits(error_elements, error_limit_u, sums_limit_u)
    dy_offset = _whole_pages(max(prod(cell.shape) * dtype_of(cell.dtype).itemsize for cell in wanted))
    memory = SharedMemory(2 * dy_offset)
    pool = Pool(dy_offset, seed, inputs_in=(memory.array[:dy_offset], memory.array[dy_offset:]))
    counted = [(cell, count, names) for cell, counts in wanted.items() for count, names in counts.items()]
    rows, samples = [], []
    with closing(memory), Crew(memory.descriptor, dy_offset, answers_within_s) as crew:
        for cell, count, names in tqdm(counted, desc="peers_cpu", mininterval=1):
            arrays = pool.buffers(cell.shape, cell.dtype, cell.gamma_dtype)
            keys = _columns.of_cell(cell, count)
            given = how | {"seed": seed_of(seed, cell, count)}
            given |= {"at_least": at_least_resident if keys["residency"] == "cache" else at_least}
            found = _peer_cells.measured(keys, KERNELS[ours], names, arrays, crew, limits, given)
            rows += found[0]
            samples.append(found[1])
    return difference.judged(table(rows, "peers_cpu"), "ours_ratio"), together(samples)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
