"""Correct before timed: results of the arrays that are timed, of this kernel and no other, all of them."""

import dataclasses
import time

import numpy as np
import pytest

from kept_otherwise import KEPT
from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.kernels import KERNELS
from layernorm_backward.timing import pace, prepared
from layernorm_backward.timing.exact_sums import exact_sums, sums_error_u
from layernorm_backward.timing.pool import Pool, buffers
from layernorm_backward.timing.repeated import BLOCK
from layernorm_backward.untrusted.fitting import takes_out

SHAPE = (40, 3, 16)


def prepare(direction, shape=SHAPE, dtype="float32", limit_u=100.0, gamma_dtype="", **kernels):
    pool = Pool(int(np.prod(shape)) * 8, seed=3)
    return prepared.prepare(kernels, direction, pool.buffers(shape, dtype, gamma_dtype), 8, limit_u)


def kernel(**changed):
    return dataclasses.replace(KERNELS["numba_fused"], **changed)


def forward_elsewhere(x, gamma, beta, eps, out=None):
    return KERNELS["numba_fused"].forward(x, gamma, beta, eps)


def backward_elsewhere(dy, saved, out=None):
    return KERNELS["numba_fused"].backward(dy, saved)


def backward_but(change):
    """A backward pass whose results are changed behind it."""

    def backward(dy, saved, out=None):
        results = KERNELS["numba_fused"].backward(dy, saved, out=out)
        change(*results)
        return results

    return backward


def test_no_two_rows_near_each_other_are_alike_and_every_dtype_is_filled():
    pool = Pool(1 << 16, 1)
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        x, dy = (inputs.values(array) for array in pool.buffers((1, 64, 16), dtype)[:2])
        assert abs(x.std() - 1) < 0.1 and not np.array_equal(x, dy)
        assert len(np.unique(x[0], axis=0)) == 64


