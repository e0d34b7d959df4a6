"""Operations and memory accesses of each kernel, counted by running it on counting arrays.

A count f(N, D) = a + b*N + c*D + d*N*D is taken at four small sizes. Their mixed difference is d, the number
per element of x; terms in N or D alone cancel exactly. NumPy kernels run unchanged; numpy_blocked runs in
four blocks for every N, with a model cache of the size for which its blocks are made. The source of
numba_fused runs in Python (`lanes`), with a model cache of a few rows. A scheme's function reads its
parameters and writes its results, and its operations are NumPy's.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import KERNELS, numba_plan, numpy_blocked, row_blocks
from layernorm_backward.traffic import Stores, Totals
from layernorm_backward.traffic.arrays import Tally, counted
from layernorm_backward.traffic.lanes import counting
from layernorm_backward.traffic.schemes import SCHEMES

SIZES = (8, 32)  # N and D of the smallest run: fewer rows than a chunk, whole cache lines in every dtype
EPS = 1e-5
BLOCKS = 4
CACHED_ROWS = 12  # in the counting run of numba_fused, of the 24 that x, dy and dx have, or more
_FIELDS = Totals._fields
_Run = Callable[[Direction, str, int, int], Tally]


def count(name: str, direction: Direction, dtype: str, stores: Stores = "ordinary") -> Totals:
    """Counts per element of x for a kernel or a scheme; row_sums is NaN for numba_fused.

    `stores` are those of numba_fused's large result; all others have ordinary ones.
    """
    rows, hidden = SIZES
    run = _runner(name, stores)
    tallies = {(i, j): run(direction, dtype, i * rows, j * hidden) for i in (1, 2) for j in (1, 2)}
    found = {
        field: sum((-1) ** (i + j) * getattr(tally, field) for (i, j), tally in tallies.items())
        for field in _FIELDS
    }
    per_element = Totals(**{field: value / (rows * hidden) for field, value in found.items()})
    row_sums = float("nan") if name == "numba_fused" else tallies[1, 1].row_sums
    return per_element._replace(row_sums=row_sums)


def _runner(name: str, stores: Stores) -> _Run:
    if name in SCHEMES:
        return lambda *size: _scheme(name, *size)
    if name == "numba_fused":
        return lambda *size: _numba_fused(stores, *size)
    return _numpy_blocked if name == "numpy_blocked" else lambda *size: _numpy(name, Tally(), *size)


def _numpy(name: str, tally: Tally, direction: Direction, dtype: str, rows: int, hidden: int) -> Tally:
    kernel = KERNELS[name]
    x, dy, out, gamma, beta, dgamma, dbeta = (counted(a, tally) for a in _arrays(dtype, rows, hidden))
    _, saved = kernel.forward(x, gamma, beta, EPS, out=out)
    if direction == "backward":
        tally.restart()
        kernel.backward(dy, saved, out=(out, dgamma, dbeta))
    if not tally.operations:
        raise ValueError(f"{name}: no NumPy operation was seen; allowed: kernels in NumPy, and numba_fused")
    tally.flushed(out)
    return tally


def _numpy_blocked(direction: Direction, dtype: str, rows: int, hidden: int) -> Tally:
    """Scratch is counted as well; each block has its own row sums, so their total is divided by BLOCKS."""
    block = rows // BLOCKS
    tally = Tally(cache=row_blocks.SHARE * block * hidden)
    sizes = row_blocks.Blocks(group=block, block=block)
    with _replaced(numpy_blocked, np=_numpy_that_counts(tally), blocks=lambda *_: sizes):
        _numpy("numpy_blocked", tally, direction, dtype, rows, hidden)
    tally.row_sums //= BLOCKS
    return tally


def _numpy_that_counts(tally: Tally) -> SimpleNamespace:
    """NumPy, whose newly created and required arrays are counted."""

    def wrapped(function: Callable[..., NDArray]) -> Callable[..., NDArray]:
        return lambda *arguments, **options: counted(function(*arguments, **options), tally)

    return SimpleNamespace(**vars(np) | {"empty": wrapped(np.empty), "require": wrapped(np.require)})


@contextmanager
def _replaced(module: ModuleType, **names: Any) -> Iterator[None]:
    before = {name: getattr(module, name) for name in names}
    vars(module).update(names)
    try:
        yield
    finally:
        vars(module).update(before)


def _numba_fused(stores: Stores, direction: Direction, dtype: str, rows: int, hidden: int) -> Tally:
    x, dy, out, gamma, beta, dgamma, dbeta = _arrays(dtype, rows, hidden)
    tally = Tally(cache=CACHED_ROWS * hidden)
    streamed, stretch = stores == "non-temporal", numba_plan.BLOCK
    plan = numba_plan.Plan(group=1, ahead=1, stream=streamed, chunks=1, stretch=stretch)
    with counting(tally, (x, dy, out)) as kernel:
        _, saved = kernel.forward(x, gamma, beta, EPS, out=out, plan=plan)
        if direction == "backward":
            tally.restart()
            kernel.backward(dy, saved, out=(out, dgamma, dbeta), plan=plan)
    tally.flushed(out)
    return tally


def _scheme(name: str, direction: Direction, dtype: str, rows: int, hidden: int) -> Tally:
    x, dy, _, gamma, beta, *_ = _arrays(dtype, rows, hidden)
    known = {"x": x, "dy": dy, "gamma": gamma, "beta": beta}
    tally = _sweeps(name, "forward", known)
    return tally if direction == "forward" else _sweeps(name, "backward", known)


def _sweeps(name: str, direction: Direction, known: dict[str, NDArray]) -> Tally:
    """Run a scheme on the arrays `known`, to which its results are added. In a fused scheme, a repeated read
    of an array hits the cache."""
    tally, seen = Tally(), set()
    for sweep in SCHEMES[name][direction]:
        inside = Tally()
        read = {key: counted(known[key], inside) for key in inspect.signature(sweep).parameters}
        written = sweep(**read)
        cached = sum(read[key].size for key in seen & set(read))
        tally.passed(
            sum(array.size for array in read.values()), sum(array.size for array in written.values())
        )
        tally.memory_reads -= cached
        tally.operations += inside.operations
        tally.row_sums += inside.row_sums
        known |= {key: np.asarray(array) for key, array in written.items()}
        seen |= set(read) if name == "fused" else set()
    return tally


def _arrays(dtype: str, rows: int, hidden: int) -> list[NDArray]:
    """x, dy, out (N, D), gamma, beta, dgamma, dbeta (D,), all random, page-aligned."""
    rng = np.random.default_rng(0)
    shapes = [(rows, hidden)] * 3 + [(hidden,)] * 4
    arrays = [aligned_empty(shape, dtype_of(dtype)) for shape in shapes]
    for array in arrays:
        array[...] = rng.standard_normal(array.shape)
    return arrays
