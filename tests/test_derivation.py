"""Independent derivations of the gradients agree; the formulas that are wrong are seen to be wrong."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward import inputs
from layernorm_backward.derivations import symbolic
from layernorm_backward.derivations.exact import balls, exact, radius, rel_error
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.derivations.registry import DERIVATIONS
from layernorm_backward.experiments import derivation
from layernorm_backward.records.schemas import SCHEMAS

SHAPES = [(1, 1, 1), (2, 3, 4), (1, 3, 5), (2, 4, 8), (7,), (0, 3)]
RIGHT = [name for name in DERIVATIONS if name != "docstring_formula"]
EPS = 1e-5


def point(shape, gamma_kind="random"):
    """x, gamma, beta, dy in float64; dy is N(1,1)."""
    rng = inputs.generator(7, *shape)
    x = inputs.rows(rng, int(np.prod(shape[:-1])), shape[-1], np.float64).reshape(shape)
    dy = inputs.upstream(rng, "shifted", x)
    beta = inputs.beta(rng, shape[-1], np.float64)
    return x, inputs.gamma(rng, gamma_kind, shape[-1], np.float64), beta, dy


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", RIGHT)
def test_a_derivation_agrees_with_the_exact_gradients(name, shape):
    if name == "symbolic" and shape[-1] > symbolic.LARGEST:
        with pytest.raises(ValueError, match=f"D is {shape[-1]}; .* up to {symbolic.LARGEST}"):
            DERIVATIONS[name](*point(shape), EPS)
        return
    found, truth = DERIVATIONS[name](*point(shape), EPS), balls(*point(shape), EPS)
    for quantity, values, exactly in zip(Gradients._fields, found, truth, strict=True):
        # 20 u: a handful of roundings an element; kappa and kappa_g are below 3 for these rows
        assert rel_error(values, exactly) < 20 * 2**-53, quantity


def test_the_docstring_formula_is_right_for_uniform_gamma_only():
    for gamma_kind, holds in (("uniform", True), ("random", False)):
        at = point((2, 4, 8), gamma_kind)
        error = rel_error(DERIVATIONS["docstring_formula"](*at, EPS).dx, balls(*at, EPS).dx)
        assert (error < 1e-15) if holds else (error > 0.1), (gamma_kind, error)


def test_the_exact_gradients_hold_those_of_rational_arithmetic():
    """Rows chosen so that var + eps = 4: the root is rational, and so is the whole gradient."""
    x, dy = [0.0, 2.0, 4.0, 6.0], [1.0, -2.0, 0.5, 3.0]
    gamma, eps, rstd, mean = [1.0, 0.5, 2.0, -1.0], 11.0, Fraction(1, 4), 3
    x_hat = [(Fraction(value) - mean) * rstd for value in x]
    g = [Fraction(a) * Fraction(b) for a, b in zip(gamma, dy, strict=True)]
    c1, c2 = sum(g) / 4, sum(a * b for a, b in zip(g, x_hat, strict=True)) / 4
    dx = [rstd * (a - c1 - b * c2) for a, b in zip(g, x_hat, strict=True)]
    truth = balls(np.array([x]), np.array(gamma), np.zeros(4), np.array([dy]), eps)
    for ball, fraction in zip(truth.dx, dx, strict=True):
        assert ball.contains(float(fraction)), "the fractions here are dyadic, so float is exact"
    assert radius(truth.dx) < 1e-70


def test_more_bits_give_a_smaller_certified_radius():
    coarse, fine = (radius(balls(*point((2, 3, 4)), EPS, bits=bits).dx) for bits in (128, 512))
    assert 0 < fine < 1e-140 < coarse < 1e-30


def test_exact_is_the_midpoint_rounded_once():
    found, truth = exact(*point((2, 4, 8)), EPS), balls(*point((2, 4, 8)), EPS)
    assert all(rel_error(values, ball) <= 2**-53 for values, ball in zip(found, truth, strict=True))


@pytest.mark.parametrize("hidden", [2, 3, 4])
def test_sympy_proves_the_formulas_for_every_row(hidden):
    assert symbolic.prove(hidden) == {"dx": True, "dgamma": True, "dbeta": True}


@pytest.mark.parametrize("quantity", Gradients._fields)
def test_the_proof_fails_for_a_wrong_formula(quantity, monkeypatch):
    right = symbolic._formulas

    def wrong(row):
        formulas = right(row)
        return formulas | {quantity: [element * (1 + row.eps) for element in formulas[quantity]]}

    monkeypatch.setattr(symbolic, "_formulas", wrong)
    assert symbolic.prove(2) == {name: name != quantity for name in Gradients._fields}


def test_a_proof_that_fails_is_reported_and_one_that_was_not_tried_is_not(monkeypatch):
    monkeypatch.setattr(derivation, "prove", lambda hidden: {"dx": False, "dgamma": True, "dbeta": True})
    table = derivation.run(
        derivations=["symbolic", "exact"],
        shapes=[(1, 1, 2), (1, 1, 3)],
        gamma_kinds=["random"],
        prove_hidden=[2],
        eps=EPS,
        precision_bits=256,
        seed=3,
    ).set_index(["derivation", "shape", "quantity"])
    told = table.loc[table["reason"] != "", "reason"]
    assert told.to_dict() == {("symbolic", "1x1x2", "dx"): derivation.UNPROVED}
    assert set(table.index[table["proved"]]) == {("symbolic", "1x1x2", name) for name in ("dgamma", "dbeta")}


def test_the_table_has_a_row_for_every_cell_and_a_reason_where_nothing_was_measured():
    table = derivation.run(
        derivations=list(DERIVATIONS),
        shapes=[(1, 2, 2), (1, 1, 8)],
        gamma_kinds=["uniform", "random"],
        prove_hidden=[2],
        eps=EPS,
        precision_bits=256,
        seed=3,
    )
    schema = SCHEMAS["derivation"]
    assert set(table.columns) == set(schema.columns)
    assert not table.duplicated(list(schema.keys)).any()
    assert len(table) == len(DERIVATIONS) * 2 * 2 * 3
    unmeasured = (table.derivation == "symbolic") & (table["shape"] == "1x1x8")
    assert (table.rel_error.isna() == unmeasured).all()
    assert (table.reason.ne("") == unmeasured).all()
    assert (table.proved == ((table.derivation == "symbolic") & (table["shape"] == "1x2x2"))).all()
    formula = table[(table.derivation == "docstring_formula") & (table["shape"] == "1x1x8")]
    formula = formula[formula.quantity == "dx"]
    assert ((formula.rel_error < 1e-14) == (formula.gamma_kind == "uniform")).all()


def test_the_error_of_the_exact_gradients_is_their_radius_at_the_precision_of_the_config():
    cell = {"derivations": ["exact"], "shapes": [(2, 3, 4)], "gamma_kinds": ["random"], "prove_hidden": []}
    coarse, fine = (
        derivation.run(**cell, eps=EPS, precision_bits=bits, seed=3).rel_error.max() for bits in (128, 512)
    )
    assert 0 < fine < 1e-140 < coarse < 1e-30


def test_dy_of_the_table_has_a_mean_of_1():
    *_, dy = derivation._point((4, 8, 64), "random", 3)
    assert dy.mean() == pytest.approx(1, abs=0.1)
