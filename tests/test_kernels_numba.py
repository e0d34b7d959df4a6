"""numba_fused: the same bits for any number of threads; errors that grow neither with kappa nor N."""

import re
import shutil
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit, typeof, types

from layernorm_backward import inputs, oracle, stopwatch
from layernorm_backward.aligned import PAGE, aligned_empty
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import (
    KERNELS,
    checks,
    numba_chunks,
    numba_fused,
    numba_plan,
    numba_scratch,
    numba_walk,
    sources,
)
from layernorm_backward.kernels.lane_memory import elements
from layernorm_backward.kernels.lanes import LINE, zeros
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.roofs import flat_reads, flat_streams, lagging_loops, row_lines, row_loops

EPS = 1e-5


def run(kernel, x, gamma, beta, dy):
    y, saved = KERNELS[kernel].forward(x, gamma, beta, EPS)
    return y, *KERNELS[kernel].backward(dy, saved)


def worst_errors_u(kernel, kappa, dtype, rows=64, hidden=1024):
    """Of y, dx, dgamma, dbeta, against the exact results for the rounded rows; dy from N(1, 1)."""
    rng = inputs.generator(11, rows, hidden)
    x = inputs.rows(rng, rows, hidden, dtype, mean=inputs.mean_of_kappa(kappa))
    gamma, beta = inputs.gamma(rng, "random", hidden, dtype), inputs.beta(rng, hidden, dtype)
    dy = inputs.upstream(rng, "shifted", x)
    exact = oracle.results(*(inputs.values(array) for array in (x, gamma, beta, dy)), EPS)
    found = run(kernel, x, gamma, beta, dy)
    return [float(error_u(one, right).max()) for one, right in zip(found, exact, strict=True)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1000, 129), (200, 4097), (63, 5), (1000, 1)], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(dtype, shape, problem, monkeypatch):
    monkeypatch.setattr(numba_plan, "GRAIN", 1)
    data = problem(shape, dtype)
    threads = numba.get_num_threads()
    found = {}
    try:
        for count in range(1, numba.config.NUMBA_NUM_THREADS + 1):
            numba.set_num_threads(count)
            assert numba_plan.tasks(data[0].size, data[0].itemsize) == count
            found[count] = run("numba_fused", *data)
    finally:
        numba.set_num_threads(threads)
    for count, results in found.items():
        for result, first in zip(results, found[1], strict=True):
            assert np.array_equal(result, first), count


@pytest.mark.parametrize("kernel", ["numba_fused", "numpy_blocked", "recentred"])
@pytest.mark.parametrize("kappa", [1, 1e2, 1e4, 1e6])
def test_float32_errors_stay_below_4_u_at_any_kappa(kernel, kappa):
    assert max(worst_errors_u(kernel, kappa, np.float32)) < 4


@pytest.mark.parametrize("kappa", [1e8, 1e14])
def test_float64_errors_stay_below_4_u_at_any_kappa(kappa):
    assert max(worst_errors_u("numba_fused", kappa, np.float64)) < 4


def test_without_recentring_the_error_of_dx_grows_with_kappa():
    _, dx, dgamma, dbeta = worst_errors_u("compact", 1e6, np.float32)
    assert min(dx, dgamma) > 1e4
    assert dbeta < 4


@pytest.mark.parametrize("kernel", ["numba_fused", "numpy_blocked"])
@pytest.mark.parametrize("hidden", [1, 8])
def test_sums_over_many_rows_are_as_accurate_as_pairwise_sums(kernel, hidden):
    rng = inputs.generator(12, hidden)
    x = inputs.rows(rng, 200_000, hidden, np.float32)
    ones = np.ones(hidden, np.float32)
    dy = inputs.upstream(rng, "shifted", x)
    _, dgamma, dbeta = run(kernel, x, ones, ones, dy)[1:]
    right = dy.astype(np.float64).sum(axis=0)
    in_pairs = np.ascontiguousarray(dy.T).sum(axis=-1)
    error, allowed = np.abs(dbeta - right) / right, np.abs(in_pairs - right) / right
    assert (error <= np.maximum(allowed, 2 * 2.0**-24)).all()
    assert np.isfinite(dgamma).all()


