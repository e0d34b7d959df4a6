"""What a campaign on a GPU is made of: rows, checks in float64, timing, roofs, and what tools print."""

import ctypes
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pandas as pd
import pytest
import yaml

from emulated import needs_compiler
from host_board import HostBoard
from kept_otherwise import KEPT
from layernorm_backward import kernels, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.experiments import backward_error_gpu, checks_gpu, timing_gpu, traffic_gpu
from layernorm_backward.gpu import (
    contenders,
    exact,
    modelled,
    paired,
    roofs,
    timer,
    variants,
    warm,
)
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import PRIME, Arrays, Pool
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.gpu.views import LIES, Views
from layernorm_backward.host import installed
from layernorm_backward.kernels import KERNELS
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware
from layernorm_backward.traffic.least import minimum_bytes
from workspace import ROOT

H200 = Hardware(multiprocessors=132, shared_bytes=228 << 10, hopper=True)
EPS = 1e-5


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_rows_have_their_dtype_mean_and_spread_and_differ(dtype):
    given = Pool(HostBoard(), 1).arrays(300, 200, dtype, "float32")
    assert [array.dtype for array in given] == [
        dtype_of(name) for name in (dtype, "float32", "float32", dtype)
    ]
    for array, mean in ((given.x, 0.5), (given.dy, 1.0)):
        values = array.astype(np.float64)
        assert values.mean() == pytest.approx(mean, abs=0.02)
        assert values.std() == pytest.approx(1, abs=0.02)
        assert len(np.unique(values, axis=0)) == 300
    assert all(PRIME % factor for factor in range(2, 2049))


def test_rows_that_found_no_memory_are_drawn_by_the_next_cell():
    """Every later cell of the dtype had failed: the pool took itself for drawn."""

    class Full(HostBoard):
        def array(self, values):
            raise MemoryError("out of memory")

    pool = Pool(Full(), 1)
    with pytest.raises(MemoryError):
        pool.arrays(3, 4, "float32", "float32")
    pool._board = HostBoard()
    found, wanted = (one.arrays(3, 4, "float32", "float32") for one in (pool, Pool(HostBoard(), 1)))
    assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))


@pytest.mark.parametrize("row", [0, 37, 99])
def test_nan_is_looked_for_a_block_at_a_time(row, monkeypatch):
    """In float64 at once, results of 2**32 elements had no room: a wrong one was told as out of memory."""
    monkeypatch.setattr(exact, "BLOCK", 64)
    asked, honest = [], exact.wide
    monkeypatch.setattr(exact, "wide", lambda array: asked.append(array.size) or honest(array))
    y = np.zeros((100, 7), np.float32)
    assert exact.nan_in(np, Results(y, y, None, None)) == []
    assert sum(asked) == 2 * y.size
    y[row, 3] = np.nan
    assert exact.nan_in(np, Results(y, None, np.ones(7), y[row])) == ["y", "dbeta"]
    assert max(asked) <= 64


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_errors_are_those_against_the_oracle(dtype):
    given = Pool(HostBoard(), 2).arrays(12, 40, dtype, dtype)
    kernel = KERNELS["reference"]
    y, saved = kernel.forward(given.x, given.gamma, given.beta, EPS)
    results = Results(y, *kernel.backward(given.dy, saved))
    found = exact.errors(np, given, results, EPS)
    assert max(found) < (8 if dtype == "float64" else 1)
    values = [array.astype(np.float64) for array in given]
    right = oracle.results(*values, EPS)
    off = results.dx.astype(np.float64) - right.dx.hi
    rstd = 1 / np.sqrt(values[0].var(axis=-1, keepdims=True) + EPS)
    terms = np.linalg.norm(rstd * values[1] * values[3], axis=-1)
    wanted = (np.linalg.norm(off, axis=-1) / terms).max() / (float(exact.unit_roundoff(dtype_of(dtype))))
    assert found.dx == pytest.approx(wanted, rel=0.05, abs=1.0 if dtype == "float64" else 0.01)


