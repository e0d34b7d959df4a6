"""The audit finds every planted fault and passes what is right."""

import ctypes
import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit_small import SMALL, failed
from layernorm_backward import edge_cases
from layernorm_backward.audit import audit, behaviour, calls, into_out, steps
from layernorm_backward.audit.advice import advice
from layernorm_backward.audit.advice_texts import ADVICE, CHUNKS, WRONG
from layernorm_backward.audit.cases import CASES
from layernorm_backward.audit.short_rows import SHORT
from layernorm_backward.audit.target import as_kernel
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.gradient_check import mutants
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.kernels.recentred import Saved

HONEST = KERNELS["recentred"]
WIDE_GAMMA = dataclasses.replace(SMALL, gamma_dtype="float32")  # beside 16-bit x


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_right_kernel_passes_all(dtype):
    assert failed(HONEST, dtype) == set()


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_every_wrong_formula_is_found(name):
    found = failed(mutants.kernel(name))
    assert "gradient_check" in found
    assert f"{mutants.MUTANTS[name].quantity}_error" in found or "eps_obeyed" in found


class Planted:
    """The kernel of equations (1) to (11), re-centred, with places for numerical faults."""

    def __init__(self, **faults):
        self.faults = faults

    def statistics(self, x, eps):
        mean = x.mean(axis=-1, keepdims=True)
        z = x - mean
        z = z - z.mean(axis=-1, keepdims=True)
        return z, 1 / np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps)

    def forward(self, x, gamma, beta, eps):
        eps = self.faults.get("eps", lambda eps: eps)(eps)
        statistics = self.faults.get("statistics", self.statistics)
        z, rstd = statistics(x.astype(sum_dtype(x.dtype)), eps)
        x_hat = z * rstd
        if "spoils" in self.faults:
            self.faults["spoils"](x)
        return (gamma * x_hat + beta).astype(x.dtype), [x_hat, rstd, gamma]

    def backward(self, dy, saved):
        x_hat, rstd, gamma = saved
        g = gamma * dy.astype(rstd.dtype)
        c1, c2 = (terms.mean(axis=-1, keepdims=True) for terms in (g, g * x_hat))
        dx = rstd * (g - c1 - x_hat * c2)
        dx = self.faults.get("dx", lambda dx, saved: dx)(dx, saved)
        total = self.faults.get("sum", lambda terms: terms.sum(axis=0))
        flat = (terms.reshape(-1, terms.shape[-1]) for terms in (dy * x_hat, dy.astype(rstd.dtype)))
        sums = (total(terms).astype(gamma.dtype) for terms in flat)
        return dx.astype(dy.dtype), *sums

    def kernel(self) -> Kernel:
        return dataclasses.replace(HONEST, name="planted", forward=self.forward, backward=self.backward)


def naive(x, eps):
    mean = x.mean(axis=-1, keepdims=True)
    variance = np.maximum((x * x).mean(axis=-1, keepdims=True) - mean * mean, 0)
    return x - mean, 1 / np.sqrt(variance + eps)


def once(x, eps):
    z = x - x.mean(axis=-1, keepdims=True)
    return z, 1 / np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps)


def half(x, eps):
    mean = x.mean(axis=-1, keepdims=True).astype(np.float16).astype(x.dtype)
    return x - mean, once(x, eps)[1].astype(np.float16).astype(x.dtype)


def running_bfloat16(terms):
    kind, total = dtype_of("bfloat16"), np.zeros(terms.shape[-1], dtype_of("bfloat16"))
    for row in terms.astype(kind):
        total = total + row
    return total


NOISE = np.random.default_rng(0)  # one stream for all calls


def fresh_noise(dx, saved):
    return dx * (1 + 1e-7 * NOISE.standard_normal(dx.shape))


def spoil_saved(dx, saved):
    saved[0] = saved[0] * 2
    return dx


def refuse_none(x):
    if len(x) == 0:
        raise IndexError("no rows")