def test_a_constant_row_has_its_own_value_as_mean_at_any_offset():
    x = np.array([[1e8], [0.1], [-3e30]], np.float32).repeat(4097, axis=1)
    ones = np.ones(4097, np.float32)
    _, saved = KERNELS["numba_fused"].forward(x, ones, ones, EPS)
    assert np.array_equal(saved.mean, x[:, :1])
    assert np.array_equal(saved.rstd, np.full((3, 1), 1 / np.sqrt(np.float32(EPS))))


@pytest.mark.parametrize("power", [-40, 61])
def test_scaling_x_by_a_power_of_two_changes_no_digit(power, problem):
    """No intermediate underflows or overflows in float32 unless a sum of squares does."""
    x, gamma, beta, dy = problem((4, 64), "float32")
    unit = 2.0**power
    y, saved = numba_fused.forward(x, gamma, beta, EPS)
    dx, dgamma, dbeta = numba_fused.backward(dy, saved)
    scaled, saved = numba_fused.forward(x * np.float32(unit), gamma, beta, EPS * unit**2)
    results = numba_fused.backward(dy, saved)
    assert np.array_equal(scaled, y)
    assert np.array_equal(results[0] * np.float32(unit), dx)
    assert np.array_equal(results[1:], (dgamma, dbeta))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_single_column_has_no_gradient(dtype, problem):
    """gamma*dy is its own mean, and they cancel to the last digit."""
    x, gamma, beta, dy = problem((50, 1), dtype)
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    assert not numba_fused.backward(dy, saved)[0].any()


def test_no_compiler_flag_allows_to_reorder_to_contract_or_to_assume_that_there_is_no_nan():
    for flags in (numba_walk.INLINE, numba_walk.PLAIN):
        assert "fastmath" not in flags


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(100, 129), (70, 4097), (63, 5), (1, 1), (40, 128), (40, 640)], ids=str)
def test_no_choice_of_the_plan_changes_a_bit(dtype, shape, problem):
    """Rows at a time, prefetching, streaming, copies and buffers, and where in a line results begin."""
    x, gamma, beta, dy = problem(shape, dtype)
    default = numba_plan.choose(*shape, x.dtype)
    vectors = np.empty((2, shape[-1]), x.dtype)
    found = []
    ways = (
        (1, 0, False, False, 0, 0),
        (2, 8, True, False, 0, 5),
        (4, 3, True, True, 3, 0),
        (4, 0, False, False, 1, 32),
        (1, 2, True, False, 0, 0),
        (1, 2, True, True, 0, 0),
        (1, 0, False, True, 1, 5),
        (1, 64, True, False, 0, 0, 8),
        (1, 2, True, True, 3, 0, 2),
    )
    for number, (group, ahead, stream, widened, begin, more, *pages) in enumerate(ways):
        stretch = default.block + more if number else 0
        how = {"group": group, "ahead": ahead, "stream": stream, "widened": widened, "stretch": stretch}
        plan = default._replace(pages=pages[0] if pages else 1, **how)
        y, dx = (aligned_empty(x.size + begin, x.dtype)[begin:].reshape(shape) for _ in range(2))
        _, saved = numba_fused.forward(x, gamma, beta, EPS, out=y, plan=plan)
        results = numba_fused.backward(dy, saved, out=(dx, *vectors), plan=plan)
        found.append((y, saved.mean, saved.rstd, *map(np.copy, results)))
    for results in found[1:]:
        for result, first in zip(results, found[0], strict=True):
            assert np.array_equal(result.view(np.uint8), first.view(np.uint8))


@pytest.mark.parametrize("shape", [(1024, 2050), (1023, 40)], ids=["many sums", "few sums"])
def test_each_column_has_the_sum_of_all_chunks(shape):
    """Sums of small whole numbers have no rounding error; many of them are added by several threads."""
    rng = inputs.generator(5)
    x = rng.standard_normal(shape).astype(np.float32)
    dy = rng.integers(-4, 5, shape).astype(np.float32)
    gamma = np.ones(shape[1], np.float32)
    _, saved = numba_fused.forward(x, gamma, gamma, EPS)
    _, dgamma, dbeta = numba_fused.backward(dy, saved)
    x_hat = (x.astype(np.float64) - saved.mean) * saved.rstd
    assert np.array_equal(dbeta, dy.sum(axis=0))
    assert np.abs(dgamma - (dy * x_hat).sum(axis=0)).max() < 1e-3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("begin", [0, 1, 8, 15, 31])