@pytest.mark.parametrize("field", Results._fields)
def test_one_element_that_was_not_written_is_found(field):
    given = Pool(HostBoard(), 2).arrays(12, 40, "float32", "float32")
    kernel = KERNELS["reference"]
    y, saved = kernel.forward(given.x, given.gamma, given.beta, EPS)
    results = Results(y, *kernel.backward(given.dy, saved))
    getattr(results, field).reshape(-1)[7] = np.nan
    assert np.isnan(getattr(exact.errors(np, given, results, EPS), field))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_its_dtype_cannot_hold_is_right_where_it_is_infinite_and_only_there(sign):
    given = Pool(HostBoard(), 2).arrays(200, 8, "float16", "float16")
    given.dy[:] = sign * 500
    found = exact.errors(np, given, Results(None, None, None, np.full(8, sign * np.inf, np.float16)), EPS)
    assert found.dbeta == 0
    for wrong in (-sign * np.inf, np.nan, sign * 60000):
        found = exact.errors(np, given, Results(None, None, None, np.full(8, wrong, np.float16)), EPS)
        assert not found.dbeta < 500
    given.dy[:] = sign * 5
    found = exact.errors(np, given, Results(None, None, None, np.full(8, sign * np.inf, np.float16)), EPS)
    assert np.isnan(found.dbeta)


def test_what_was_not_computed_has_no_error():
    given = Pool(HostBoard(), 2).arrays(5, 8, "float32", "float32")
    y, _ = KERNELS["reference"].forward(given.x, given.gamma, given.beta, EPS)
    found = exact.errors(np, given, Results(y, None, None, None), EPS)
    assert found.y < 1
    assert np.isnan([found.dgamma, found.dbeta]).all()


def test_repetitions_run_every_call_once_and_a_slow_one_takes_longer():
    board = HostBoard()
    numbers = np.random.default_rng(1).standard_normal(200_000)
    calls = {
        "slow": Timed(lambda: [numbers.sum() for _ in range(50)]),
        "fast": Timed(lambda: numbers[:10].sum()),
    }
    samples = timer.compare(board, calls, repeats=9, at_least=9, budget_s=0, seed=1, cold=True)
    assert samples.groupby("repeat")["name"].nunique().eq(2).all()
    assert board.flushed == 2 * 10
    found = timer.ratio(samples, "slow", "fast")
    assert 5 < found.low <= found.median <= found.high
    assert timer.summary(samples, "slow").repeats == 9


def test_the_budget_ends_a_timing_after_the_least_repetitions():
    calls = {"one": Timed(lambda: None)}
    samples = timer.compare(HostBoard(), calls, repeats=50, at_least=6, budget_s=0.0, seed=1, cold=False)
    assert len(samples) == 6


def test_a_repetition_of_large_arrays_begins_on_a_device_that_is_at_work():
    board, done = HostBoard(), []
    board.flush = lambda: done.append("flush")
    calls = {"one": Timed(lambda: done.append("call")), "other": Timed(lambda: done.append("call"))}
    timer.compare(board, calls, repeats=3, at_least=3, budget_s=0, seed=1, cold=False)
    assert done == 2 * ["call"] + 3 * ["flush", "call", "call"]


def test_a_call_with_streams_of_its_own_is_timed_until_it_is_done():
    done = []
    timed = Timed(lambda: done.append("call"), lambda: done.append("wait"))
    timer.compare(HostBoard(), {"jax": timed}, repeats=1, at_least=1, budget_s=0, seed=1, cold=False)
    assert done == 2 * (timer.CALLS * ["call"] + ["wait"])


def test_an_interval_of_the_median_holds_it_as_often_as_it_says():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        seconds = np.exp(rng.standard_normal(25))
        frame = pd.DataFrame({"name": "a", "repeat": range(25), "seconds": seconds})
        ones = pd.DataFrame({"name": "b", "repeat": range(25), "seconds": np.ones(25)})
        found = timer.ratio(pd.concat([frame, ones]), "a", "b")
        held += found.low <= 1 <= found.high
    assert 0.93 <= held / 400 <= 0.995
    short = pd.DataFrame({"name": "a", "repeat": range(5), "seconds": np.ones(5)})
    assert np.isnan(timer.ratio(short, "a", "a").low)


