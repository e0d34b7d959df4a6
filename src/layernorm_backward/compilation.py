"""Compiles numba_fused, or other code, on all cores into Numba's cache, for all later processes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import chain, zip_longest
from multiprocessing import get_context

from tqdm import tqdm

from layernorm_backward import machine
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_plan
from layernorm_backward.kernels.numba_calls import Code
from layernorm_backward.kernels.numba_vectors import between

MOST_PROCESSES = 8  # of 0.5 GB each


def compile_all() -> None:
    """Everything that plans choose on this machine, and the conversions of gamma and other vectors.

    Directions alternate: of two processes each then compiles one direction, and reuses what its codes share.
    """
    for name in DTYPE_NAMES:
        between(name, name)
        between(name, "float32")
    turns = zip_longest(*map(chosen, DIRECTIONS))
    compile_codes(code for code in chain.from_iterable(turns) if code)


def chosen(direction: str) -> Iterator[Code]:
    """The code that plans choose for rows of several sizes, in each dtype."""
    for name in DTYPE_NAMES:
        for variant in numba_plan.code_variants(dtype_of(name), direction):
            yield Code(direction, name, *variant)


def compile_codes(codes: Iterable[Code]) -> None:
    """Compile each code, or load it from the cache."""
    side_by_side(_compiled, ((code,) for code in dict.fromkeys(codes)))


def side_by_side(compiling: Callable[..., None], each: Iterable[tuple]) -> None:
    """Call `compiling` with each tuple of arguments in parallel processes, with progress; errors propagate.

    Each compiled function needs its own index in Numba's cache (`sources.named`).
    """
    workers = min(machine.usable_cores(), MOST_PROCESSES)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [pool.submit(compiling, *arguments) for arguments in each]
        for job in tqdm(as_completed(jobs), desc="compile", total=len(jobs), mininterval=1):
            job.result()


def _compiled(code: Code) -> None:
    code.compiled()
