"""SymPy's derivative of the forward pass; its difference from equations (9) to (11) is simplified to 0.

x, gamma, beta, dy and eps are all symbols, so a proof for D holds for every row of D elements.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients

LARGEST = 5  # elements of a row whose derivative is written out: D = 16 takes SymPy 16 s, D = 5 half a second


class Row(NamedTuple):
    """One row as symbols: x, gamma, beta, dy of D symbols each, eps positive."""

    x: tuple[sp.Symbol, ...]
    gamma: tuple[sp.Symbol, ...]
    beta: tuple[sp.Symbol, ...]
    dy: tuple[sp.Symbol, ...]
    eps: sp.Symbol


def symbolic(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """SymPy's own derivative of the forward pass, evaluated in float64; D up to LARGEST, else ValueError."""
    hidden = x.shape[-1]
    if hidden > LARGEST:
        raise ValueError(f"D is {hidden}; SymPy writes the derivative out for D up to {LARGEST}")
    evaluate = _compiled(hidden)
    rows = zip(x.reshape(-1, hidden), dy.reshape(-1, hidden), strict=True)
    found = np.array([evaluate(row, gamma, beta, upstream, eps) for row, upstream in rows], dtype=float)
    dx, dgamma, dbeta = np.moveaxis(found.reshape(-1, 3, hidden), 1, 0)
    return Gradients(dx.reshape(x.shape), dgamma.sum(axis=0), dbeta.sum(axis=0))


def prove(hidden: int) -> dict[str, bool]:
    """For dx, dgamma, dbeta: whether derivative and formula are identical, for a row of D = `hidden`."""
    row = _row(hidden)
    derivatives, formulas = _derivatives(row), _formulas(row)
    return {
        name: all(_is_zero(a - b, row) for a, b in zip(derivatives[name], formulas[name], strict=True))
        for name in derivatives
    }


def _row(hidden: int) -> Row:
    families = [sp.symbols(f"{name}:{hidden}", real=True) for name in ("x", "gamma", "beta", "dy")]
    return Row(*families, sp.Symbol("eps", positive=True))


def _mean(values: Sequence[sp.Expr]) -> sp.Expr:
    return sp.Add(*values) / len(values)


def _variance(row: Row) -> sp.Expr:
    return _mean([(element - _mean(row.x)) ** 2 for element in row.x])


def _x_hat(row: Row) -> list[sp.Expr]:
    return [(element - _mean(row.x)) / sp.sqrt(_variance(row) + row.eps) for element in row.x]


def _derivatives(row: Row) -> dict[str, list[sp.Expr]]:
    y = [g * element + b for g, element, b in zip(row.gamma, _x_hat(row), row.beta, strict=True)]
    loss = sp.Add(*(d * element for d, element in zip(row.dy, y, strict=True)))
    parameters = {"dx": row.x, "dgamma": row.gamma, "dbeta": row.beta}
    return {name: [sp.diff(loss, symbol) for symbol in symbols] for name, symbols in parameters.items()}


def _formulas(row: Row) -> dict[str, list[sp.Expr]]:
    x_hat, rstd = _x_hat(row), 1 / sp.sqrt(_variance(row) + row.eps)
    g = [a * b for a, b in zip(row.gamma, row.dy, strict=True)]
    c1, c2 = _mean(g), _mean([a * b for a, b in zip(g, x_hat, strict=True)])
    dx = [rstd * (a - c1 - b * c2) for a, b in zip(g, x_hat, strict=True)]
    return {"dx": dx, "dgamma": [a * b for a, b in zip(row.dy, x_hat, strict=True)], "dbeta": list(row.dy)}


def _is_zero(difference: sp.Expr, row: Row) -> bool:
    """With eps = s^2 - var, every root becomes s, and the difference a polynomial over a power of s."""
    s = sp.Symbol("s", positive=True)
    rational = difference.subs(row.eps, s**2 - _variance(row))
    return sp.expand(rational * s**3) == 0


@cache
def _compiled(hidden: int) -> Callable[..., list]:
    row = _row(hidden)
    flat = [element for part in _derivatives(row).values() for element in part]
    return sp.lambdify(list(row), flat, modules="numpy", cse=True)