def test_no_samples_are_told():
    with pytest.raises(ValueError, match="no samples of 'b'; there are: \\['a'\\]"):
        timer.summary(pd.DataFrame({"name": ["a"], "repeat": [0], "seconds": [1.0]}), "b")


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("operation", roofs.OPERATIONS)
def test_streams_do_what_they_say(operation, dtype):
    board = HostBoard()
    given = Pool(board, 3).arrays(70, 64, dtype, dtype)
    a = np.zeros_like(given.x)
    roofs.stream(board, operation, a, given.x, given.dy)()
    right = given.x.astype(np.float64)
    if roofs.kind(operation) == "triad":
        right = right + roofs.SCALE * given.dy.astype(np.float64)
    assert np.allclose(a.astype(np.float64), right, rtol=float(4 * exact.unit_roundoff(a.dtype)))


def test_the_fewest_bytes_and_those_that_the_kernel_is_written_to_move():
    cell = traffic_gpu.Cell("backward", "float32", 65536, 1024)
    tensor = 65536 * 1024 * 4
    least = minimum_bytes(*cell)
    assert least == 3 * tensor + 3 * 4096 + 2 * 4 * 65536
    machine = warm.Recorder(H200)
    found = modelled.columns("cuda_fused", *cell, machine)
    assert found["accesses_per_element"] == 3
    assert 1 < found["modelled_bytes"] / least < 1.03
    long = traffic_gpu.Cell("backward", "float32", 16, 1 << 20)
    assert modelled.columns("cuda_fused", *long, machine)["accesses_per_element"] == 5
    separate = modelled.columns("cuda_separate", *cell, machine)
    assert separate["accesses_per_element"] == 21
    assert separate["modelled_bytes"] / least == pytest.approx(7, rel=0.02)
    assert modelled.columns("liger", *cell, machine) == {}


