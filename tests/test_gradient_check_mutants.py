"""Every known way to get the backward pass wrong is planted, and the checker sees it with its defaults."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from layernorm_backward.gradient_check import GradientError, adequate, check
from layernorm_backward.kernels.reference import forward_equations


class Saved(NamedTuple):
    """What a mutant may go wrong with: x, x_hat (..., D), mean, var, rstd (..., 1), gamma (D,), eps."""

    x: NDArray
    mean: NDArray
    var: NDArray
    rstd: NDArray
    x_hat: NDArray
    gamma: NDArray
    eps: float


def forward(x, gamma, beta, eps):
    found = forward_equations(x, gamma, beta, eps)
    return found.y, Saved(x, *found[:4], gamma, eps)


def mean(values):
    return values.mean(axis=-1, keepdims=True)


def gradients(dy, s, *, g=None, c1=1.0, c2=1.0, rstd=None, x_hat=None, outer=1.0):
    """Equations (6) to (11), with a place for each fault."""
    g = s.gamma * dy if g is None else g
    rstd = s.rstd if rstd is None else rstd
    x_hat = s.x_hat if x_hat is None else x_hat
    rows = tuple(range(dy.ndim - 1))
    dx = outer * rstd * (g - c1 * mean(g) - c2 * x_hat * mean(g * x_hat))
    return dx, (dy * x_hat).sum(axis=rows), dy.sum(axis=rows)


def with_var(dy, s, rstd):
    return gradients(dy, s, rstd=rstd, x_hat=(s.x - s.mean) * rstd)


def truncated(dy, s):
    low_mean, low_var = (part.astype(np.float16).astype(np.float64) for part in (s.mean, s.var))
    rstd = 1 / np.sqrt(low_var + s.eps)
    return gradients(dy, s, rstd=rstd, x_hat=(s.x - low_mean) * rstd)


def over_d_less_1(dy, s):
    factor = s.x.shape[-1] / (s.x.shape[-1] - 1)
    return gradients(dy, s, c1=factor, c2=factor)


def unbiased(dy, s):
    return with_var(dy, s, 1 / np.sqrt(s.var * s.x.shape[-1] / (s.x.shape[-1] - 1) + s.eps))


def but_for(dy, s, **changed):
    """The right gradients, but for those given."""
    dx, dgamma, dbeta = gradients(dy, s)
    return tuple(({"dx": dx, "dgamma": dgamma, "dbeta": dbeta} | changed).values())


MUTANTS: dict[str, Callable] = {
    "no mean(g) term": lambda dy, s: gradients(dy, s, c1=0.0),
    "mean(g) subtracted twice": lambda dy, s: gradients(dy, s, c1=2.0),
    "no x_hat term": lambda dy, s: gradients(dy, s, c2=0.0),
    "sign of the x_hat term": lambda dy, s: gradients(dy, s, c2=-1.0),
    "gamma left out": lambda dy, s: gradients(dy, s, g=dy),
    "gamma outside of the bracket": lambda dy, s: gradients(dy, s, g=dy, outer=s.gamma),
    "means over D - 1": over_d_less_1,
    "variance over D - 1": unbiased,
    "eps outside of the root": lambda dy, s: with_var(dy, s, 1 / (np.sqrt(s.var) + s.eps)),
    "eps left out": lambda dy, s: with_var(dy, s, 1 / np.sqrt(s.var)),
    "eps added twice": lambda dy, s: with_var(dy, s, 1 / np.sqrt(s.var + 2 * s.eps)),
    "rstd of the wrong row": lambda dy, s: gradients(dy, s, rstd=np.roll(s.rstd, 1, axis=0)),
    "rstd squared": lambda dy, s: gradients(dy, s, outer=s.rstd),
    "statistics in 16 bits": truncated,
    "dgamma without x_hat": lambda dy, s: but_for(dy, s, dgamma=dy.sum(axis=(0, 1))),
    "dgamma over one axis": lambda dy, s: but_for(dy, s, dgamma=(dy * s.x_hat).sum(axis=0)[0]),
    "dgamma from g": lambda dy, s: but_for(dy, s, dgamma=(s.gamma * dy * s.x_hat).sum(axis=(0, 1))),
    "dbeta as a mean": lambda dy, s: but_for(dy, s, dbeta=dy.mean(axis=(0, 1))),
    "dbeta over one axis": lambda dy, s: but_for(dy, s, dbeta=dy.sum(axis=0)[0]),
}


def test_the_unspoiled_pair_passes():
    assert check((forward, gradients)).passed.all()


@pytest.mark.parametrize("method", ["central2", "central6", "complex_step"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, method):
    quantity = next((word for word in ("dgamma", "dbeta") if name.startswith(word)), "dx")
    with pytest.raises(GradientError) as caught:
        check((forward, MUTANTS[name]), method=method)
    assert caught.value.quantity == quantity


def test_dgamma_that_keeps_an_axis_is_refused_by_its_shape():
    def keeps(dy, s):
        return but_for(dy, s, dgamma=(dy * s.x_hat).sum(axis=0))

    with pytest.raises(ValueError, match=r"dgamma has shape \(8, 16\); allowed: \(16,\)"):
        check((forward, keeps))


def test_uniform_gamma_lets_the_docstring_formula_pass():
    """Not every data set will do: at gamma = 1 the misplaced gamma is no fault at all."""
    point = adequate((4, 8, 16), 1e-5, seed=0)._replace(gamma=np.ones(16))
    assert check((forward, MUTANTS["gamma outside of the bracket"]), point).passed.all()
