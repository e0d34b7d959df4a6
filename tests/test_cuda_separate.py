"""The textbook CUDA kernels on the host emulation: correct, and as the table of steps lists them.

The requirements of every kernel, such as layouts and leading axes, are tested in test_kernels_agree.
"""

import ctypes
import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from emulated import needs_compiler
from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, gamma_names, sum_dtype, unit_roundoff
from layernorm_backward.gpu.program_cache import Recorder
from layernorm_backward.kernels import cuda_separate, device_missing, missing
from layernorm_backward.kernels.cuda import emulation
from layernorm_backward.kernels.cuda.emulation import SMALL, Emulation
from layernorm_backward.kernels.cuda.machine import SOURCES
from layernorm_backward.traffic import MODELS, totals

pytestmark = needs_compiler

EPS = 1e-5
HIDDEN = (1, 3, 64, 257)
ROWS = (1, 2, 33)
LONG = cuda_separate.SHORT + 5  # a block sums these rows, a warp shorter ones
TYPES = [(dtype, gamma_dtype) for dtype in DTYPE_NAMES for gamma_dtype in gamma_names(dtype)]
each_type = pytest.mark.parametrize(("dtype", "gamma_dtype"), TYPES)

# Largest error of a result, in u of its dtype, over the terms that it is summed from. A result of 16 bits is
# rounded once, by u of itself at most, and no result is larger than its terms; what float32 errs before is
# 2**13 times smaller, or more. Else some ten roundings, and kappa < 3 times that of the mean.
LIMIT_U = {"float64": 8, "float32": 8, "float16": 1.01, "bfloat16": 1.01}