class Arguments(warm.Recorder):
    """Remembers what each program was given, too."""

    given: dict[str, tuple]

    def launch(self, program, how, arguments):
        self.given = {**getattr(self, "given", {}), program.kernel: (how, arguments)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_rows_that_are_read_again_move_is_what_their_kernels_are_given(dtype):
    rows, hidden = 20, 262145
    machine = Arguments(H200)
    warm.run(variants.passes("cuda_fused", machine), dtype, dtype, hidden, rows)
    _, (dy, x, mean, rstd, gamma, coefficients, *_) = machine.given["project_wide"]
    how, (*_, dx, partials, _, _, parts) = machine.given["differentiate_wide"]
    tiles = how.blocks // parts
    small = (gamma, gamma, gamma, mean, rstd, coefficients, partials, partials)  # dgamma, dbeta are as gamma
    moved = sum(one.nbytes for one in (dy, dy, x, x, dx, *small))
    moved += tiles * sum(one.nbytes for one in (mean, rstd, coefficients))
    cell = traffic_gpu.Cell("backward", dtype, rows, hidden)
    assert modelled.columns("cuda_fused", *cell, machine)["modelled_bytes"] == moved
    assert (tiles, parts) == (129, 2)


@pytest.mark.parametrize("study", ["paper", "full"])
def test_the_traffic_of_rows_that_are_read_again_is_counted(study):
    values = yaml.safe_load((ROOT / f"config/{study}/traffic_gpu.yaml").read_text(encoding="utf-8"))
    machine, again = warm.Recorder(H200), set()
    for cell in traffic_gpu.cells(**values):
        accesses = modelled.columns("cuda_fused", *cell, machine)["accesses_per_element"]
        if accesses == modelled.AGAIN[cell.direction]:
            again.add((cell.direction, cell.dtype))
    assert again == set(product(values["directions"], values["dtypes"]))


@pytest.mark.parametrize("study", ["paper", "full"])
def test_errors_of_all_peers_that_are_timed_are_measured_those_of_compilers_last_and_at_one_size(study):
    values, timed = (
        yaml.safe_load((ROOT / f"config/{study}/{stem}.yaml").read_text(encoding="utf-8"))
        for stem in ("backward_error_gpu", "timing_gpu")
    )
    cells = backward_error_gpu.cells(**values)
    assert set(values["peers"]) == set(timed["peers"])
    assert {name for names in cells.values() for name in names} == {*values["kernels"], *values["peers"]}
    slow = [cell for cell, names in cells.items() if {*names} & {*backward_error_gpu.COMPILED}]
    assert slow == list(cells)[-len(slow) :] and {cell.hidden for cell in slow} == {values["hidden"]}
    assert [cell.kappa for cell in slow if cell.dtype == "float32"] == values["kappas"]
    found = [row for cell, names in cells.items() for row in backward_error_gpu.unmeasured(cell, names, "")]
    keys = [(row["kernel"], row["dtype"], row["kappa"], row["hidden"], row["quantity"]) for row in found]
    assert len(set(keys)) == len(keys)
    assert "compiled" not in {key for row in found for key in row}


def test_fewer_clusters_than_were_planned_move_fewer_partial_sums():
    cell = traffic_gpu.Cell("backward", "float32", 65536, 65536)
    machine = warm.Recorder(H200)
    most = modelled.columns("cuda_fused", *cell, machine)["modelled_bytes"]
    machine.clusters = lambda program, how: 5
    fewer = modelled.columns("cuda_fused", *cell, machine)["modelled_bytes"]
    assert most - fewer == (16 - 5) * 2 * 2 * 4 * 65536


PAIRS = [(dtype, dtype) for dtype in DTYPE_NAMES] + [("float16", "float32"), ("bfloat16", "float32")]


@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_views_begin_apart_and_hold_what_the_arrays_held(dtype, gamma_dtype):
    given = Pool(HostBoard(), 1).arrays(5, 8, dtype, gamma_dtype)
    views, (of_given, of_results) = Views(np), LIES["apart"]
    x, gamma, _, dy = copies = views.laid(given, of_given)
    y, dx, dgamma, dbeta = views.laid(Results(given.x, given.x, given.gamma, given.beta), of_results)
    for one, other in zip(copies, given, strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    for arrays in ((x, y), (x, dy, dx)):
        places = [one.ctypes.data for one in arrays]
        assert plan.lie(8, x.itemsize, *places) == plan.APART
    assert all(one.ctypes.data % 16 for one in (gamma, dgamma, dbeta))
    assert views.untouched()


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("place", [-1, 5 * 8])
def test_what_is_written_beside_a_view_is_seen(which, place):
    views = Views(np)
    results = views.laid(Results(*(np.zeros((5, 8), np.float32) for _ in range(4))), LIES["apart"].results)
    results[which][...] = 1
    assert views.untouched()
    ctypes.c_float.from_address(results[which].ctypes.data + 4 * place).value = 1.0
    assert not views.untouched()


BOTH = ["cuda_fused", "cuda_separate"]


def launched_by_passing(
    cells: list[checks_gpu.Cell], monkeypatch: pytest.MonkeyPatch
) -> tuple[Hardware, set[Program]]:
    """The hardware and the programs launched, where BOTH pass the checks of the cells."""
    board, launched = HostBoard(), set()
    launch = board.machine.launch
    monkeypatch.setattr(
        board.machine, "launch", lambda program, *how: launched.add(program) or launch(program, *how)
    )
    limits = {"float64": 8, "float32": 8, "float16": 1.5, "bfloat16": 1.5}
    how = {"time_left": float, "limits_u": limits, "runs": 2, "eps": EPS}
    for cell in cells:
        rows, _ = checks_gpu.measure(board, Pool(board, 1), cell, BOTH, **how)
        passed = [(row["kernel"], row["passed"], row["reason"]) for row in rows]
        assert passed == [(name, True, "") for name in BOTH]
    assert launched
    return board.machine.hardware, launched


@needs_compiler
@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_kernels_are_right_on_arrays_that_begin_apart_by_the_programs_that_are_told_before(
    dtype, gamma_dtype, monkeypatch
):
    cells = [checks_gpu.Cell("apart", dtype, gamma_dtype, 9, hidden) for hidden in (61, 64)]
    hardware, launched = launched_by_passing(cells, monkeypatch)
    told = {"kernels": BOTH, "dtypes": [dtype], "apart": [61, 64]}
    assert launched <= set(checks_gpu.programs(hardware, **told))


@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_views_with_steps_hold_what_the_arrays_held_and_lie_otherwise(dtype, gamma_dtype):
    given = Pool(HostBoard(), 1).arrays(5, 8, dtype, gamma_dtype)
    views, results = Views(np), Results(given.x, given.dy, given.gamma, given.beta)
    made = map(views.laid, (given, results), LIES["strided"])
    for one, other in zip(chain(*made), (*given, *results), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
        assert one.flags.aligned and not one.flags.c_contiguous
    off = views.off_place(given.x)
    assert (off.dtype, off.tobytes()) == (given.x.dtype, given.x.tobytes())
    assert not off.flags.aligned and off.flags.c_contiguous
    assert views.untouched()


@pytest.mark.parametrize("which", range(8))
def test_what_is_written_between_the_elements_of_a_view_is_seen(which):
    """As if it lay plainly, from its first element on; what is turned has no room between."""
    zeros = [np.zeros((5, 8) if axes == 2 else 8, np.float32) for axes in (2, 1, 1, 2, 2, 2, 1, 1)]
    views = Views(np)
    made = [*chain(*map(views.laid, (Arrays(*zeros[:4]), Results(*zeros[4:])), LIES["strided"]))]
    for one in made:
        one[...] = 1
    assert views.untouched()
    first = made[which].ctypes.data
    turned = made[which].flags.f_contiguous and made[which].ndim == 2
    for place in [made[which].size] if turned else range(1, made[which].size):
        ctypes.c_float.from_address(first + 4 * place).value = 1.0
    assert not views.untouched()


@pytest.mark.parametrize("place", [-1, 40])
def test_what_is_written_beside_an_array_off_its_place_is_seen(place):
    views = Views(np)
    off = views.off_place(np.zeros((5, 8), np.float32))
    off[...] = 1
    assert views.untouched()
    ctypes.c_float.from_address(off.ctypes.data + 4 * place).value = 1.0
    assert not views.untouched()


@needs_compiler
@pytest.mark.parametrize("check", ["strided", "unaligned"])
@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_kernels_are_right_on_views_by_the_programs_of_arrays_that_lie_plainly(
    dtype, gamma_dtype, check, monkeypatch
):
    hardware, launched = launched_by_passing([checks_gpu.Cell(check, dtype, gamma_dtype, 9, 61)], monkeypatch)
    cells = [(name, dtype, gamma_dtype, 61) for name in BOTH]
    assert launched <= set(warm.needed(cells, hardware))


def test_the_programs_of_a_campaign_are_found_without_running_it():
    cells = [("cuda_fused", "float32", "float32", hidden) for hidden in (1024, 1024, 1000)]
    texts = [program.text for program in warm.needed([*cells, ("liger", "float32", "float32", 64)], H200)]
    assert len(texts) == len(set(texts))
    assert {text.partition("<")[0] for text in texts} == {"forward", "backward", "add_partials"}


def test_a_program_that_does_not_compile_costs_only_the_cells_that_need_it(monkeypatch):
    tried = []

    def compiled(programs, arch):
        tried.extend(programs)
        raise RuntimeError("NVRTC_ERROR_COMPILATION (6)")

    monkeypatch.setattr(warm, "compiled", compiled)
    program = warm.Program("backward", "backward", ("float",))
    assert not warm._compile(program, "sm_90")
    assert tried == [program]
    assert warm.compile_all([], "sm_90") == 0


class OnePerCore:
    """A pool of processes that does nothing itself: futures end when they are waited for, with `results`."""

    def __init__(self, results):
        self.results, self.begun = iter(results), 0

    def __call__(self, cores, mp_context):
        return nullcontext(self)

    def submit(self, function, program, arch):
        self.begun += 1
        future, result = Future(), next(self.results)
        if result == "refused":
            raise BrokenProcessPool
        if result == "killed":
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(result)
        return future


@pytest.mark.parametrize(
    ("results", "failed"),
    [([True] * 5, 0), ([True, False, True, False, False], 3), ([True, "killed", "refused", "refused"], 3)],
)
def test_programs_that_a_killed_process_leaves_have_failed(monkeypatch, results, failed):
    pool = OnePerCore(results)
    monkeypatch.setattr(warm, "ProcessPoolExecutor", pool)
    assert warm.compile_all(range(len(results)), "sm_90") == failed
    assert pool.begun == len(results)


def test_no_program_is_taken_before_a_core_is_free_for_it(monkeypatch):
    pool = OnePerCore([True] * 9)
    monkeypatch.setattr(warm, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(warm.os, "sched_getaffinity", lambda _: {0, 1})
    programs = iter(range(9))
    ended = []
    honest = warm.wait

    def wait(at_work, **how):
        assert pool.begun - len(ended) <= 2
        done, left = honest(at_work, **how)
        ended.extend(done)
        return done, left

    monkeypatch.setattr(warm, "wait", wait)
    assert warm.compile_all(programs, "sm_90") == 0
    assert len(ended) == 9


def test_a_kernel_of_another_package_is_timed_as_it_is(monkeypatch):
    theirs = replace(KEPT["tuple"], name="theirs", device="cuda")
    monkeypatch.setattr(variants, "KERNELS", {"theirs": theirs})
    board = HostBoard()
    given = Pool(board, 1).arrays(9, 40, "float32", "float32")
    found = contenders.prepare(board, "theirs", given, EPS)
    assert max(exact.errors(np, given, found.results(), EPS)) < 8
    assert found.saved_bytes - given.gamma.nbytes == found.saved_extra_bytes > given.x.nbytes
    assert warm.needed([("theirs", "float32", "float32", 40)], H200) == []


def test_installed_packages_are_looked_through_once(monkeypatch):
    looked = []
    monkeypatch.setattr(
        installed.metadata, "packages_distributions", lambda: looked.append(1) or {"numpy": ["numpy"]}
    )
    installed._distribution.cache_clear()
    kernel = replace(KERNELS["reference"], requires=("numpy",))
    assert [kernels.version(kernel) for _ in range(3)] == 3 * [f"numpy {np.__version__}"]
    assert looked == [1]
    installed._distribution.cache_clear()


@pytest.mark.parametrize("study", ["paper", "full"])
def test_a_sanitizer_sees_each_ring_filled_again(study):
    values = yaml.safe_load((ROOT / f"config/{study}/checks_gpu.yaml").read_text(encoding="utf-8"))
    maps = set()
    for dtype, rows, hidden in values["sanitized"]:
        size = dtype_of(dtype).itemsize
        for direction in ("forward", "backward"):
            how = plan.choose(direction, rows, hidden, size, plan.lie(hidden, size, 0), H200)
            assert not how.map.ring or rows >= (how.stages + 2) * how.partials * how.map.teams
            maps.add(how.map)
    assert {one.ring for one in maps if one.lie == plan.RAGGED} == {True, False}
    assert {one.cluster > 1 for one in maps if one.ring} == {True, False}
    assert {one.cluster for one in maps} >= {1, 2, 8}
    assert any(one.cluster > 1 for one in maps if one.lie == plan.RAGGED)
    assert len({one.lie for one in maps}) > 1


def chosen(itemsize, sizes):
    """The maps of both passes for rows of these lengths, and whether they take them as ragged rows."""
    plans = {
        direction: [
            plan.choose(direction, 257, hidden, itemsize, plan.lie(hidden, itemsize, 0), H200)
            for hidden in sizes
        ]
        for direction in plan.MAPS
    }
    return {
        (direction, how.map._replace(lie=plan.ALIKE), how.map.lie == plan.RAGGED)
        for direction, found in plans.items()
        for how in filter(None, found)
    }


@pytest.mark.parametrize("study", ["paper", "full"])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_results_are_checked_of_every_map_of_the_table_on_aligned_and_on_ragged_rows(study, itemsize):
    """Where one map follows on another, as few chunks as it takes and as many: so all that can be chosen."""
    lanes = plan.CHUNK // itemsize
    chunks = {one.most + more for maps in plan.MAPS.values() for one in maps[itemsize] for more in (0, 1)}
    sizes = {many * lanes + more for many in (0, 1, *chunks) for more in (0, 1)}
    values = yaml.safe_load((ROOT / f"config/{study}/checks_gpu.yaml").read_text(encoding="utf-8"))
    reached = chosen(itemsize, sorted(sizes - {0}))
    assert {one for _, one, _ in reached} == {one for maps in plan.MAPS.values() for one in maps[itemsize]}
    assert reached <= chosen(itemsize, values["hidden"])


@pytest.mark.parametrize("study", ["paper", "full"])
def test_each_tool_looks_at_a_ragged_ring_before_any_looks_at_more(study):
    values = yaml.safe_load((ROOT / f"config/{study}/checks_gpu.yaml").read_text(encoding="utf-8"))
    first, *_ = late = [cell for cell in checks_gpu.cells(**values) if checks_gpu.late(cell)]
    assert [cell.check for cell in late[:4]] == ["racecheck", "synccheck", "memcheck", "initcheck"]
    assert {cell._replace(check="") for cell in late[:4]} == {first._replace(check="")}
    how = plan.choose("backward", first.rows, first.hidden, dtype_of(first.dtype).itemsize, plan.RAGGED, H200)
    assert how.map.ring


@pytest.mark.parametrize("study", ["paper", "full"])
def test_rows_that_are_gone_over_again_are_checked_with_all_rings_and_clusters(study):
    values = yaml.safe_load((ROOT / f"config/{study}/checks_gpu.yaml").read_text(encoding="utf-8"))
    cells = [cell for cell in checks_gpu.cells(**values) if cell.check == "far"]
    assert {cell.dtype for cell in cells} == set(values["dtypes"])
    maps = set()
    for cell in cells:
        size = dtype_of(cell.dtype).itemsize
        lie = plan.lie(cell.hidden, size, 0)
        maps.add(plan.choose("forward", cell.rows, cell.hidden, size, lie, H200).map)
    assert {one.cluster for one in maps if one.ring} >= {1, 2, 4, 8}
    assert {one.lie for one in maps if one.cluster > 1} >= {plan.RAGGED}


@pytest.mark.parametrize("study", ["paper", "full"])
@pytest.mark.parametrize("direction", plan.MAPS)
def test_arrays_that_begin_apart_are_checked_in_registers_rings_and_clusters(study, direction):
    values = yaml.safe_load((ROOT / f"config/{study}/checks_gpu.yaml").read_text(encoding="utf-8"))
    cells = [cell for cell in checks_gpu.cells(**values) if cell.check == "apart"]
    assert {cell.dtype for cell in cells} == set(values["dtypes"])
    for dtype in values["dtypes"]:
        size = dtype_of(dtype).itemsize
        its = [cell for cell in cells if cell.dtype == dtype]
        plans = [plan.choose(direction, cell.rows, cell.hidden, size, plan.APART, H200) for cell in its]
        maps = [how.map for how in plans if how]
        assert {(one.ring, one.cluster > 1) for one in maps} == {(False, False), (True, False), (True, True)}
        assert {one.team < 32 for one in maps} == {True, False}
        assert {cell.hidden * size % 16 == 0 for cell in its} == {True, False}


@needs_compiler
@pytest.mark.parametrize(("l2_bytes", "residency"), [(1 << 20, "cold"), (16, "memory")])
def test_calls_by_the_clock_of_the_host_are_timed_beyond_the_cache_only(monkeypatch, l2_bytes, residency):
    waits = iter([None, lambda: None])
    monkeypatch.setattr(
        timing_gpu.contenders, "replayed", lambda one, way: (Timed(one.passes[way].call, next(waits)), "")
    )
    board, cell = HostBoard(l2_bytes), paired.Shape("backward", "float32", "float32", 9, 40)
    how = {"repeats": 7, "at_least": 7, "budget_s": 1.0, "error_limit_u": {"float32": 8}, "eps": 1e-5}
    how["sums_limit_u"] = {"float32": 100}
    names = ["cuda_fused", "cuda_uncentred"]
    rows, _ = timing_gpu.measure(board, Pool(board, 1), cell, names, time_left=float, seed=1, **how)
    found = {row["kernel"]: row for row in rows}
    assert found["cuda_fused"]["residency"] == residency
    if residency == "memory":
        assert found["cuda_uncentred"]["method"] == "host clock"
    else:
        assert "only the first finds an empty L2" in found["cuda_uncentred"]["reason"]


@needs_compiler
@pytest.mark.parametrize(("factor", "residency"), [(4, "memory"), (3.9, "cold")])
def test_arrays_lie_in_memory_from_four_times_the_cache_on(factor, residency):
    cell = paired.Shape("backward", "float32", "float32", 9, 40)
    board = HostBoard(l2_bytes=3 * 9 * 40 * 4 / factor)
    how = {"repeats": 1, "at_least": 1, "budget_s": 0.0, "eps": 1e-5, "seed": 1}
    limits = {"error_limit_u": {"float32": 8}, "sums_limit_u": {"float32": 100}}
    (row,), _ = timing_gpu.measure(
        board, Pool(board, 1), cell, ["cuda_fused"], time_left=float, **how, **limits
    )
    assert row["residency"] == residency