@pytest.mark.parametrize("off", [-1, 0, 1, 7])
@pytest.mark.parametrize("lines", [0, 1, 2, 17], ids=lambda lines: f"{lines} lines")
def test_lines_that_rows_share_are_written_once_and_nothing_around_them(
    lines, off, begin, dtype, problem, monkeypatch
):
    """Rows of all phases, in pipelines of several threads; the arrays around the results keep their bytes."""
    monkeypatch.setattr(numba_plan, "GRAIN", 1)
    lanes = LINE // dtype_of(dtype).itemsize
    shape = (67, max(1, lines * lanes + off))
    x, gamma, beta, dy = problem(shape, dtype)
    plan = numba_plan.choose(*shape, x.dtype)._replace(group=1, chunks=4)
    usual, streamed = plan._replace(stream=False), plan._replace(stream=True)
    with stopwatch.threads(2):
        y, saved = numba_fused.forward(x, gamma, beta, EPS, plan=usual)
        right = y, *numba_fused.backward(dy, saved, plan=usual)
        held = [aligned_empty(x.size + 3 * lanes, x.dtype) for _ in range(2)]
        for array in held:
            array.fill(7)
        out, dx = (array[begin : begin + x.size].reshape(shape) for array in held)
        numba_fused.forward(x, gamma, beta, EPS, out=out, plan=streamed)
        found = (
            out,
            *numba_fused.backward(
                dy, saved, out=(dx, np.empty_like(gamma), np.empty_like(gamma)), plan=streamed
            ),
        )
    for result, wanted in zip(found, right, strict=True):
        assert np.array_equal(result.view(np.uint8), wanted.view(np.uint8))
    for array in held:
        assert (array[:begin] == 7).all() and (array[begin + x.size :] == 7).all()


def test_without_recentring_the_plan_loses_what_the_mean_was_rounded_by():
    rng = inputs.generator(3)
    x = inputs.rows(rng, 64, 1024, np.float32, mean=inputs.mean_of_kappa(1e6))
    gamma = np.ones(1024, np.float32)
    dy = inputs.upstream(rng, "shifted", x)
    _, saved = numba_fused.forward(x, gamma, gamma, EPS)
    default = numba_plan.choose(*x.shape, x.dtype)
    right = oracle.backward(*map(inputs.values, (x, gamma, dy)), EPS).dx
    errors = {
        recentre: float(
            error_u(numba_fused.backward(dy, saved, plan=default._replace(recentre=recentre))[0], right).max()
        )
        for recentre in (True, False)
    }
    assert errors[True] < 4
    assert errors[False] > 1e3


def past_the_caches(monkeypatch):
    """From here on no result of numba_fused stays in the caches."""
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(numba_plan, "cache_resident", lambda size, threads, direction: False)
    monkeypatch.setattr(numba_fused, "cached_call", numba_fused.cached_call.__wrapped__)