def test_no_two_rows_are_alike_where_the_numbers_are_repeated():
    hidden, size = 64, 2 * BLOCK
    x = Pool(2 * size, 1).buffers((size // hidden, hidden), "float16").x
    assert len({row.tobytes() for row in x}) == len(x)


def test_the_error_is_that_of_the_rows_of_the_timed_arrays():
    arrays = buffers((5, 1, 16), "float64", seed=3)
    ready, refused = prepared.prepare({"compact": KERNELS["compact"]}, "backward", arrays, 2, 100.0)
    assert refused == {} and ready["compact"].error_u_max < 10
    arrays.out[-1] *= 2  # the last row is among those looked at
    assert prepared.error_u_max("backward", arrays, 2, 1e-5) > 1e14


def test_the_first_run_of_a_kernel_is_timed_without_its_compilation(naps):
    """It takes so little that the run is not repeated for being long."""
    compact, compiled = KERNELS["compact"], []

    def forward(*arguments, **options):
        if not compiled:
            time.sleep(0.75 * pace.LONG_S)
            compiled.append(True)
        return compact.forward(*arguments, **options)

    kernel = dataclasses.replace(compact, forward=forward)
    arrays = buffers((2, 1, 8), "float64", seed=3)
    ready, _ = prepared.prepare({"compact": kernel}, "forward", arrays, 2, 100.0)
    assert ready["compact"].run_s < 0.5 * pace.LONG_S


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_what_a_size_of_its_own_compiles_or_loads_is_not_in_the_time_of_a_run(direction, naps):
    """Code for many rows may be another than that for one row, which a kernel runs first."""
    compact, loaded = KERNELS["compact"], set()

    def loading(way, rows):
        if rows > 1 and way not in loaded:
            time.sleep(100.0)
            loaded.add(way)

    def forward(x, *arguments, **options):
        loading("forward", len(x))
        return compact.forward(x, *arguments, **options)

    def backward(dy, *arguments, **options):
        loading("backward", len(dy))
        return compact.backward(dy, *arguments, **options)

    kernel = dataclasses.replace(compact, forward=forward, backward=backward)
    arrays = Pool(1 << 16, 1).buffers((2, 8), "float64")
    ready, _ = prepared.prepare({"compact": kernel}, direction, arrays, 2, 100.0)
    assert loaded and ready["compact"].run_s < 90


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("kind", list(KEPT))
def test_a_kernel_is_timed_whatever_it_saves(kind, direction):
    arrays = Pool(1 << 16, 1).buffers((8, 32), "float32")
    ready, refused = prepared.prepare({kind: KEPT[kind]}, direction, arrays, 8, 100.0)
    assert refused == {} and ready[kind].error_u_max < 10
    assert ready[kind].saved_extra_bytes >= arrays.x.nbytes
    prepared.renewed(KEPT[kind], direction, arrays)()


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_a_renewed_call_writes_what_the_first_one_wrote(direction):
    arrays = Pool(1 << 16, 1).buffers((8, 32), "float32")
    ready, _ = prepared.prepare({"compact": KERNELS["compact"]}, direction, arrays, 8, 100.0)
    results = arrays.out, arrays.y, arrays.dgamma, arrays.dbeta
    expected = [result.copy() for result in results]
    for result in results:
        result.fill(0)
    prepared.renewed(KERNELS["compact"], direction, arrays)()
    found = dict(zip(("dx", "y", "dgamma", "dbeta"), zip(results, expected, strict=True), strict=True))
    written = {"forward": ["y"], "backward": ["dx", "dgamma", "dbeta"], "both": list(found)}[direction]
    assert all(np.array_equal(*found[name]) and found[name][1].any() for name in written)
    assert ready["compact"].error_u_max < 10


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_a_y_that_another_kernel_left_is_not_taken_for_the_next_ones(direction):
    lazy = kernel(forward=forward_elsewhere)
    ready, refused = prepare(direction, right=KERNELS["numba_fused"], lazy=lazy)
    assert list(ready) == ["right"] and refused["lazy"].startswith("wrong: an error of ")


@pytest.mark.parametrize("direction", ["backward", "both"])
def test_a_dx_that_another_kernel_left_is_not_taken_for_the_next_ones(direction):
    lazy = kernel(backward=backward_elsewhere)
    ready, refused = prepare(direction, right=KERNELS["numba_fused"], lazy=lazy)
    assert list(ready) == ["right"] and refused["lazy"].startswith("wrong: an error of ")


def spoiling(name):
    """A kernel that scales one of its inputs, behind its work."""

    def forward(x, gamma, beta, eps, out=None):
        y, saved = KERNELS["compact"].forward(x, gamma, beta, eps, out=out)
        {"x": x, "gamma": gamma, "beta": beta}.get(name, x[:0])[...] *= -1
        return y, saved

    def backward(dy, saved, out=None):
        results = KERNELS["compact"].backward(dy, saved, out=out)
        if name == "dy":
            dy *= 0
        return results

    return kernel(forward=forward, backward=backward)


@pytest.mark.parametrize("name", ["x", "gamma", "beta", "dy"])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_what_writes_to_its_inputs_is_refused_and_the_others_run_on_what_they_held(name, dtype):
    arrays = Pool(int(np.prod(SHAPE)) * 8, seed=3).buffers(SHAPE, dtype)
    before = [array.copy() for array in (arrays.x, arrays.dy, arrays.gamma, arrays.beta)]
    compact = KERNELS["compact"]
    for _ in range(2):  # in the next cell, too
        given = {"spoiling": spoiling(name), "compact": compact}
        ready, refused = prepared.prepare(given, "backward", arrays, 8, 200.0)
        assert refused == {"spoiling": f"wrong: writes to {name}, of which it may only read"}
        assert ready["compact"].error_u_max > 0 and ready["compact"].sums_error_u > 0
    after = arrays.x, arrays.dy, arrays.gamma, arrays.beta
    assert all(map(np.array_equal, after, before))


def unwritten_dbeta(dy, saved, out=None):
    others = out and (*out[:2], np.empty_like(out[2]))
    return KERNELS["numba_fused"].backward(dy, saved, out=others)


@pytest.mark.parametrize(
    "backward",
    [
        unwritten_dbeta,
        backward_but(lambda dx, dgamma, dbeta: dgamma.__imul__(1.001)),
        backward_but(lambda dx, dgamma, dbeta: dbeta.__imul__(1.001)),
        backward_but(lambda dx, dgamma, dbeta: dgamma.fill(np.nan)),
    ],
    ids=["dbeta is not written", "dgamma is off", "dbeta is off", "dgamma is NaN"],
)
def test_a_kernel_whose_sums_are_wrong_is_not_timed(backward):
    ready, refused = prepare("backward", wrong=kernel(backward=backward))
    assert not ready and refused["wrong"].startswith("wrong: dgamma or dbeta are ")


def test_a_row_left_out_of_many_is_more_than_rounding():
    def without_last(dy, saved, out=None):
        results, fewer = KERNELS["numba_fused"].backward(dy, saved, out=out), dy.copy()
        fewer[-1] = 0
        for target, value in zip(results[1:], KERNELS["numba_fused"].backward(fewer, saved)[1:], strict=True):
            target[...] = value
        return results

    _, refused = prepare("backward", (1 << 17, 8), limit_u=200, wrong=kernel(backward=without_last))
    assert "dgamma or dbeta are" in refused["wrong"]


@pytest.mark.parametrize(
    ("dtype", "gamma_dtype"),
    [
        *[(dtype, dtype) for dtype in ("float64", "float32", "float16", "bfloat16")],
        *[(dtype, "float32") for dtype in ("float16", "bfloat16")],
    ],
)
def test_sums_of_right_kernels_are_well_within_the_limit(dtype, gamma_dtype):
    """In u of gamma's dtype: of float32 they are many where x_hat is stored in 16 bits."""
    names = ("numba_fused", "recentred", "compact", "numpy_blocked")
    kernels = {name: KERNELS[name] for name in names if dtype not in KERNELS[name].unsupported}
    ready, refused = prepare("backward", (1 << 12, 16), dtype, 200, gamma_dtype, **kernels)
    assert not refused and set(ready) == set(kernels)
    assert ready["numba_fused"].sums_error_u < 64
    wider = unit_roundoff(dtype) / unit_roundoff(gamma_dtype)
    assert max(found.sums_error_u for found in ready.values()) < 64 * wider


@pytest.mark.parametrize("result", [1, 2])
def test_wide_sums_beside_16_bits_are_looked_at_too(result):
    off = kernel(backward=backward_but(lambda *results: results[result].__imul__(1.05)))
    _, refused = prepare("backward", dtype="bfloat16", gamma_dtype="float32", wrong=off)
    assert refused["wrong"].startswith("wrong: dgamma or dbeta are ")


def test_errors_in_16_bits_are_told_from_those_of_their_sums():
    """200 u of float32 are nothing beside one of bfloat16: what storing rounds away is allowed."""
    off = kernel(backward=backward_but(lambda dx, dgamma, dbeta: dx.__imul__(dx.dtype.type(1.03125))))
    _, refused = prepare("backward", dtype="bfloat16", limit_u=200, wrong=off)
    assert refused["wrong"].startswith("wrong: an error of ") and refused["wrong"].endswith("over 2 u")


@pytest.mark.parametrize("cores", [1, 3, 150])
def test_sums_are_those_of_the_oracle(cores, monkeypatch):
    monkeypatch.setattr("layernorm_backward.machine.usable_cores", lambda: cores)
    monkeypatch.setattr("layernorm_backward.timing.exact_sums._BLOCK", 70)
    rng = inputs.generator(8)
    x, dy = rng.standard_normal((2, 50, 7)), rng.standard_normal((2, 50, 7))
    dgamma, dbeta = exact_sums(x, dy, 1e-3)
    right = oracle.backward(x.reshape(-1, 7), np.ones(7), dy.reshape(-1, 7), 1e-3)
    np.testing.assert_allclose(dgamma, right.dgamma.hi, rtol=1e-13)
    np.testing.assert_allclose(dbeta, right.dbeta.hi, rtol=1e-13)
    assert sums_error_u((dgamma, dbeta * (1 + 1e-6)), (dgamma, dbeta)) == pytest.approx(
        1e-6 / unit_roundoff("float64"), rel=1e-6
    )


def test_sums_of_rows_longer_than_a_block_are_exact_too():
    x = inputs.generator(8).standard_normal((3, 40_000))
    np.testing.assert_allclose(exact_sums(x, x, 1e-3)[1], x.sum(axis=0), rtol=0, atol=4e-15)


@pytest.mark.parametrize(("found", "error_u"), [(0.0, 0.0), (1e-30, np.inf), (np.nan, np.inf)])
def test_where_the_exact_sums_are_zero_only_zero_will_do(found, error_u):
    """As dgamma for D = 1."""
    assert sums_error_u((np.array([found]), np.ones(1)), (np.zeros(1), np.ones(1))) == error_u


def test_sums_are_known_for_each_eps_and_dtype_of_a_shape():
    pool = Pool(40 * 16 * 8, seed=3)
    for dtype in ("float64", "float32"):
        arrays = pool.buffers((40, 16), dtype)
        for eps in (1e-5, 1.0):
            for found, exact in zip(arrays.sums(eps), exact_sums(arrays.x, arrays.dy, eps), strict=True):
                assert np.array_equal(found, exact)


@pytest.mark.parametrize(("error_u", "wrong"), [(30 + 64, False), (30 + 64.1, True)])
def test_sums_may_be_off_by_the_root_of_the_rows_more_than_results(error_u, wrong):
    arrays = buffers((64**2, 4), "float32", 3)
    found = prepared.Prepared(int, 0.0, 0, 0, 0, 0, 30.0, error_u)
    assert bool(prepared._wrong(found, arrays, 30.0)) == wrong
    assert prepared._wrong(found._replace(error_u_max=30.1), arrays, 30.0).startswith("wrong: an error of ")


def test_an_error_that_is_no_number_is_wrong():
    found = prepared.Prepared(int, 0.0, 0, 0, 0, 0, np.nan, 0.0)
    assert prepared._wrong(found, buffers(SHAPE, "float32", 3), 30.0).startswith("wrong: an error of nan u")


def test_what_writes_to_its_inputs_and_then_raises_leaves_them_to_others_as_they_were():
    def spoiling(dy, saved, out=None):
        if dy.shape != SHAPE:  # a row that what compiles is compiled for
            return KERNELS["numba_fused"].backward(dy, saved, out=out)
        dy.fill(1)
        raise RuntimeError("spoilt")

    arrays = Pool(int(np.prod(SHAPE)) * 8, seed=3).buffers(SHAPE, "float32")
    before = arrays.dy.copy()
    ready, refused = prepared.prepare(
        {"bad": kernel(name="bad", backward=spoiling)}, "both", arrays, 8, 100.0
    )
    assert not ready and "spoilt" in refused["bad"] and np.array_equal(arrays.dy, before)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda dy, saved, out=None: None, True),
        (lambda dy, saved, out=None, **more: None, True),
        (lambda dy, saved: None, False),
        (lambda dy, saved, **more: None, None),
        (min, None),  # which tells no parameters
    ],
)
def test_a_function_takes_out_or_not_or_does_not_say(function, wanted):
    assert takes_out(function) is wanted