FAULTS: dict[str, tuple[dict[str, Callable], str, str]] = {
    "naive variance": ({"statistics": naive}, "dx_slope", "float32"),
    "no re-centring": ({"statistics": once}, "dx_slope", "float32"),
    "statistics in float16": ({"statistics": half}, "dgamma_error", "float32"),
    "eps ignored": ({"eps": lambda eps: 1e-5}, "eps_obeyed", "float32"),
    "no eps": ({"eps": lambda eps: 0.0}, "edge_zero_input", "float32"),
    "another row": ({"dx": lambda dx, saved: dx + 1e-3 * dx.mean(axis=0)}, "gradient_check", "float64"),
    "NaN leaks": ({"dx": lambda dx, saved: dx + 0 * dx.sum()}, "edge_nan_row", "float32"),
    "writes into x": ({"spoils": lambda x: x.flags.writeable and x.fill(0)}, "inputs_kept", "float32"),
    "writes into read-only x": ({"spoils": lambda x: x.fill(0)}, "edge_read_only", "float32"),
    "no row": ({"spoils": refuse_none}, "edge_no_rows", "float32"),
    "one column": ({"dx": lambda dx, saved: dx + (dx.shape[-1] == 1)}, "edge_width_1", "float32"),
    "long sums in 16 bits": ({"sum": running_bfloat16}, "long_sums", "bfloat16"),
    "a count in 16 bits": ({"sum": running_bfloat16}, "ones_counted", "bfloat16"),
    "dgamma in 16 bits": ({"sum": running_bfloat16}, "dgamma_error", "float32"),
    "unlike itself": ({"dx": fresh_noise}, "repeatable", "float32"),
    "saved is spoilt": ({"dx": spoil_saved}, "repeatable", "float32"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_numerical_fault_is_found(name):
    faults, expected, dtype = FAULTS[name]
    assert expected in failed(Planted(**faults).kernel(), dtype)


@pytest.mark.parametrize("name", ["y", "dx"])
def test_a_row_between_chunks_that_is_lost_is_found_and_named(name):
    def lossy(results):
        rows = results[0]
        if len(rows) == SMALL.sum_rows:
            rows[len(rows) // 2 - 1] = 0
        return results

    if name == "y":
        kernel = dataclasses.replace(HONEST, forward=lambda *given: lossy(HONEST.forward(*given)))
    else:
        kernel = dataclasses.replace(HONEST, backward=lambda *given: lossy(HONEST.backward(*given)))
    findings = audit(kernel, "float32", SMALL)
    (found,) = [finding for finding in findings if finding.passed is False]
    assert (found.property, found.note) == ("long_sums", f"{SMALL.sum_rows} rows; wrong: {name}")
    assert found.value < found.limit
    assert advice(findings) == {CHUNKS: ["long_sums"]}


SOURCE = Path(inspect.getfile(HONEST.forward.__wrapped__)).read_text(encoding="utf-8")
RETURN = "    return dx, dgamma, dbeta"
SPOILT: dict[str, tuple[str, str, str, str]] = {  # what stands there, what is put there, what finds it, in
    "a tail of the second reduction": (
        "z.mean(axis=-1, keepdims=True)  # (13)",
        "z[..., : z.shape[-1] // 4 * 4 or 1].sum(-1, keepdims=True) / z.dtype.type(z.shape[-1])",
        "edge_widths_far",
        "float32",
    ),
    "a tail of a row": (
        "(g * x_hat).mean(axis=-1, keepdims=True)",
        "(g * x_hat)[..., : dy.shape[-1] // 8 * 8 or 1].sum(-1, keepdims=True) / dy.dtype.type(dy.shape[-1])",
        "edge_widths",
        "float16",
    ),
    "a long row": ("g.mean(axis=-1", "g[..., :1024].mean(axis=-1", "edge_width_4099", "float32"),
    "rows after whole blocks": (
        "= dy.sum(axis=rows)",
        "= dy[: len(dy) // 64 * 64 if len(dy) > 64 else None].sum(axis=rows)",
        "edge_rows_1031",
        "bfloat16",
    ),
    "the last row": ("(dy * x_hat).sum", "(dy * x_hat)[: len(dy) - 1 or 1].sum", "dgamma_error", "float32"),
    "a layout of dy": (
        "    dy = _wide(dy, mean.dtype)",
        "    dy = _wide(dy.ravel('K').reshape(dy.shape) if x.flags.c_contiguous else dy, mean.dtype)",
        "edge_dy_transposed",
        "float32",
    ),
    "a stride of 0": (
        "    dy = _wide(dy, mean.dtype)",
        "    dy = _wide(dy * (1 - 0.5 * (0 in dy.strides)), mean.dtype)",
        "edge_dy_expanded",
        "float32",
    ),
    "zeros in dy": (RETURN, f"    dx[dy == 0] = 0\n{RETURN}", "edge_dy_sparse", "float32"),
    "gamma from a mask": (
        "Saved(x, mean, rstd, gamma)",
        "Saved(x, mean, rstd, np.where(gamma == 0, gamma.dtype.type(1), gamma))",
        "edge_gamma_zeros",
        "float32",
    ),
    "gamma taken for ones": (
        "Saved(x, mean, rstd, gamma)",
        "Saved(x, mean, rstd, gamma ** int(np.ptp(gamma) > 0))",
        "edge_gamma_uniform",
        "float32",
    ),
    "the second axis": (
        "_wide(x, wide).mean(axis=-1",
        "_wide(x, wide).mean(axis=min(1, x.ndim - 1)",
        "edge_leading_axes",
        "float32",
    ),
    "the last forward pass": (
        "    x, mean, rstd, gamma = saved",
        "    x, mean, rstd, gamma = Saved.last",
        "undisturbed",
        "float32",
    ),
    "a shared result": (
        RETURN,
        "    kept = np.copyto(_kept(dx), dx) or _kept(dx)\n    return kept, dgamma, dbeta",
        "undisturbed",
        "float32",
    ),
    "dy written to": (
        "    dy = _wide(dy, mean.dtype)",
        "    dy *= dy.flags.writeable + 1\n    dy = _wide(dy, mean.dtype)",
        "inputs_kept",
        "float32",
    ),
    "float32 in float64": (
        "(dy * x_hat).sum(axis=rows)",
        "(dy * x_hat).sum(axis=rows, dtype=np.float32)",
        "dgamma_error",
        "float64",
    ),
    "eps squared": ("var + eps)", "var + eps * eps)", "eps_obeyed", "float32"),
}


@pytest.mark.parametrize("left", range(1, 16))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tail_of_any_length_that_is_lost_is_found(left, dtype):
    def lossy(dx, saved):
        wrong = dx.shape[-1] % 16 == left
        dx[..., dx.shape[-1] - left * wrong :] *= 1 - wrong
        return dx

    problem, exact = edge_cases.posed("widths", dtype, SMALL.eps, SMALL.seed, CASES)
    trial = edge_cases.Trial(Planted(dx=lossy).kernel(), problem, exact, SMALL.eps, SMALL.limit_u)
    assert not edge_cases.outcome("widths", trial, CASES).passed


def outcome(name, kernel, dtype="float32", seed=SMALL.seed):
    problem, exact = edge_cases.posed(name, dtype, SMALL.eps, seed, CASES)
    return edge_cases.outcome(name, edge_cases.Trial(kernel, problem, exact, SMALL.eps, SMALL.limit_u), CASES)


def spoiled(result, condition):
    """HONEST, but a gradient is 0 where the shape of dy is such."""

    def backward(dy, saved):
        found = list(HONEST.backward(dy, saved))
        if condition(dy.shape):
            found[result][...] = 0
        return tuple(found)

    return dataclasses.replace(HONEST, backward=backward)


@pytest.mark.parametrize("width", SHORT)
@pytest.mark.parametrize("result", range(3))
def test_a_gradient_that_is_lost_in_short_rows_is_found(result, width):
    """Where D = 2, too: dx is 0 there but for eps, which is seen beside u."""
    found = outcome("widths_short", spoiled(result, lambda shape: shape[-1] == width))
    assert not found.passed and f"worst at D = {width}; " in found.reason


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("result", range(3))
def test_a_gradient_that_is_lost_in_few_rows_is_found(result, rows):
    found = outcome("few_rows", spoiled(result, lambda shape: shape[:-1] == (rows,)))
    assert not found.passed and f"worst at {rows} rows; " in found.reason


@pytest.mark.parametrize(("name", "axes"), [("one_axis", 1), ("four_axes", 4)])
def test_a_kernel_for_two_axes_and_three_is_told_of_others(name, axes):
    def forward(x, *rest):
        if x.ndim == axes:
            raise ValueError("two axes or three")
        return HONEST.forward(x, *rest)

    found = audit(dataclasses.replace(HONEST, forward=forward), "float32", SMALL)
    said = "normalize over the last axis, sum dgamma and dbeta over all others"
    assert advice(found) == {said: [f"edge_{name}"]}


@pytest.mark.parametrize("name", ["widths_short", "few_rows", "one_axis", "four_axes"])
@pytest.mark.parametrize("kernel", [name for name, it in KERNELS.items() if it.device == "cpu"])
def test_our_kernels_pass_on_few_rows_and_short_ones_and_any_number_of_axes(kernel, name):
    kernel = KERNELS[kernel]
    found = {
        (dtype, seed): outcome(name, kernel, dtype, seed) for dtype in kernel.dtypes for seed in range(3)
    }
    assert all(one.passed for one in found.values()), found


def test_the_worst_width_is_told_and_the_size_of_what_should_be_0():
    def off(dx, saved):
        return dx * (1 + 0.5 * (dx.shape[-1] == 36)) + 1e-9 * (dx.shape[-1] == 1)

    found = {finding.property: finding.note for finding in audit(Planted(dx=off).kernel(), "float32", SMALL)}
    assert "worst at D = 36; " in found["edge_widths"]
    assert "largest |dx| 1e-09, |dgamma| 0; " in found["edge_width_1"]


def test_edge_cases_that_are_left_out_are_neither_run_nor_counted():
    setting = dataclasses.replace(SMALL, without=("widths", "nan_row"))
    ticks: list[str] = []
    whole = {finding.property: finding for finding in audit(HONEST, "float32", SMALL)}
    found = audit(HONEST, "float32", setting, ticks.append)
    assert whole.keys() - {finding.property for finding in found} == {"edge_widths", "edge_nan_row"}
    assert len(ticks) == steps("float32", setting) == steps("float32", SMALL) - 2
    counted = [finding.note for finding in found if finding.property == "edge_cases"]
    assert counted == [f"of {int(whole['edge_cases'].note.removeprefix('of ')) - 2}"]


@pytest.mark.parametrize("name", SPOILT)
def test_every_line_that_is_spoilt_in_a_copy_of_a_kernel_is_found(name):
    there, put, expected, dtype = SPOILT[name]
    assert there in SOURCE
    code = SOURCE.replace(there, put, 1).replace(
        "    return y, Saved(", "    Saved.last = Saved(x, mean, rstd, gamma)\n    return y, Saved(", 1
    )
    space: dict[str, Any] = {"__name__": "spoilt", "_kept": cache_by_shape()}
    exec(compile(code, "spoilt.py", "exec"), space)
    assert expected in failed(space["KERNEL"], dtype)


def cache_by_shape():
    buffers = {}
    return lambda array: buffers.setdefault((array.shape, array.dtype), np.empty_like(array))


def test_the_kernel_that_they_are_planted_in_is_right():
    assert failed(Planted().kernel()) == failed(Planted().kernel(), "bfloat16") == set()


def test_an_error_without_end_stays_infinite():
    def infinite(dx, saved):
        return dx * np.where(dx.shape == (8, 32), np.inf, 1).astype(dx.dtype)

    found = {finding.property: finding for finding in audit(Planted(dx=infinite).kernel(), "float32", SMALL)}
    assert found["dx_error"].value == np.inf
    assert np.isfinite(found["y_error"].value)


def test_advice_about_a_count_tells_a_wrong_dbeta_from_a_sum_that_stands_still():
    def swapped(dy, saved):
        dx, dgamma, dbeta = HONEST.backward(dy, saved)
        return dx, dbeta, dgamma

    wrong = dataclasses.replace(HONEST, backward=swapped)
    assert "ones_counted" in advice(audit(wrong, "float32", SMALL))[WRONG]
    short = Planted(sum=running_bfloat16).kernel()
    said = advice(audit(short, "bfloat16", SMALL))
    assert said[ADVICE["ones_counted"]] == ["ones_counted"]


def accumulated(out, found):
    out[1][...] += found[1]


def in_part(out, found):
    out[0][..., :-1] = found[0][..., :-1]


def overrun(out, found):
    out[2][...] = found[2]
    ctypes.memset(out[2].ctypes.data + out[2].nbytes, 7, 1)


@pytest.mark.parametrize(
    ("result", "spoil", "note"),
    [
        (0, in_part, "dx"),
        (1, accumulated, "dgamma"),
        (2, lambda out, found: None, "dbeta"),
        (2, overrun, "past the end of dbeta"),
    ],
)
def test_what_is_wrong_in_out_only_is_found(result, spoil, note):
    def backward(dy, saved, out=None):
        found = HONEST.backward(dy, saved)
        for number, array in enumerate(out or ()):
            if number != result:
                array[...] = found[number]
        if out is not None:
            spoil(out, found)
        return out or found

    findings = audit(dataclasses.replace(HONEST, backward=backward), "float32", SMALL)
    assert [(found.property, found.note) for found in findings if not found.passed] == [("into_out", note)]


def test_right_results_beside_an_out_that_is_left_alone_are_found():
    def ignores(dy, saved, out=None):
        return HONEST.backward(dy, saved)

    def forward(x, gamma, beta, eps):
        return HONEST.forward(x, gamma, beta, eps)

    for kernel in (HONEST, dataclasses.replace(HONEST, forward=forward)):
        findings = audit(dataclasses.replace(kernel, backward=ignores), "float32", SMALL)
        told = [(found.property, found.note) for found in findings if not found.passed]
        assert told == [("into_out", "dx, dgamma, dbeta")]


def test_where_nothing_takes_out_that_is_told_and_not_judged():
    findings = audit(Planted().kernel(), "float32", SMALL)
    (found,) = [finding for finding in findings if finding.property == "into_out"]
    assert (found.passed, found.reason) == (None, "takes no `out`")


def test_what_a_pair_saves_is_kept_apart_from_x():
    """A backward pass that reads x unsaved is caught, one that finds it in a dict of lists is not."""
    seen = []

    def sly(x, gamma, beta, eps):
        y, (_, *rest) = HONEST.forward(x, gamma, beta, eps)
        seen[:] = [x]
        return y, {"rest": rest}

    def plain(x, gamma, beta, eps):
        y, (x, *rest) = HONEST.forward(x, gamma, beta, eps)
        return y, {"x": [x], "rest": rest}

    def backward(dy, saved):
        (x,) = saved.get("x", seen)
        return HONEST.backward(dy, Saved(x, *saved["rest"]))

    assert failed(as_kernel("plain", (plain, backward))) == set()
    assert "edge_x_deleted" in failed(as_kernel("sly", (sly, backward)))


def test_what_a_call_of_other_row_length_leaves_behind_is_found():
    planted, last = Planted(), []

    def forward(x, gamma, beta, eps):
        last.append(x.shape[-1])
        return planted.forward(x, gamma, beta, eps)

    def backward(dy, saved):
        dx, *sums = planted.backward(dy, saved)
        return dx * (last[-1] == dy.shape[-1]), *sums

    found = calls.undisturbed(
        dataclasses.replace(HONEST, forward=forward, backward=backward), "float32", SMALL
    )
    assert (found.passed, found.note) == (False, "dx")


def test_what_an_earlier_call_of_the_same_shape_left_is_found():
    last = []

    def forward(x, *rest):
        if not last or last[0].shape != x.shape:
            last[:] = [x.copy()]
        return HONEST.forward(last[0], *rest)

    found = calls.undisturbed(dataclasses.replace(HONEST, forward=forward), "float32", SMALL)
    assert (found.passed, found.note) == (False, "y, dx, dgamma")


@pytest.mark.parametrize(
    ("kept", "note"),
    [
        ("x", "y, dx, dgamma"),
        ("gamma", "y, dx"),
        ("x_hat", "dx, dgamma"),
        ("rstd", "dx"),
        ("dy", "dx, dgamma, dbeta"),
    ],
)
def test_a_cache_by_shape_that_is_never_renewed_is_found(kept, note):
    planted, cache = Planted(), {}

    def cached(name, array, shape):
        return cache.setdefault(shape, array.copy()) if name == kept else array

    def forward(x, gamma, beta, eps):
        gamma = cached("gamma", gamma, x.shape)
        y, (x_hat, rstd, _) = planted.forward(cached("x", x, x.shape), gamma, beta, eps)
        return y, [cached("x_hat", x_hat, x.shape), cached("rstd", rstd, x.shape), gamma]

    def backward(dy, saved):
        return planted.backward(cached("dy", dy, dy.shape), saved)

    kernel = dataclasses.replace(HONEST, forward=forward, backward=backward)
    for _ in range(2):  # the second time both shapes are in the cache
        found = calls.undisturbed(kernel, "float32", SMALL)
        assert (found.passed, found.note) == (False, note)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_cache_by_row_length_that_is_never_renewed_is_found(dtype):
    planted, cache = Planted(), {}

    def backward(dy, saved):
        x_hat, rstd, gamma = saved
        return planted.backward(dy, [x_hat, rstd, cache.setdefault(len(gamma), gamma.copy())])

    kernel = dataclasses.replace(HONEST, forward=planted.forward, backward=backward)
    found = calls.undisturbed(kernel, dtype, SMALL)
    assert (found.passed, found.note) == (False, "dx")


def test_a_kernel_that_is_wrong_from_the_first_call_on_has_no_stale_cache():
    assert calls.undisturbed(Planted(dx=lambda dx, saved: 3 * dx).kernel(), "float32", SMALL).passed


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 2, 8, 512])
def test_rounded_sums_are_not_taken_for_a_stale_cache(dtype, rows):
    planted = Planted(sum=running_bfloat16).kernel()
    assert calls.undisturbed(planted, dtype, dataclasses.replace(SMALL, rows=rows)).passed


def test_a_property_that_raises_keeps_its_limit():
    def refuse(x, *rest):
        if x.size > 64:
            raise RuntimeError
        return HONEST.forward(x, *rest)

    found = audit(dataclasses.replace(HONEST, forward=refuse), "float32", SMALL)
    limits = {finding.property: finding.limit for finding in found if finding.raised}
    assert limits["eps_obeyed"] == SMALL.limit_u
    assert limits["long_sums"] == SMALL.sum_limit_u(SMALL.sum_rows, "float32")
    assert limits["ones_counted"] == SMALL.sum_rows
    assert limits["repeatable"] == limits["undisturbed"] == 0
    assert not any(map(np.isnan, limits.values()))


@pytest.mark.parametrize("wrong", behaviour.EPSILONS)
def test_the_eps_at_which_results_are_wrong_is_named(wrong):
    kernel = Planted(eps=lambda eps: 2 * eps if eps == wrong else eps).kernel()
    found = behaviour.eps_obeyed(kernel, "float32", SMALL)
    assert not found.passed and found.note.startswith(f"at eps {wrong:g}; wrong: y, dx")


def test_dx_of_many_rows_has_the_limit_of_its_own_dtype():
    """An error of 16 u is allowed in the sums of so many rows in float32, not in dx in bfloat16."""
    kernel = Planted(dx=lambda dx, saved: dx * np.float32(1 + 16 * 2.0**-8)).kernel()
    found = behaviour.long_sums(kernel, "bfloat16", WIDE_GAMMA)
    assert not found.passed and found.note == f"{SMALL.sum_rows} rows; wrong: dx"


def test_a_row_that_is_not_counted_is_found_in_the_dtype_of_gamma():
    kernel = Planted(sum=lambda terms: terms[:-1].sum(axis=0)).kernel()
    found = behaviour.ones_counted(kernel, "bfloat16", WIDE_GAMMA)
    assert (found.value, found.passed) == (SMALL.sum_rows - 1, False)


def test_short_rows_are_right_where_dx_is_written_to_dy():
    def backward(dy, saved):
        dx, *sums = HONEST.backward(dy, saved)
        dy[...] = dx
        return dy, *sums

    assert outcome("widths_short", dataclasses.replace(HONEST, backward=backward)).passed


def test_a_result_that_is_returned_beside_a_right_one_in_out_is_found():
    def backward(dy, saved, out=None):
        dx, *sums = HONEST.backward(dy, saved, out)
        return dx if out is None else 2 * dx, *sums

    found = into_out.into_out(dataclasses.replace(HONEST, backward=backward), "float32", SMALL)
    assert (found.passed, found.note) == (False, "dx")