@pytest.fixture(params=["few", "many"])
def few_or_many(request, monkeypatch):
    """As if the rows of a test were few, or many: both give the same error messages."""
    if request.param == "many":
        past_the_caches(monkeypatch)


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        (lambda s: None, "saved is a builtins.NoneType; allowed: what forward returned"),
        (lambda s: s._replace(gamma=s.gamma[:3]), r"saved gamma has shape \(3,\); allowed: \(64,\)"),
        (
            lambda s: s._replace(mean=s.mean[1:]),
            r"saved mean has shape \(7, 1\) and .*; allowed: 8 of float32",
        ),
        (
            lambda s: s._replace(rstd=s.rstd.astype(float)),
            "saved rstd has .* dtype float64; allowed: 8 of float32",
        ),
        (lambda s: s._replace(mean=s.mean.tolist()), "saved mean is a builtins.list of 8; allowed: numpy.nd"),
        (lambda s: s._replace(rstd=np.ma.array(s.rstd)), "saved rstd is a numpy.ma.*MaskedArray; allowed"),
        (lambda s: s._replace(x=s.x[0, 0], gamma=s.gamma[0]), "saved x is a numpy.float32; allowed"),
        (lambda s: s._replace(x=s.x[:, :0], gamma=s.gamma[:0]), r"x has shape \(8, 0\); allowed: .*D >= 1"),
    ],
    ids=["nothing", "gamma", "mean", "rstd", "list", "masked", "scalar", "no columns"],
)
def test_saved_values_that_forward_has_not_returned_are_refused(spoilt, told, problem):
    x, gamma, beta, dy = problem((8, 64), "float32")
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    with pytest.raises((TypeError, ValueError), match=told):
        numba_fused.backward(dy if "8, 0" not in told else dy[:, :0], spoilt(saved))


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_compiled_pass_refuses_invalid_arguments_without_the_checks_of_python(
    dtype, problem, monkeypatch
):
    """Compiled code checks sizes and eps: Python's checks only phrase the errors."""
    x, gamma, beta, dy = problem((8, 64), dtype)
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    monkeypatch.setattr(checks, "forward", lambda *given: None)
    monkeypatch.setattr(checks, "saved_statistics", lambda *given: None)
    for wrong in ((gamma[:32].copy(), beta, EPS), (gamma, beta[:32].copy(), EPS), (gamma, beta, np.nan)):
        with pytest.raises(AssertionError, match="a pass refuses"):
            numba_fused.forward(x, *wrong)
    short = saved.mean[:7].copy()
    for wrong in ({"gamma": gamma[:32].copy()}, {"mean": short}, {"rstd": short}):
        with pytest.raises(AssertionError, match="a pass refuses"):
            numba_fused.backward(dy, saved._replace(**wrong))


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ({"x": np.int64}, "x has dtype int64; allowed: float64, float32, float16, bfloat16"),
        ({"gamma": np.float64}, "gamma has dtype float64 beside x of float32; allowed: float32"),
        ({"beta": np.float16}, "beta has dtype float16; allowed: float32, as gamma"),
        ({"eps": 0.0}, r"eps is 0\.0; allowed: finite and > 0"),
        ({"eps": 1e-60}, "eps is 1e-60, which is 0.0 in float32"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_arguments_of_the_forward_pass_are_refused_with_a_reason(spoilt, told, problem):
    x, gamma, beta, _ = problem((8, 64), "float32")
    given = {"x": x, "gamma": gamma, "beta": beta, "eps": EPS}
    wrong = {k: v if k == "eps" else given[k].astype(v) for k, v in spoilt.items()}
    with pytest.raises((TypeError, ValueError), match=told):
        numba_fused.forward(**given | wrong)


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize(("dtype", "integers"), [("float16", np.int16), ("bfloat16", np.uint16)])
def test_integers_of_the_same_width_are_no_beta(dtype, integers, problem):
    x, gamma, beta, _ = problem((8, 64), dtype)
    with pytest.raises(TypeError, match=f"beta has dtype {integers.__name__}; allowed: {dtype}"):
        numba_fused.forward(x, gamma, beta.view(integers), EPS)


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize(
    ("x", "told"),
    [
        (np.array(1.0), "x has shape"),
        (np.ones((3, 0)), "x has shape"),
        (np.ones((3, 4), np.int32), "x has dtype int32"),
    ],
    ids=["no axis", "no columns", "integers"],
)
def test_an_unsupported_x_is_refused_with_a_reason(x, told):
    vector = np.ones(x.shape[-1:], x.dtype)
    with pytest.raises((TypeError, ValueError), match=told):
        numba_fused.forward(x, vector, vector, EPS)


def test_a_given_plan_is_followed_in_both_directions(problem, monkeypatch):
    x, gamma, beta, dy = problem((8, 64), "float32")
    plans, planned = [], numba_fused.call
    monkeypatch.setattr(numba_fused, "call", lambda *kind: plans.append(kind[-1]) or planned(*kind))
    given = numba_plan.choose(*x.shape, x.dtype)._replace(ahead=3)
    _, saved = numba_fused.forward(x, gamma, beta, EPS, plan=given)
    numba_fused.backward(dy, saved, plan=given)
    assert plans == [given, given]


def test_cache_residency_is_decided_for_the_threads_of_the_call(monkeypatch):
    """More threads have more caches of their own."""
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(numba_plan, "cache_resident", lambda size, threads, direction: threads == 2)
    kind = "forward", (8, 64), np.dtype("float32"), np.dtype("float32")
    assert numba_fused.cached_call.__wrapped__(*kind, 1) is None
    assert numba_fused.cached_call.__wrapped__(*kind, 2) is not None


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_calls_whose_results_stay_in_the_caches_have_the_bits_of_all_others(dtype, problem, monkeypatch):
    """They are planned in one step, and never stream."""
    data, calls, planned = problem((37, 96), dtype), [], numba_fused.call
    monkeypatch.setattr(numba_fused, "call", lambda *kind: calls.append(kind) or planned(*kind))
    few = run("numba_fused", *data)
    assert not calls
    past_the_caches(monkeypatch)
    for one, other in zip(run("numba_fused", *data), few, strict=True):
        assert np.array_equal(one, other)
    assert [plan.stream for *_, plan in calls] == [True, True]


@pytest.mark.parametrize(("shape", "dtype"), [((513, 1024), "float64"), ((9, 64), "bfloat16")], ids=str)
def test_results_past_the_caches_begin_at_a_line(shape, dtype, problem, monkeypatch):
    past_the_caches(monkeypatch)
    x, gamma, beta, dy = problem(shape, dtype)
    y, saved = numba_fused.forward(x, gamma, beta, EPS)
    dx, *_ = numba_fused.backward(dy, saved)
    assert [array.ctypes.data % LINE for array in (y, dx)] == [0, 0]


@pytest.mark.parametrize("shape", [(9, 64), (513, 1024)], ids=str)
def test_cache_resident_results_are_allocated_by_numpy(shape, problem, monkeypatch):
    x, gamma, beta, dy = problem(shape, "float32")
    monkeypatch.setattr(numba_fused, "aligned_empty", None)
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    numba_fused.backward(dy, saved)


@pytest.mark.parametrize(("x_at", "dy_at"), [(0, 0), (16, 16), (4032, 64), (16, 2064), (1024, 3072)])
def test_results_past_the_caches_are_far_from_the_inputs_modulo_a_page(x_at, dy_at, problem, monkeypatch):
    """A quarter of a page from either, half a page from x alone, but for the part of a line."""
    past_the_caches(monkeypatch)
    given, gamma, beta, _ = problem((513, 1024), "float32")
    x, dy = (aligned_empty(given.shape, given.dtype, PAGE, at) for at in (x_at, dy_at))
    x[...], dy[...] = given, given
    y, saved = numba_fused.forward(x, gamma, beta, EPS)
    dx, *_ = numba_fused.backward(dy, saved)
    apart = [(one.ctypes.data - other.ctypes.data) % PAGE for one, other in ((y, x), (dx, x), (dx, dy))]
    assert PAGE // 2 - LINE < apart[0] <= PAGE // 2
    assert all(min(gap, PAGE - gap) > PAGE // 4 - LINE for gap in apart)


def test_results_are_written_where_a_memory_map_has_them(problem, tmp_path):
    """Without a copy, which would be as large."""
    x, gamma, beta, dy = problem((512, 512), "float32")
    right, saved = numba_fused.forward(x, gamma, beta, EPS)
    gradients = numba_fused.backward(dy, saved)
    y, dx = (np.memmap(tmp_path / name, np.float32, "w+", shape=x.shape) for name in ("y", "dx"))
    vectors = gamma.copy(), gamma.copy()
    tracemalloc.start()
    try:
        numba_fused.forward(x, gamma, beta, EPS, out=y)
        numba_fused.backward(dy, saved, out=(dx, *vectors))
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 2
    finally:
        tracemalloc.stop()
    assert np.array_equal(y, right) and np.array_equal(dx, gradients[0])


def test_saved_statistics_may_have_strides(problem):
    x, gamma, beta, dy = problem((8, 64), "float32")
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    apart = saved._replace(mean=np.repeat(saved.mean, 2, axis=0)[::2])
    for one, other in zip(numba_fused.backward(dy, apart), numba_fused.backward(dy, saved), strict=True):
        assert np.array_equal(one, other)


def test_lanes_before_a_row_add_nothing_to_the_sums():
    """x_hat overflows in the lanes that are left out where a row of large mean begins within a line."""
    x = np.full((8, 40), 1e37, np.float32)
    gamma, dy = np.ones(40, np.float32), np.ones((8, 40), np.float32)
    plan = numba_plan.choose(*x.shape, x.dtype)._replace(stream=True)
    _, saved = numba_fused.forward(x, gamma, gamma, EPS)
    out = aligned_empty(x.size + 3, x.dtype)[3:].reshape(x.shape), np.empty_like(gamma), np.empty_like(gamma)
    dx, dgamma, dbeta = numba_fused.backward(dy, saved, out=out, plan=plan)
    assert np.array_equal(dgamma, np.zeros(40)) and np.array_equal(dbeta, np.full(40, 8))
    assert np.isfinite(dx).all()


def test_a_change_of_any_module_that_is_compiled_is_seen_by_the_cache(tmp_path):
    """Numba looks at the file of a compiled function, and not at those of the functions in it."""
    folder = Path(numba_chunks.__file__).parent
    for path in folder.glob("*.py"):
        shutil.copy(path, tmp_path)
    before = before_all = sources.checksum()
    assert sources.checksum(folder=tmp_path) == before
    for name in ("lanes", "lane_memory", "half", "numba_walk", "numba_forward", "numba_lag_backward"):
        with (tmp_path / f"{name}.py").open("a") as file:
            file.write("#")
        after = sources.checksum(folder=tmp_path)
        assert after != before, name
        before = after
    for name in ("numba_fused", "numba_calls", "numba_plan", "numba_tuning"):
        (tmp_path / f"{name}.py").write_text("")
    assert sources.checksum(folder=tmp_path) == before
    compiled = [
        (forward_pass("float32", 1, True), [1, None, True, before_all, None]),
        (backward_pass("float32", 1, True), [1, None, True, True, before_all, None]),
    ]
    compiled.append((flat_streams.streams(), [before_all]))
    compiled.append((flat_reads.reads(), [sources.checksum(flat_streams.part_of)]))
    around = sources.checksum(lagging_loops.backward_columns, row_lines.backward_line)
    compiled.append((row_loops.compiled("forward", 1, False, False), [1, None, around, None]))
    for function, held in compiled:
        assert [cell.cell_contents for cell in function.py_func.__closure__] == held
    assert len({before_all, around, sources.checksum(flat_streams.part_of)}) == 3


def test_what_functions_are_compiled_from_imports_no_other_module_of_kernels():
    """Such a module could hold a number that is compiled in, and the cache would not see it change."""
    seen = {path.stem for path in sources.compiled_from()}
    folder = Path(numba_chunks.__file__).parent
    beside = {path.stem for path in folder.glob("*.py")} - {"__init__", "sources"}
    for name in seen:
        found = set(re.findall(r"kernels(?:\.| import )(\w+)", (folder / f"{name}.py").read_text()))
        assert found & beside <= seen, name
    assert {"numba_passes", "numba_walk", "lanes", "half"} <= seen


def test_no_loop_over_rows_counts_references_to_an_array():
    """Each update of a reference count waits for all earlier stores, and threads update the same count."""

    @njit(error_model="numpy")
    def both(x, row, vector, result, sums, part, copies, ragged):
        how, one, four = (16, 0, 0, 1, -1), zeros(x, 1), zeros(x, 4)
        read, rows = (x, vector, vector, 0.0, result, row, row), (0, 4, how)
        numba_chunks.forward_task(read, None, *rows, ragged, None, one, one)
        numba_chunks.forward_task(read, elements(vector), *rows, None, None, one, one)
        numba_chunks.forward_task(read, None, *rows, None, None, four, one)
        numba_chunks.forward_task(read, None, *rows, None, True, four, one)
        given = (x, x, row, row, vector, result), sums, (0, 1), sums, part, copies, (4, *how, 4)
        kept = elements(vector), elements(result)
        numba_chunks.backward_task(*given, None, ragged, None, True, one, one)
        numba_chunks.backward_task(*given, None, None, None, True, four, one)
        numba_chunks.backward_task(*given, None, None, True, True, zeros(x, 2), one)
        numba_chunks.backward_task(*given, kept, None, None, True, one, one)

    shapes = 64, 4, 16, 64, (1, 32), 32 + numba_scratch.APART // 4, (2, 16)
    numbers = [np.ones(shape, np.float32) for shape in shapes]
    both.compile((*map(typeof, numbers), types.boolean))  # not run: rows are too short for some of it
    (code,) = both.inspect_llvm().values()
    functions = re.findall(
        r"^define [^\n]*(?:_forward_rows|_backward_chunks|_columns|_single_row|_serial).*?^}",
        code,
        re.DOTALL | re.MULTILINE,
    )
    assert len(functions) >= 8
    assert not [function for function in functions if "@NRT_" in function]