@pytest.fixture(scope="module", autouse=True)
def one_library():
    """All programs compiled at once: one by one they take ten times as long."""
    recorder = Recorder(SMALL)
    for dtype, gamma_dtype in TYPES:
        for hidden in (1, LONG):
            x, gamma = np.ones((1, hidden), dtype_of(dtype)), np.ones(hidden, dtype_of(gamma_dtype))
            _, saved = cuda_separate.forward(x, gamma, gamma, EPS, machine=recorder)
            cuda_separate.backward(x, saved, machine=recorder)
    run, _ = emulation._loaded(SOURCES, "plain", next(iter(recorder.programs)))
    library = ctypes.CDLL(str(emulation.build(recorder.programs)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulation, "_loaded", lambda *of: (run, getattr(library, emulation.symbol(of[-1]))))
        yield


def run(data, eps=EPS, machine=None):
    """y, dx, dgamma, dbeta."""
    machine = machine or Emulation()
    y, saved = cuda_separate.forward(data.x, data.gamma, data.beta, eps, machine=machine)
    return y, *cuda_separate.backward(data.dy, saved, machine=machine)


def assert_right(data, results, eps=EPS):
    """Each result against the oracle, by rows."""
    x, gamma, beta, dy = (inputs.values(array) for array in data)
    exact = oracle.results(x, gamma, beta, dy, eps)
    x_hat, rstd = (part.hi for part in oracle.normalize(x, eps))
    over_rows = tuple(range(x.ndim - 1))
    terms = (
        np.abs(gamma * x_hat) + np.abs(beta),
        rstd[..., None] * gamma * dy,
        np.abs(dy * x_hat).sum(axis=over_rows),
        np.abs(dy).sum(axis=over_rows),
    )
    for name, found, right, term in zip(exact._fields, results, exact, terms, strict=True):
        error = np.linalg.norm((inputs.values(found) - right.hi) - right.lo, axis=-1)
        limit = LIMIT_U[found.dtype.name] * unit_roundoff(found.dtype)
        assert np.all(error <= limit * np.linalg.norm(term, axis=-1)), (name, x.shape)


def assert_same_bits(results, others):
    for one, other in zip(results, others, strict=True):
        assert one.dtype == other.dtype
        assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


class Launched(NamedTuple):
    """A launch, and of each array of x's size that it takes its dtype and whether it is written."""

    kernel: str
    blocks: int
    threads: int
    arrays: list[tuple[np.dtype, bool]]


class Watched(Emulation):
    """Records its launches; `size` is that of x."""

    def __init__(self, size=0):
        super().__init__()
        self.size, self.launches = size, []

    def launch(self, program, how, arguments):
        arrays = [one for one in arguments if isinstance(one, np.ndarray)]
        written = arrays[-1] if program.kernel == "combine" else None
        full = {self.address(one): (one.dtype, one is written) for one in arrays if one.size == self.size}
        self.launches.append(Launched(program.kernel, how.blocks, how.threads, list(full.values())))
        super().launch(program, how, arguments)


@each_type
def test_results_are_correct_at_every_size(problem, dtype, gamma_dtype):
    for hidden in HIDDEN:
        for rows in ROWS:
            data = problem((rows, hidden), dtype, gamma_dtype)
            results = run(data)
            assert [result.dtype.name for result in results] == [dtype, dtype, gamma_dtype, gamma_dtype]
            assert_right(data, results)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_that_a_block_sums_is_correct(problem, dtype):
    data = problem((3, LONG), dtype)
    assert_right(data, run(data))


@pytest.mark.parametrize("multiprocessors", [1, 132])
def test_results_are_correct_for_few_and_many_parts_of_the_rows(problem, multiprocessors):
    hardware = SMALL._replace(multiprocessors=multiprocessors)
    data = problem((700, 40), "float32")
    assert cuda_separate.parts(700, 40, hardware) == {1: 4, 132: 11}[multiprocessors]
    assert_right(data, run(data, machine=Emulation(hardware=hardware)))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_no_rows_give_empty_results_and_sums_of_nothing(problem, dtype):
    data = problem((0, 5), dtype)
    sums = [np.full(5, 7, dtype_of(dtype)) for _ in range(2)]
    machine = Watched()
    y, saved = cuda_separate.forward(*data[:3], EPS, machine=machine)
    dx, *_ = cuda_separate.backward(data.dy, saved, (np.empty_like(y), *sums), machine=machine)
    assert (y.shape, dx.shape) == ((0, 5), (0, 5))
    assert not np.any(sums)
    assert [kernel for kernel, *_ in machine.launches] == ["add_partials"]


def test_a_constant_row_has_no_x_hat(problem):
    data = problem((3, 49), "float32")  # 49 * (1/49) is not 1
    data.x[...] = np.array([[1], [3], [-40]])
    y, _, dgamma, _ = results = run(data)
    assert np.array_equal(y, np.broadcast_to(data.beta, y.shape))
    assert not dgamma.any()
    assert_right(data, results)


@pytest.mark.parametrize("eps", [1e-12, 1e-3, 2.0])
def test_obeys_eps(problem, eps):
    data = problem((5, 64), "float32")
    data = data._replace(x=data.x / 64)  # a variance of 2e-4
    assert_right(data, run(data, eps), eps)


def test_nothing_is_written_beside_the_results(problem):
    data = problem((9, 61), "float16")
    rows = [np.full((11, 61), 7, np.float16) for _ in range(2)]
    sums = [np.full(3 * 61, 7, np.float16) for _ in range(2)]
    _, saved = cuda_separate.forward(*data[:3], EPS, rows[0][1:-1], machine=Emulation())
    gradients = (rows[1][1:-1], *(one[61:-61] for one in sums))
    cuda_separate.backward(data.dy, saved, gradients, machine=Emulation())
    assert_right(data, (rows[0][1:-1], *gradients))
    assert all((one[[0, -1]] == 7).all() for one in rows)
    assert all((one[:61] == 7).all() and (one[-61:] == 7).all() for one in sums)


@pytest.mark.parametrize("hidden", [65, LONG])
def test_the_order_of_threads_changes_no_bit(problem, hidden):
    data = problem((6, hidden), "bfloat16", "float32")
    found = [run(data, machine=Emulation(order=order, seed=3)) for order in ("forward", "reverse", "random")]
    for one, other in pairwise(found):
        assert_same_bits(one, other)


@each_type
def test_x_hat_and_rstd_are_saved_in_the_dtype_of_the_sums(problem, dtype, gamma_dtype):
    data = problem((2, 3, 17), dtype, gamma_dtype)
    _, saved = cuda_separate.forward(*data[:3], EPS, machine=Emulation())
    wide = sum_dtype(dtype_of(dtype))
    assert [(saved.x_hat.shape, saved.x_hat.dtype), (saved.rstd.shape, saved.rstd.dtype)] == [
        ((2, 3, 17), wide),
        ((2, 3, 1), wide),
    ]
    assert saved.gamma is data.gamma
    assert saved.dtype == data.x.dtype


@pytest.mark.parametrize("shape", [(33,), (1, 33), (3, 11, 1)])
def test_a_saved_rstd_may_have_any_shape(problem, shape):
    data = problem((33, 65), "float32")
    _, saved = cuda_separate.forward(*data[:3], EPS, machine=Emulation())
    right, found = (
        cuda_separate.backward(data.dy, saved._replace(rstd=rstd), machine=Emulation())
        for rstd in (saved.rstd, saved.rstd.reshape(shape))
    )
    assert_same_bits(found, right)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_steps_are_the_launches_and_what_they_access(problem, dtype):
    data = problem((33, 65), dtype)
    machine = Watched(data.x.size)
    _, saved = cuda_separate.forward(*data[:3], EPS, machine=machine)
    forward, machine.launches = machine.launches, []
    cuda_separate.backward(data.dy, saved, machine=machine)
    for direction, launches in (("forward", forward), ("backward", machine.launches)):
        for step, (*_, arrays) in zip(cuda_separate.STEPS[direction], launches, strict=True):
            assert step.writes == sum(written for _, written in arrays), step
            assert step.reads + step.writes == len(arrays), step
            assert dtype == "float32" or step.stored == sum(one == data.x.dtype for one, _ in arrays), step
        moved = sum(one.itemsize for *_, arrays in launches for one, _ in arrays)
        assert cuda_separate.bytes_per_element(direction, data.x.dtype) == moved


def test_no_block_is_idle_and_no_row_waits_where_blocks_are_few(problem):
    machine = Watched()
    for hidden in (65, LONG):
        data = problem((3, hidden), "float32")
        cuda_separate.forward(*data[:3], EPS, machine=machine)
    found = {(kernel, blocks, threads) for kernel, blocks, threads, _ in machine.launches}
    assert found == {
        ("mean_rows", 1, 256),
        ("mean_rows", 3, 256),
        ("inverse_root", 1, 256),
        ("combine", 3, 512),
        ("combine", 33, 512),
    }


def test_constants_are_those_of_the_sources():
    text = "".join((SOURCES / f"{name}.cuh").read_text() for name in ("separate", "columns"))
    numbers = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", text)}
    for name in ("ACROSS", "DOWN", "UNROLL"):
        assert numbers[name] == getattr(cuda_separate, name)
    maps = {
        name: tuple(map(int, sizes)) for name, *sizes in re.findall(r"(\w+) = Map<(\d+), \d, 1, (\d+)", text)
    }
    threads = cuda_separate.THREADS
    assert maps == {"WarpMap": (threads, cuda_separate.WARP), "BlockMap": (threads, threads)}


def test_the_steps_move_seven_times_the_fewest_bytes():
    found = [cuda_separate.bytes_per_element(way, np.dtype("f4")) for way in ("forward", "backward")]
    assert found == [48, 84]
    assert cuda_separate.bytes_per_element("backward", dtype_of("bfloat16")) == 4 * 2 + 17 * 4


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_steps_are_those_of_numpy_on_the_compact_formula(direction):
    modelled, steps = totals(MODELS["compact"][direction]), cuda_separate.STEPS[direction]
    assert sum(step.reads for step in steps) == modelled.reads
    assert sum(step.writes for step in steps) == modelled.writes
    names = {step.name for step in MODELS["compact"][direction]}
    assert names == {step.name for step in steps if step.reads}


@pytest.mark.skipif(not missing(cuda_separate.KERNEL), reason="there is a device")
def test_without_a_device_the_reason_is_reported(problem):
    with pytest.raises(RuntimeError, match=re.escape(device_missing())):
        cuda_separate.forward(*problem((2, 3), "float32")[:3], EPS)
