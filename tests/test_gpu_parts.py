"""The parts of a campaign on a GPU: rows, checks in float64, timing, roofs, and bytes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import yaml

from emulated import needs_compiler
from gpus import H200
from host_board import HostBoard
from kept_otherwise import KEPT
from layernorm_backward import kernels, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.experiments import backward_error_gpu, timing_gpu, traffic_gpu
from layernorm_backward.gpu import (
    contenders,
    exact,
    modelled,
    paired,
    program_cache,
    roofs,
    timer,
    variants,
)
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import PRIME, Pool
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.host import installed
from layernorm_backward.kernels import KERNELS
from layernorm_backward.traffic.minimum import minimum_bytes
from workspace import ROOT

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


def test_rows_that_could_not_be_allocated_are_drawn_by_the_next_cell():
    """Regression test: every later cell of the dtype failed, as the pool was taken to be filled."""

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
def test_nan_is_searched_for_block_by_block(row, monkeypatch):
    """Results of 2**32 elements do not fit in float64 at once: a faulty one was reported as out of memory."""
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
def test_an_element_that_was_not_written_is_found(field):
    given = Pool(HostBoard(), 2).arrays(12, 40, "float32", "float32")
    kernel = KERNELS["reference"]
    y, saved = kernel.forward(given.x, given.gamma, given.beta, EPS)
    results = Results(y, *kernel.backward(given.dy, saved))
    getattr(results, field).reshape(-1)[7] = np.nan
    assert np.isnan(getattr(exact.errors(np, given, results, EPS), field))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_overflows_its_dtype_is_correct_only_if_infinite(sign):
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


def test_repetitions_run_every_call_once_and_a_slow_one_takes_longer(naps, monkeypatch):
    monkeypatch.setattr("host_board.perf_counter", naps)
    board = HostBoard()
    calls = {"slow": Timed(lambda: naps.nap(600.0)), "fast": Timed(lambda: naps.nap(100.0))}
    samples = timer.compare(board, calls, repeats=9, at_least=9, budget_s=0, seed=1, cold=True)
    assert samples.groupby("repeat")["name"].nunique().eq(2).all()
    assert board.flushed == 2 * 10
    found = timer.ratio(samples, "slow", "fast")
    assert 5.9 < found.low <= found.median <= found.high < 6.1
    assert timer.summary(samples, "slow").repeats == 9


def test_the_budget_ends_a_timing_after_the_minimum_number_of_repetitions():
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


def test_the_interval_of_the_median_has_its_nominal_coverage():
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


def test_a_name_without_samples_is_refused():
    with pytest.raises(ValueError, match="no samples of 'b'; there are: \\['a'\\]"):
        timer.summary(pd.DataFrame({"name": ["a"], "repeat": [0], "seconds": [1.0]}), "b")


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("operation", roofs.OPERATIONS)
def test_streams_compute_their_operation(operation, dtype):
    board = HostBoard()
    given = Pool(board, 3).arrays(70, 64, dtype, dtype)
    a = np.zeros_like(given.x)
    roofs.stream(board, operation, a, given.x, given.dy)()
    right = given.x.astype(np.float64)
    if roofs.kind(operation) == "triad":
        right = right + roofs.SCALE * given.dy.astype(np.float64)
    assert np.allclose(a.astype(np.float64), right, rtol=float(4 * exact.unit_roundoff(a.dtype)))


def test_the_minimum_bytes_and_the_bytes_that_the_kernel_is_designed_to_move():
    cell = traffic_gpu.Cell("backward", "float32", 65536, 1024)
    tensor = 65536 * 1024 * 4
    least = minimum_bytes(*cell)
    assert least == 3 * tensor + 3 * 4096 + 2 * 4 * 65536
    machine = program_cache.Recorder(H200)
    found = modelled.columns("cuda_fused", *cell, machine)
    assert found["accesses_per_element"] == 3
    assert 1 < found["modelled_bytes"] / least < 1.03
    long = traffic_gpu.Cell("backward", "float32", 16, 1 << 20)
    assert modelled.columns("cuda_fused", *long, machine)["accesses_per_element"] == 5
    separate = modelled.columns("cuda_separate", *cell, machine)
    assert separate["accesses_per_element"] == 21
    assert separate["modelled_bytes"] / least == pytest.approx(7, rel=0.02)
    assert modelled.columns("liger", *cell, machine) == {}


class Arguments(program_cache.Recorder):
    """Remembers what each program was given, too."""

    given: dict[str, tuple]

    def launch(self, program, how, arguments):
        self.given = {**getattr(self, "given", {}), program.kernel: (how, arguments)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_bytes_of_rows_that_are_read_twice_are_those_of_the_arrays_of_their_kernels(dtype):
    rows, hidden = 20, 262145
    machine = Arguments(H200)
    program_cache.run(variants.passes("cuda_fused", machine), dtype, dtype, hidden, rows)
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
def test_the_traffic_of_rows_that_are_read_twice_is_counted(study):
    values = yaml.safe_load((ROOT / f"config/{study}/traffic_gpu.yaml").read_text(encoding="utf-8"))
    machine, again = program_cache.Recorder(H200), set()
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
    machine = program_cache.Recorder(H200)
    most = modelled.columns("cuda_fused", *cell, machine)["modelled_bytes"]
    machine.clusters = lambda program, how: 5
    fewer = modelled.columns("cuda_fused", *cell, machine)["modelled_bytes"]
    assert most - fewer == (16 - 5) * 2 * 2 * 4 * 65536


def test_a_kernel_of_another_package_is_timed_as_it_is(monkeypatch):
    theirs = replace(KEPT["tuple"], name="theirs", device="cuda")
    monkeypatch.setattr(variants, "KERNELS", {"theirs": theirs})
    board = HostBoard()
    given = Pool(board, 1).arrays(9, 40, "float32", "float32")
    found = contenders.prepare(board, "theirs", given, EPS)
    assert max(exact.errors(np, given, found.results(), EPS)) < 8
    assert found.saved_bytes - given.gamma.nbytes == found.saved_extra_bytes > given.x.nbytes
    assert program_cache.needed([("theirs", "float32", "float32", 40)], H200) == []


def test_installed_packages_are_listed_once(monkeypatch):
    looked = []
    monkeypatch.setattr(
        installed.metadata, "packages_distributions", lambda: looked.append(1) or {"numpy": ["numpy"]}
    )
    installed._distribution.cache_clear()
    kernel = replace(KERNELS["reference"], requires=("numpy",))
    assert [kernels.version(kernel) for _ in range(3)] == 3 * [f"numpy {np.__version__}"]
    assert looked == [1]
    installed._distribution.cache_clear()


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
def test_arrays_of_four_times_the_cache_or_more_count_as_in_memory(factor, residency):
    cell = paired.Shape("backward", "float32", "float32", 9, 40)
    board = HostBoard(l2_bytes=3 * 9 * 40 * 4 / factor)
    how = {"repeats": 1, "at_least": 1, "budget_s": 0.0, "eps": 1e-5, "seed": 1}
    limits = {"error_limit_u": {"float32": 8}, "sums_limit_u": {"float32": 100}}
    (row,), _ = timing_gpu.measure(
        board, Pool(board, 1), cell, ["cuda_fused"], time_left=float, **how, **limits
    )
    assert row["residency"] == residency
