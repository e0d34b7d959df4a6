"""The checks in use, restated: what they catch, where they cry wolf, and which data suffice."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from layernorm_backward import gradient_check
from layernorm_backward.experiments import mutation, mutation_cover
from layernorm_backward.experiments._set_cover import smallest_cover
from layernorm_backward.figures.mutation import SMALLEST
from layernorm_backward.gradient_check import adequate, packages
from layernorm_backward.gradient_check.cases import case
from layernorm_backward.gradient_check.datasets import DEFAULT, GAMMAS, ROWS, UPSTREAMS, DataSet, point
from layernorm_backward.gradient_check.mutants import MUTANTS, kernel
from layernorm_backward.gradient_check.rules import RULES
from layernorm_backward.inputs import values
from layernorm_backward.kernels.reference import forward_equations
from layernorm_backward.records.schemas import SCHEMAS

EPS = 1e-5
SMALL = {
    "gammas": ["uniform", "random"],
    "settings": {"default": 1.0, "loose": 100.0},
    "draws": [(0, (2, 3, 8))],
    "more_draws": {},
    "executed": ["scipy"],
}


@cache
def measured():
    checks = ["torch_gradcheck_loss", "jax_check_grads_loss", "scipy_check_grad", "ours"]
    rows, upstreams = ["normal", "offset", "mixed"], ["normal", "shifted"]
    return mutation.run(checks=checks, rows=rows, upstreams=upstreams, **SMALL)


def caught(check: str, data: str, setting: str = "default") -> set[str]:
    table = measured()
    rows = table[(table["check"] == check) & (table["data"] == data) & (table["setting"] == setting)]
    assert len(rows) == len(MUTANTS) + 1
    return set(rows[rows["caught"].astype(bool)]["mutant"])


def test_the_table_has_the_columns_of_its_schema_and_one_row_a_key():
    schema = SCHEMAS["mutation"]
    assert list(measured().columns) == list(schema.columns)
    assert not measured().duplicated(list(schema.keys)).any()


def test_our_check_catches_every_fault_on_its_default_data_and_torch_does_too():
    for check in ("ours", "torch_gradcheck_loss"):
        assert caught(check, DEFAULT.name) == set(MUTANTS)


def test_usual_data_hide_what_gamma_and_eps_do_from_the_default_tolerances_of_torch():
    missed = set(MUTANTS) - caught("torch_gradcheck_loss", "normal uniform normal")
    assert {"gamma left out", "gamma outside of the bracket", "dbeta from g", "eps left out"} <= missed
    assert {"no mean(g) term", "rstd squared"}.isdisjoint(missed)


def test_a_fault_that_is_none_on_the_data_has_no_error():
    rows = measured().query("mutant == 'gamma left out'")
    uniform = rows["data"].str.contains("uniform")
    assert (rows[uniform]["rel_error"] == 0).all()
    assert (rows[~uniform]["rel_error"] > 0.1).all()


def test_offset_rows_make_jax_fail_the_right_kernel_and_rows_near_eps_scipy():
    assert "none" in caught("jax_check_grads_loss", "offset random normal")
    assert "none" in caught("scipy_check_grad", DEFAULT.name)
    assert "none" not in caught("ours", "offset random normal") | caught("ours", DEFAULT.name)


def test_a_looser_tolerance_never_catches_more():
    for data in measured()["data"].unique():
        assert caught("ours", data, "loose") <= caught("ours", data)


def test_an_unknown_kind_of_data_is_refused_with_what_is_allowed():
    with pytest.raises(
        ValueError, match="unknown kind 'far' in 'far random normal'; allowed: normal, offset"
    ):
        point(DataSet("far", "random", "normal"), (2, 4), EPS, 0)


@pytest.mark.parametrize("kinds", [*product(ROWS, GAMMAS, UPSTREAMS)], ids=" ".join)
def test_a_data_set_is_what_its_name_says(kinds):
    data, at = DataSet(*kinds), point(DataSet(*kinds), (4, 3, 64), EPS, 5)
    found = forward_equations(*map(values, at[:3]), EPS)
    var, far = found.var.ravel(), np.abs(found.mean / np.sqrt(found.var)).ravel() > 100
    near = (var < 10 * EPS) & (var > EPS / 10)
    expected = {"normal": (0, 0), "offset": (0, 12), "near_eps": (12, 0), "mixed": (3, 3)}
    assert (near.sum(), far.sum()) == expected[data.rows]
    assert (at.gamma == 1).all() == (data.gamma == "uniform") == (at.beta == 0).all()
    zero = np.abs((at.gamma * at.dy).mean(axis=-1)).max() < 1e-12
    assert zero == (
        data.upstream == "zero_mean" or (data.upstream, data.gamma) == ("squared_loss", "uniform")
    )
    assert (at.dy.mean() > 0.9) == (data.upstream == "shifted")
    assert np.allclose(at.dy, found.y) == (data.upstream == "squared_loss")


def test_of_a_quadratic_loss_the_gradient_is_that_of_dy_equal_to_y():
    at = case(DataSet("normal", "random", "squared_loss"), "loss", "float64", kernel("none"), (2, 4), 0)
    assert RULES["scipy_check_grad"].prepare(at)(kernel("none").backward) < 1


@pytest.mark.parametrize("check", [name for name, rule in RULES.items() if rule.package])
def test_a_restated_rule_and_the_package_give_the_same_verdict(check):
    rule = RULES[check]
    if not packages.version(rule.package):
        pytest.skip(f"{rule.package} is not installed")
    for rows, gamma in (("normal", "random"), ("offset", "uniform"), ("near_eps", "random")):
        at = case(DataSet(rows, gamma, "normal"), rule.of, rule.dtype, kernel("none"), (2, 2, 4), 3)
        with np.errstate(invalid="ignore"):
            judge = rule.prepare(at)
        for mutant in ("none", "no x_hat term", "eps added twice", "gamma left out"):
            backward = kernel(mutant).backward
            assert packages.CATCHES[rule.package](at, backward) == (not judge(backward) <= 1), (rows, mutant)


def test_a_package_that_is_not_there_has_no_version():
    assert packages.version("no_such_package") == ""
    assert packages.version("scipy")


def test_the_default_data_is_the_computed_cover_in_float64_and_float32():
    checks, draws = ["ours", "ours_float32"], [(1, (2, 3, 8))]
    table = mutation.run(
        checks=checks,
        rows=["near_eps", "mixed"],
        gammas=["random"],
        upstreams=["normal", "shifted", "squared_loss"],
        settings={"default": 1.0},
        draws=draws,
        more_draws={"ours_float32": [(2, (4, 8, 16)), (2, (4, 128))]},
        executed=[],
    )
    cover = mutation_cover.run(together={"ours_wide": checks}, mutation=table)
    chosen = cover[cover["check"] == "ours_wide"]
    assert chosen["data"].tolist() == [DEFAULT.name]
    assert chosen["smallest"].all()
    assert (chosen["killed"] == 2 * len(MUTANTS)).all()


def test_the_figure_calls_the_default_data_the_smallest_set():
    assert SMALLEST == DEFAULT


def test_our_rule_is_the_check_with_its_defaults():
    at = case(DEFAULT, "loss", "float64", kernel("none"), (4, 8, 16), 0)
    for mutant in ("none", "eps added twice"):
        found = gradient_check.check(kernel(mutant), at.at, eps=at.eps, raise_on_failure=False)
        assert RULES["ours"].prepare(at)(kernel(mutant).backward) == found["error_over_tolerance"].max()


def test_check_draws_its_data_from_the_default_set():
    for one, other in zip(adequate((2, 3, 8), EPS, 4), point(DEFAULT, (2, 3, 8), EPS, 4), strict=True):
        assert (one == other).all()


def test_data_on_which_the_right_kernel_fails_are_not_chosen():
    cover = mutation_cover.run(together={}, mutation=measured())
    for check in ("jax_check_grads_loss", "scipy_check_grad"):
        chosen = cover[(cover["check"] == check) & (cover["setting"] == "default")]
        alarmed = {data for data in measured()["data"].unique() if "none" in caught(check, data)}
        assert alarmed
        assert not alarmed & set(chosen["data"])


def test_checks_that_were_not_run_are_not_put_together():
    said = "together: both: no ours_float16; allowed: those of the table mutation: torch_gradcheck_loss, "
    with pytest.raises(ValueError, match=said):
        mutation_cover.run(together={"both": ["ours", "ours_float16"]}, mutation=measured())


def test_a_check_without_data_left_has_every_fault_as_a_survivor():
    table = measured()
    hopeless = table[table["check"] == "ours"].assign(caught_draws=1)
    cover = mutation_cover.run(together={}, mutation=hopeless)
    row = cover[(cover["check"] == "ours") & (cover["setting"] == "default")].iloc[0]
    assert (row["member"], row["killed"], row["data"]) == (0, 0, "")
    assert row["survivors"].split(", ") == sorted(MUTANTS)


def test_a_cover_is_the_smallest_and_the_greedy_one_is_not():
    sets = [{0, 1, 2, 3}, {0, 1, 4}, {2, 3, 5}, {4}, {5}]
    coverage = np.array([[element in one for element in range(6)] for one in sets])
    assert smallest_cover(coverage) == ([1, 2], True)


def test_of_equal_covers_the_earlier_is_taken_and_none_is_refused():
    assert smallest_cover(np.array([[False, True], [True, True], [True, True]])) == ([1], True)
    with pytest.raises(ValueError, match="no cover"):
        smallest_cover(np.array([[True, False]]))


def test_what_a_member_adds_is_what_those_before_it_have_not_killed():
    cover = mutation_cover.run(together={}, mutation=measured())
    parts = [part for _, part in cover.groupby(["check", "setting"])]
    assert max(map(len, parts)) > 1
    for part in parts:
        survivors = [name for name in part["survivors"].iloc[0].split(", ") if name]
        assert part["added"].sum() == part["mutants"].iloc[0] - len(survivors)


def test_over_the_draws_the_smallest_error_is_told_and_how_many_are_caught():
    draws = [mutation.Seen(0.5, 8.0, 9, None), mutation.Seen(0.25, 3.0, 12, None)]
    rows = list(mutation._judged(draws, {"default": 1.0, "loose": 4.0}))
    assert [row["error_over_tolerance"] for row in rows] == [3.0, 0.75]
    assert [(row["caught"], row["caught_draws"], row["draws"]) for row in rows] == [
        (True, 2, 2),
        (False, 1, 2),
    ]
    assert {(row["rel_error"], row["evaluations"]) for row in rows} == {(0.25, 12)}
