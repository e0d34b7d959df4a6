"""Compiles what plans choose of numba_fused on this machine into Numba's cache, for all later processes.

The passes are compiled side by side, but all code of one pass in one process: Numba keeps an index of a
function's code, and of two processes that write it one may lose what the other has added.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from typing import NamedTuple

from tqdm import tqdm

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_plan
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.kernels.numba_vectors import between


class Code(NamedTuple):
    """Arguments of `backward_pass`, of which `forward_pass` takes all but `widened`."""

    dtype: str
    group: int
    ragged: bool
    widened: bool = False
    lag: bool = False


def chosen(direction: str) -> Iterator[Code]:
    """What rows of some size need, in each dtype."""
    for name in DTYPE_NAMES:
        for way in numba_plan.ways(dtype_of(name), direction):
            yield Code(name, *way)


def compile_all() -> None:
    """Compile all code of both passes, and that before and after; an error in a process is raised here."""
    with ExitStack() as pools:
        jobs = []
        for direction in DIRECTIONS:
            pool = pools.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
            jobs += [pool.submit(_compiled, direction, code) for code in chosen(direction)]
        jobs.append(pool.submit(_conversions))
        for job in tqdm(as_completed(jobs), desc="compile", total=len(jobs), mininterval=1):
            job.result()


def _compiled(direction: str, code: Code) -> None:
    if direction == "forward":
        forward_pass(*code[:3], lag=code.lag)
        return
    backward_pass(*code)
    if code.dtype == "float32":
        backward_pass(*code, recentre=False)  # for kernel_costs, whose other dtypes compile there


def _conversions() -> None:
    """Those for gamma in the dtype of x, and in float32."""
    for name in DTYPE_NAMES:
        between(name, name)
        between(name, "float32")
