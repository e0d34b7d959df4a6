"""The command `bench`: which kernels count as right beside 16 bits, where gamma is float32."""

import dataclasses

import numpy as np
import pytest

from bench_small import SETTING as SMALL
from layernorm_backward.bench import WrongError, bench, contenders
from layernorm_backward.bench.contenders import require_correct
from layernorm_backward.bench.data import draw
from layernorm_backward.bench.limits import limit_u, rounds
from layernorm_backward.bench.prepare import ready
from layernorm_backward.kernels import KERNELS

NARROW = ("float16", "bfloat16")
SETTING = dataclasses.replace(SMALL, rows=4096, hidden=64, dtype="bfloat16")


def judge(kernel, setting):
    require_correct("own", ready(kernel, draw(setting), 60.0), setting)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ["compact", "overcached", "recentred", "numpy_blocked"])
def test_right_kernels_are_right_beside_a_wider_gamma(name, dtype):
    judge(KERNELS[name], dataclasses.replace(SETTING, dtype=dtype))


def factor(dy, found, backward):
    found[1][...] *= 1.01


def missing_row(dy, found, backward):
    dy = dy.copy()
    dy[-1] = 0
    found[1][...] = backward(dy)[1]


def narrow_sums(dy, found, backward):
    total = np.zeros_like(dy[0])
    for row in range(len(dy)):
        one = np.zeros_like(dy)
        one[row] = dy[row]
        total = total + backward(one)[1].astype(dy.dtype)
    found[1][...] = total


def narrow_dbeta(dy, found, backward):
    found[2][...] = found[2].astype(dy.dtype)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(
    ("fault", "result", "rows"),
    [
        (factor, "dgamma", 4096),
        (missing_row, "dgamma", 4096),
        (narrow_sums, "dgamma", 256),
        (narrow_dbeta, "dbeta", 4096),
    ],
)
@pytest.mark.parametrize("name", ["compact", "overcached", "recentred"])
def test_wrong_sums_are_wrong_even_where_x_hat_is_rounded(name, fault, result, rows, dtype):
    kernel = KERNELS[name]

    def backward(dy, saved, out=None):
        found = kernel.backward(dy, saved, out)
        fault(dy, found, lambda other: kernel.backward(other, saved))
        return found

    with pytest.raises(WrongError, match=f"{result} has an error"):
        judge(
            dataclasses.replace(kernel, backward=backward),
            dataclasses.replace(SETTING, rows=rows, dtype=dtype),
        )


def test_a_baseline_that_rounds_x_hat_is_timed(unhurried, monkeypatch):
    monkeypatch.setattr(contenders, "BASELINES", ("compact",))
    setting = dataclasses.replace(SETTING, rows=40)
    found = bench(KERNELS["recentred"], setting, unhurried).set_index("against")
    assert found.loc["compact", "reason"] == ""


def test_only_dgamma_of_rounded_x_beside_a_wider_gamma_has_a_wider_limit():
    plain = 100 + 0.1 * 4096
    assert limit_u("dgamma", SETTING, rounded=False) == plain == limit_u("dbeta", SETTING, rounded=True)
    assert limit_u("dgamma", SETTING, rounded=True) == 2 * 2**16
    assert limit_u("dx", SETTING, rounded=True) == limit_u("y", SETTING, rounded=True) == 8
    alike = dataclasses.replace(SETTING, gamma_dtype="bfloat16")
    assert {limit_u("dgamma", alike, rounded) for rounded in (True, False)} == {8}


def test_what_is_saved_tells_whether_x_was_rounded():
    x = draw(SETTING).arrays.x
    wide = x.astype(np.float32)
    assert not rounds((x, wide[:, :1]), x) and not rounds(x.copy(), x) and not rounds((wide, x), x)
    assert rounds((x, (wide / 3).astype(x.dtype)), x)
    assert rounds(wide[:, :1], x) and rounds(None, x)
    assert not rounds(wide / 3, wide)
