"""Edge cases: which kernels pass, and that a wrong kernel would not."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from layernorm_backward import edge_cases as cases
from layernorm_backward.experiments import edge_cases
from layernorm_backward.kernels import KERNELS, Kernel

SETTINGS = {"dtypes": ["float64", "float16"], "eps": 1e-5, "limit_u": 32.0, "seed": 5}


@pytest.fixture(scope="module")
def table():
    return edge_cases.run(kernels=["compact", "recentred", "numba_fused"], **SETTINGS)


def outcomes(table, kernel, dtype="float64"):
    return table[(table["kernel"] == kernel) & (table["dtype"] == dtype)].set_index("case")


@pytest.mark.parametrize("kernel", ["recentred", "numba_fused"])
def test_a_re_centred_kernel_passes_every_case(table, kernel):
    found = outcomes(table, kernel)
    assert set(found.index) == set(edge_cases.CASES)
    assert found["passed"].all(), found[~found["passed"]]


def test_a_plain_mean_fails_where_the_mean_is_large_and_nowhere_else(table):
    failed = outcomes(table, "compact").query("~passed").index
    assert set(failed) == {"tiny_variance", "offset_1e8", "constant_rows"}


def test_a_gradient_norm_is_inverse_to_the_scale_until_eps_counts(table):
    values = outcomes(table, "recentred")["value"]
    assert values[[f"scale_{scale:g}" for scale in (1e1, 1e3, 1e6)]].to_numpy() == pytest.approx(1, abs=1e-4)
    assert values["scale_0.001"] == pytest.approx(1e-3 / np.sqrt(1e-6 + 1e-5), rel=0.05)


def test_x_is_really_gone_before_the_backward_pass(table):
    assert "overwritten with NaN" in outcomes(table, "compact").loc["x_deleted", "reason"]
    assert "x is saved" in outcomes(table, "recentred").loc["x_deleted", "reason"]


@pytest.mark.parametrize(
    ("case", "what"), [("offset_1e8", "mean 1e8, std 1"), ("scale_100000", "x = 100000*N(0,1)")]
)
def test_a_case_of_which_a_part_overflows_is_not_judged(table, case, what):
    found = outcomes(table, "recentred", "float16").loc[case]
    assert pd.isna(found["passed"])
    assert found["reason"] == f"{what}: overflows in float16"


@pytest.mark.parametrize(
    ("case", "shape"),
    [("one_row", (1, 64)), ("no_rows", (0, 64)), ("width_1", (5, 1)), ("width_33", (7, 33))],
)
def test_a_case_has_the_shape_that_it_is_named_after(case, shape):
    problem, exact = cases.posed(case, "float64", 1e-5, 5)
    assert problem.x.shape == exact.dx.hi.shape == shape


def test_a_missing_dtype_is_not_judged(monkeypatch):
    lacking = dataclasses.replace(KERNELS["recentred"], unsupported={"float16": "no halves here"})
    monkeypatch.setattr(edge_cases, "KERNELS", {"recentred": lacking})
    found = outcomes(edge_cases.run(kernels=["recentred"], **SETTINGS), "recentred", "float16")
    assert found["passed"].isna().all()
    assert set(found["reason"]) == {"no halves here"}


class Faulty:
    """The recentred kernel with one fault in its backward pass."""

    def __init__(self, fault):
        self.fault = fault

    def backward(self, dy, saved, out=None):
        dx, dgamma, dbeta = KERNELS["recentred"].backward(dy, saved, out)
        return self.fault(dx, saved), dgamma, dbeta

    def kernel(self) -> Kernel:
        return dataclasses.replace(KERNELS["recentred"], name="faulty", backward=self.backward)


class Keeper:
    """An object that is no sequence, with what was saved in it."""

    def __init__(self, saved):
        self.saved = saved


def x_deleted(monkeypatch, wrap, backward):
    """The outcome of the case x_deleted where `saved` is wrapped before it is returned."""
    honest = KERNELS["recentred"]

    def forward(*arguments):
        y, saved = honest.forward(*arguments)
        return y, wrap(saved)

    wrapped = dataclasses.replace(honest, forward=forward, backward=backward)
    monkeypatch.setattr(edge_cases, "KERNELS", {"recentred": wrapped})
    found = edge_cases.run(kernels=["recentred"], **(SETTINGS | {"dtypes": ["float64"]}))
    return outcomes(found, "recentred").loc["x_deleted"]


@pytest.mark.parametrize("wrap", [Keeper, lambda saved: {"all": [saved]}, lambda saved: lambda: saved])
def test_x_that_is_saved_out_of_sight_is_left_as_it_is(monkeypatch, wrap):
    def backward(dy, saved):
        inner = (
            saved.saved if isinstance(saved, Keeper) else saved["all"][0] if type(saved) is dict else saved()
        )
        return KERNELS["recentred"].backward(dy, inner)

    found = x_deleted(monkeypatch, wrap, backward)
    assert found["passed"] and "x is saved" in found["reason"]


def test_a_kernel_that_reads_x_without_saving_it_is_caught(monkeypatch):
    kept = []

    def wrap(saved):
        kept[:] = [saved]

    found = x_deleted(monkeypatch, wrap, lambda dy, nothing: KERNELS["recentred"].backward(dy, *kept))
    assert not found["passed"] and "x is not saved" in found["reason"]


def without_the_rest(dx):
    """What a loop over whole pairs of elements leaves of a row."""
    whole = dx.shape[-1] // 2 * 2
    dx[..., whole:] = 0
    return dx


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (lambda dx, saved: dx * (1 + 1e-13), "width_1024"),
        (lambda dx, saved: dx + 1e-30, "width_1"),
        *((lambda dx, saved: without_the_rest(dx), f"width_{width}") for width in cases.ODD_WIDTHS),
        (lambda dx, saved: dx + 0 * dx.sum(), "nan_row"),
        (lambda dx, saved: np.nan_to_num(dx), "nan_row"),
        (lambda dx, saved: np.where(np.arange(dx.shape[-1]) == 7, dx, np.nan_to_num(dx)), "nan_row"),
        (lambda dx, saved: dx if saved.x.flags.writeable else -dx, "read_only"),
        (lambda dx, saved: dx if saved.x.flags.c_contiguous else -dx, "non_contiguous"),
        (lambda dx, saved: dx if saved.x.strides[0] >= saved.x.strides[1] else -dx, "non_contiguous"),
    ],
)
def test_a_faulty_kernel_is_caught(monkeypatch, fault, caught):
    monkeypatch.setattr(edge_cases, "KERNELS", {"faulty": Faulty(fault).kernel()})
    found = outcomes(edge_cases.run(kernels=["faulty"], **(SETTINGS | {"dtypes": ["float64"]})), "faulty")
    assert not found.loc[caught, "passed"]
    assert found["passed"].any()


@pytest.mark.parametrize("result", range(3), ids=["dx", "dgamma", "dbeta"])
def test_a_kernel_with_one_wrong_gradient_is_caught(monkeypatch, result):
    def backward(dy, saved, out=None):
        found = list(KERNELS["recentred"].backward(dy, saved, out))
        found[result] = found[result] * 1.001
        return tuple(found)

    wrong = dataclasses.replace(KERNELS["recentred"], backward=backward)
    monkeypatch.setattr(edge_cases, "KERNELS", {"recentred": wrong})
    found = edge_cases.run(kernels=["recentred"], **(SETTINGS | {"dtypes": ["float64"]}))
    assert not outcomes(found, "recentred").loc["width_1024", "passed"]


def test_a_kernel_whose_nan_spreads_to_y_of_other_rows_is_caught(monkeypatch):
    def forward(*arguments):
        y, saved = KERNELS["recentred"].forward(*arguments)
        return y + 0 * y.sum(), saved

    wrong = dataclasses.replace(KERNELS["recentred"], forward=forward)
    monkeypatch.setattr(edge_cases, "KERNELS", {"recentred": wrong})
    found = edge_cases.run(kernels=["recentred"], **(SETTINGS | {"dtypes": ["float64"]}))
    assert not outcomes(found, "recentred").loc["nan_row", "passed"]


def test_a_kernel_that_writes_into_dy_fails_where_it_is_read_only_and_spoils_no_other(monkeypatch):
    def backward(dy, saved, out=None):
        found = KERNELS["recentred"].backward(dy, saved, out)
        dy[...] = 0
        return found

    honest = KERNELS["recentred"]
    wrong = dataclasses.replace(honest, name="faulty", backward=backward)
    monkeypatch.setattr(edge_cases, "KERNELS", {"faulty": wrong, "recentred": honest})
    found = edge_cases.run(kernels=["faulty", "recentred"], **(SETTINGS | {"dtypes": ["float64"]}))
    refused = outcomes(found, "faulty").loc["read_only"]
    assert (refused["passed"], refused["value"]) == (False, np.inf)
    assert refused["reason"].startswith("read-only arrays: raised ValueError")
    assert outcomes(found, "recentred")["passed"].all()


def test_the_sizes_that_a_row_of_one_element_tells_are_those_of_dx_and_dgamma(monkeypatch):
    monkeypatch.setattr(edge_cases, "KERNELS", {"faulty": Faulty(lambda dx, saved: dx + 0.5).kernel()})
    found = outcomes(edge_cases.run(kernels=["faulty"], **(SETTINGS | {"dtypes": ["float64"]})), "faulty")
    assert "largest |dx| 0.5, |dgamma| 0; " in found.loc["width_1", "reason"]


def into_dy(dx, dy):
    return dy


def into_a_buffer(dx, dy, kept={}):  # noqa: B006, kept from call to call
    return kept.setdefault((dx.shape, dx.dtype), np.empty_like(dx))


@pytest.mark.parametrize("where", [into_dy, into_a_buffer])
def test_a_scaled_row_is_judged_before_a_second_call_overwrites_its_results(monkeypatch, where):
    def backward(dy, saved, out=None):
        dx, *sums = KERNELS["recentred"].backward(dy, saved, out)
        its = where(dx, dy)
        its[...] = dx
        return its, *sums

    kernel = dataclasses.replace(KERNELS["recentred"], backward=backward)
    monkeypatch.setattr(edge_cases, "KERNELS", {"recentred": kernel})
    found = edge_cases.run(kernels=["recentred"], **(SETTINGS | {"dtypes": ["float64"]}))
    scaled = outcomes(found, "recentred").loc["scale_1000"]
    assert scaled["passed"] and scaled["value"] == pytest.approx(1, abs=1e-4)
