"""The rules of gradient checks in use, reimplemented: how each differentiates, and which errors it allows.

A rule takes a case and returns a function of a backward pass: the largest ratio of error to allowed error, at
the check's default tolerance. A fault is caught where the ratio exceeds 1; NaN counts as infinite.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.gradient_check import compare
from layernorm_backward.gradient_check.cases import Arguments, Case, Of, flat
from layernorm_backward.gradient_check.checker import DIRECTIONS, METHOD, SEED
from layernorm_backward.gradient_check.methods import METHODS

Judge = Callable[[Callable[..., Arguments]], float]
TORCH_STEP, TORCH_ATOL, TORCH_RTOL = 1e-6, 1e-5, 1e-3
JAX_STEP, JAX_TOLERANCE = 1e-4, {"float32": 2e-3, "float64": 1e-5}
OURS = ("ours", "ours_float32", "ours_float16", "ours_bfloat16")
SCIPY_STEP, SCIPY_TOLERANCE = 2.0**-26, 1e-5


class Rule(NamedTuple):
    """`of`: what the check differentiates, in `dtype`; `package`: the one it belongs to, "" for ours."""

    of: Of
    dtype: str
    package: str
    prepare: Callable[[Case], Judge]


def torch_gradcheck(case: Case) -> Judge:
    """Every element of the Jacobian: |analytic - numeric| <= atol + rtol*|numeric|, central differences.

    torch.autograd.gradcheck, PyTorch 2.13: eps 1e-6, atol 1e-5, rtol 1e-3, meant for float64; the rows of the
    analytic Jacobian are pull-backs of unit vectors. Its other two tests, a pull-back of zeros and repeated
    pull-backs, are left out: they reveal no fault that is linear in dy.
    """
    moves = (tuple(TORCH_STEP * unit for unit in units) for units in case.moves())
    numeric = np.stack([np.ravel(case.central(move, TORCH_STEP)) for move in moves], axis=-1)
    allowed = TORCH_ATOL + TORCH_RTOL * np.abs(numeric)  # (outputs, arguments)

    def judge(backward: Callable[..., Arguments]) -> float:
        analytic = np.stack([flat(case.pulled(backward, unit)) for unit in case.cotangents()])
        return _largest(np.abs(analytic - numeric) / allowed)

    return judge


def jax_check_grads(case: Case) -> Judge:
    """One random direction: tangent . pull-back(cotangent) against the central difference along the tangent.

    jax.test_util.check_grads, JAX 0.10, order 1, modes ("rev",): step 1e-4, atol = rtol = 2e-3 in float32 and
    1e-5 in float64; tangent and cotangent from N(0,1), of RandomState(0) whatever the data.
    """
    kind, tolerance = case.at.x.dtype.type, JAX_TOLERANCE[case.at.x.dtype.name]
    normal = np.random.RandomState(0).randn
    tangent = tuple(np.asarray(normal(*part.shape), kind) for part in case.arguments)
    rise = case.central(tuple(part * kind(JAX_STEP) for part in tangent), JAX_STEP)
    cotangent = np.asarray(normal(*rise.shape), kind)
    numeric = np.sum(rise * cotangent)
    allowed = tolerance + tolerance * np.abs(numeric)

    def judge(backward: Callable[..., Arguments]) -> float:
        pulled = zip(case.pulled(backward, cotangent), tangent, strict=True)
        return _largest(np.abs(sum(np.sum(part * move) for part, move in pulled) - numeric) / allowed)

    return judge


def scipy_check_grad(case: Case) -> Judge:
    """The 2-norm of the gradient less forward differences over all of x, gamma, beta: absolute.

    scipy.optimize.check_grad, SciPy 1.17: step sqrt(2**-52). It returns the norm and has no tolerance.
    Users allow 1e-7 (SciPy's own tests: 7 decimals) to 1e-5 (scikit-learn's test of t-SNE: 5): here 1e-5.
    """
    start, at = case.value(*case.arguments), flat(case.arguments)
    steps = (
        (part + SCIPY_STEP * unit for part, unit in zip(case.arguments, units, strict=True))
        for units in case.moves()
    )
    numeric = np.array([case.value(*moved) - start for moved in steps]) / ((at + SCIPY_STEP) - at)

    def judge(backward: Callable[..., Arguments]) -> float:
        error = flat(case.pulled(backward, 1.0)) - numeric
        return _largest(np.sqrt(np.sum(error * error)) / SCIPY_TOLERANCE)

    return judge


def ours(case: Case) -> Judge:
    """`check` with its defaults: row by row and along random directions, against the error model."""
    method = METHODS[METHOD]
    outputs = compare.outputs(case.forward, case.eps, method)
    setting = compare.Setting(outputs, case.at, case.eps, method, None)
    saved = case.forward(*case.arguments, case.eps)[1]
    differenced = compare.full(
        setting, Gradients(*case.arguments)
    )  # the differences; any gradient will do here
    chosen = compare.random_directions(setting, DIRECTIONS, np.random.default_rng(SEED))

    def judge(backward: Callable[..., Arguments]) -> float:
        analytic = Gradients(*backward(case.at.dy, saved))
        pairs = zip(differenced, analytic, strict=True)
        found = [part._replace(analytic=gradient) for part, gradient in pairs]
        found += compare.with_directions(setting, chosen, analytic)
        return _largest(np.concatenate([np.ravel(part.errors / part.tolerance) for part in found]))

    return judge


def _largest(ratios: NDArray | float) -> float:
    most = float(np.max(ratios))
    return np.inf if np.isnan(most) else most


RULES: dict[str, Rule] = {
    "torch_gradcheck": Rule("output", "float64", "torch", torch_gradcheck),
    "torch_gradcheck_loss": Rule("loss", "float64", "torch", torch_gradcheck),
    "jax_check_grads": Rule("output", "float32", "jax", jax_check_grads),
    "jax_check_grads_loss": Rule("loss", "float32", "jax", jax_check_grads),
    "jax_check_grads_x64": Rule("output", "float64", "jax", jax_check_grads),
    "scipy_check_grad": Rule("loss", "float64", "scipy", scipy_check_grad),
} | {
    name: Rule("loss", dtype, "", ours)
    for name, dtype in zip(OURS, ("float64", "float32", "float16", "bfloat16"), strict=True)
}
