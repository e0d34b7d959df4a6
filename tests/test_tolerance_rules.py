"""Rules of tolerance: what each allows, what it takes for wrong, and how the experiment counts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from layernorm_backward import inputs, kernels, oracle, passes
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.double_double import DoubleDouble
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, sum_dtype, unit_roundoff
from layernorm_backward.experiments import _trials
from layernorm_backward.experiments import tolerance as experiment
from layernorm_backward.gradient_check import mutants
from layernorm_backward.problem import Problem, draw, run_kernel
from layernorm_backward.theory.kernel_bounds import Model, for_model, pairwise
from layernorm_backward.theory.mean_bounds import STATISTICS
from layernorm_backward.tolerances import registry
from layernorm_backward.tolerances.registry import RULES
from layernorm_backward.tolerances.rules import KAPPA_FACTOR, RESULT_FACTOR, one_line, rejects, relative
from layernorm_backward.tolerances.setting import errors, setting
from workspace import ROOT

EPS = 1e-5
SMALL = {
    "ways": ["two_pass", "recentred"],
    "kernels": ["recentred"],
    "defects": ["naive"],
    "dtypes": ["float32"],
    "kappas": [1e4],
    "stds": [1.0],
    "upstreams": ["shifted"],
    "hidden": 32,
    "hidden_sweep": [64],
    "rows": 8,
    "eps": EPS,
    "margin": 64.0,
    "confidence": 0.95,
    "seed": 5,
}


def problem(dtype="float32", kappa=1.0, std=1.0, hidden=64, upstream="shifted") -> Problem:
    rng = inputs.generator(7, hidden)
    x = inputs.rows(rng, 16, hidden, dtype_of(dtype), mean=std * inputs.mean_of_kappa(kappa), std=std)
    return draw(rng, x, upstream, "random")


def by_way(way: str, of: Problem) -> Gradients:
    return Gradients(*passes.run(way, of, EPS, sum_dtype(of.x.dtype)).results[1:])


def rejected(rule: str, found: Gradients, of: Problem) -> bool:
    at = setting(of, EPS)
    return rejects(RULES[rule], RULES[rule].allowed(at), errors(found, at.exact))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("rule", ["one_line", "one_line_strict", "full_bound", "full_bound_strict"])
def test_what_follows_from_the_bound_accepts_right_kernels_and_rejects_a_missing_term(dtype, rule):
    for std in (1e-3, 1.0, 1e3):
        of = problem(dtype, 10.0, std)
        assert not rejected(rule, by_way("recentred", of), of)
        wrong = run_kernel(mutants.kernel("no mean(g) term"), of, EPS)[1:]
        assert rejected(rule, Gradients(*wrong), of)


@pytest.mark.parametrize("quantity", Gradients._fields)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_looks_at_every_gradient_and_at_nan(rule, quantity):
    of = problem()
    right = by_way("recentred", of)
    spoiled = right._replace(**{quantity: 3 * getattr(right, quantity)})
    missing = right._replace(**{quantity: np.full_like(getattr(right, quantity), np.nan)})
    assert rejected(rule, spoiled, of)
    assert rejected(rule, missing, of)


def test_only_the_strict_line_tells_a_rounded_mean_from_a_re_centred_one():
    of = problem(kappa=1e4)
    plain, recentred = by_way("two_pass", of), by_way("recentred", of)
    assert [rejected("one_line", it, of) for it in (plain, recentred)] == [False, False]
    assert [rejected("one_line_strict", it, of) for it in (plain, recentred)] == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("strict", [False, True])
def test_the_line_is_the_one_that_the_module_states(strict, dtype):
    """Written out anew, in float64; rel: statistics by a sum at kappa 10, and roundings of the same terms."""
    of = problem(dtype, 10.0)
    (x, gamma, _, dy), norm = of.values(), np.linalg.norm
    u, u_s = unit_roundoff(dtype_of(dtype)), 2.0**-24
    mean, r = x.mean(axis=1, keepdims=True), 1 / np.sqrt(x.var(axis=1, keepdims=True) + EPS)
    kappa, x_hat = np.ones_like(r) if strict else np.hypot(1, mean * r), (x - mean) * r
    dx = ((2 * u + 16 * kappa * u_s) * r)[:, 0] * norm(gamma * dy, axis=1)
    stored = np.hypot(norm((dy * x_hat).sum(axis=0)), norm(dy * x_hat))
    dgamma = 2 * u * stored + 16 * u_s * norm((kappa * np.abs(dy) * (1 + np.abs(x_hat))).sum(axis=0))
    dbeta = 2 * u * norm(dy.sum(axis=0)) + 16 * u_s * norm(np.abs(dy).sum(axis=0))
    for found, wanted in zip(one_line(strict).allowed(setting(of, EPS)), (dx, dgamma, dbeta), strict=True):
        assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "model"),
    [
        ("full_bound", Model(pairwise, STATISTICS["chan"], rounds_x_hat=True)),
        ("full_bound_strict", Model(pairwise, STATISTICS["recentred"])),
    ],
)
def test_the_full_bound_is_that_of_numpys_sums_times_the_exact_gradients(rule, model):
    of = problem("bfloat16", 10.0)
    at = setting(of, EPS)
    bounds = for_model(model, of, at.moments, EPS)[1:]
    sizes = [np.linalg.norm(part.hi, axis=-1) for part in at.exact]
    for found, bound, size in zip(RULES[rule].allowed(at), bounds, sizes, strict=True):
        assert found == pytest.approx(bound * size, rel=1e-12)


def test_a_limit_that_is_no_number_accepts_nothing():
    nothing, unknown = Gradients(*np.zeros((3, 4))), Gradients(*np.full((3, 4), np.nan))
    assert rejects(RULES["allclose"], unknown, nothing)


def test_a_gradient_that_is_no_number_is_infinitely_wrong_there_and_only_there():
    of = problem()
    right = by_way("recentred", of)
    spoiled = right._replace(dbeta=np.where(np.arange(64) == 3, np.float32(np.nan), right.dbeta))
    found = errors(spoiled, setting(of, EPS).exact)
    assert np.isinf(found.dbeta).tolist() == (np.arange(64) == 3).tolist() and np.isfinite(found.dx).all()


def test_the_line_goes_with_the_scale_of_the_rows_and_of_the_gradient():
    of = problem("float64", 10.0)
    scaled = Problem(of.x * 2.0**12, of.gamma, of.beta, of.dy * 2.0**-3)
    for rule in (one_line(strict=False), one_line(strict=True)):
        small = rule.allowed(setting(of, EPS))
        large = rule.allowed(setting(scaled, EPS * 2.0**24))
        for one, other, power in zip(small, large, (-15, -3, -3), strict=True):
            assert other == pytest.approx(one * 2.0**power, rel=1e-12, abs=0)


def test_a_fixed_tolerance_lets_a_gradient_of_zero_pass_where_rows_are_large():
    of = problem(std=1e3)
    nothing = by_way("recentred", of)._replace(dx=np.zeros_like(of.x))
    assert not rejected("fixed_1e-2", nothing, of)
    assert rejected("one_line", nothing, of)


def test_the_part_of_the_mean_is_at_most_the_gradient_itself():
    """norm(c2 + c1*x_hat) <= norm(g), equal for g along 1 and x_hat; 16 is a tree's depth at 32768, and 1."""
    rng = np.random.default_rng(3)
    x_hat = rng.standard_normal((64, 100))
    x_hat = (x_hat - x_hat.mean(1, keepdims=True)) / x_hat.std(1, keepdims=True)
    for noise in (0.0, 1.0):
        g = 1.0 + 2.0 * x_hat + noise * rng.standard_normal(x_hat.shape)
        c1, c2 = g.mean(1, keepdims=True), (g * x_hat).mean(1, keepdims=True)
        ratio = np.linalg.norm(c2 + c1 * x_hat, axis=1) / np.linalg.norm(g, axis=1)
        assert ratio.max() <= 1 + 1e-12
        assert (ratio > 1 - 1e-12).all() == (noise == 0.0)
    assert np.log2(32768) + 1 == KAPPA_FACTOR


def test_the_page_for_those_who_check_gives_the_line():
    page = (ROOT / "docs" / "check-your-own.md").read_text(encoding="utf-8")
    line = f"({RESULT_FACTOR:g}*u + {KAPPA_FACTOR:g}*k*u_s) * rstd * norm(gamma*dy)"
    assert f"`norm(error) <= {line}`" in page


def test_a_fixed_rule_judges_elements_as_numpy_does():
    of = problem("float64")
    exact = setting(of, EPS).exact
    for size in (1e-6, 1e-4):
        found = Gradients(*(part.hi * (1 + size) for part in exact))
        close = all(np.allclose(a, b.hi) for a, b in zip(found, exact, strict=True))
        assert rejected("allclose", found, of) == (not close) == (size == 1e-4)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_the_defaults_of_torch_are_those_of_the_package(dtype):
    torch = pytest.importorskip("torch")
    at = setting(problem(dtype), EPS)
    rtol, atol = torch.testing._comparison.default_tolerances(getattr(torch, dtype))
    for found, exact in zip(RULES["assert_close"].allowed(at), at.exact, strict=True):
        assert np.array_equal(found, atol + rtol * np.abs(exact.hi))


def test_a_relative_rule_allows_a_multiple_of_the_plain_kernels_error_and_its_floor():
    at = setting(problem(), EPS)
    rule, plain = relative(2.0, 1e-3), [part.max() for part in at.plain]
    below = Gradients(*(np.full(4, 1.99 * most + 1e-3) for most in plain))
    allowed = rule.allowed(at)
    assert not rejects(rule, allowed, below)
    for number in range(3):
        above = below._replace(**{Gradients._fields[number]: np.array([0.0, 2.01 * plain[number] + 1e-3])})
        assert rejects(rule, allowed, above)


QUACK = {"float64": 4e-4, "float32": 4e-4, "float16": 4e-3, "bfloat16": 4e-2}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_the_rules_of_test_suites_have_the_numbers_that_stand_there(dtype):
    """`registry` names the files. quack does not test float64."""
    at, each = setting(problem(dtype), EPS), {name: RULES[name].allowed for name in RULES}
    for number, exact in enumerate(at.exact):
        tolerance = QUACK[dtype]
        np.testing.assert_allclose(each["quack"](at)[number], tolerance * (1 + np.abs(exact.hi)), rtol=1e-12)
        most = at.plain[number].max()
        assert each["twice_plain"](at)[number] == 2 * most + 1e-6
        assert each["flash_attention"](at)[number] == 4 * most + 1e-4


def test_errors_are_taken_from_both_parts_of_the_exact_gradient():
    exact = oracle.Gradients(*3 * [DoubleDouble(np.ones(1), np.full(1, 1e-17))])
    assert [float(part[0]) for part in errors(Gradients(*3 * [np.ones(1)]), exact)] == 3 * [1e-17]


@pytest.fixture
def judged():
    def run(**changed):
        table = experiment.run(**(SMALL | changed))
        return table[table["reason"] == ""].set_index(["rule", "property"])

    return run


def test_shares_are_counted_over_kernels_and_data_sets(judged):
    table = judged()
    alarms, killed = table.loc[("one_line", "false_alarms")], table.loc[("one_line", "killed")]
    assert (alarms["cases"], killed["cases"]) == (3 * 2, len(mutants.MUTANTS) + 1)
    assert table.loc[("one_line_strict", "plain_rejected"), "value"] == 1.0
    interval = binomtest(0, 6).proportion_ci(0.95)
    assert (alarms["value"], alarms["value_low"], alarms["value_high"]) == (0.0, 0.0, interval.high)
    assert (table["value_low"] <= table["value"]).all() and (table["value"] <= table["value_high"]).all()


@pytest.fixture
def planted(judged, monkeypatch):
    def run(factor):
        """Judged beside the rule "planted", which allows so many times the plain kernel's error."""
        for module in (registry, _trials, experiment):
            monkeypatch.setattr(module, "RULES", {"planted": relative(factor, 0.0)})
        return judged(defects=[])  # a negative variance gives NaN, which every rule rejects

    return run


def test_a_rule_that_rejects_only_some_of_what_can_be_fails(planted):
    table = planted(1e3)
    assert 0 < table.loc[("planted", "killed"), "value"] < table.loc[("ideal", "killed"), "value"]
    assert not table.loc[("planted", "killed"), "passed"]


@pytest.mark.parametrize(("factor", "alarm", "kill"), [(0.0, 1.0, 1.0), (1e30, 0.0, 0.0)])
def test_a_rule_that_rejects_all_or_nothing_fails(planted, factor, alarm, kill):
    table = planted(factor)
    assert table.loc[("planted", "false_alarms"), ["value", "passed"]].tolist() == [alarm, alarm == 0.0]
    assert table.loc[("planted", "killed"), ["value", "passed"]].tolist() == [kill, kill == 1.0]


def test_a_wider_margin_asks_for_fewer_kills(judged):
    narrow, wide = (judged(margin=margin).loc[("ideal", "killed"), "value"] for margin in (1.0, 1e4))
    assert narrow > wide > 0


def test_an_ideal_strict_rule_is_held_to_kernels_that_re_centre(judged):
    table = judged(margin=16.0)
    assert table.loc[("ideal_strict", "plain_rejected"), "value"] == 1.0
    assert table.loc[("ideal", "killed"), "value"] < table.loc[("ideal_strict", "killed"), "value"]


def test_rows_that_the_dtype_cannot_hold_are_named():
    table = experiment.run(**(SMALL | {"dtypes": ["float16"]}))
    assert set(table["reason"]) == {"float16 holds no rows of kappa 10000 and std 1"}
    assert table[["value", "passed"]].isna().all(axis=None)


@pytest.fixture
def newcomer(monkeypatch) -> str:
    """The name of a registered kernel that re-centres, and of which no power of kappa is entered."""
    kernel = replace(kernels.KERNELS["recentred"], name="newcomer")
    points = kernels._points() | {"newcomer": SimpleNamespace(load=lambda: kernel, value="theirs:NEWCOMER")}
    monkeypatch.setattr(kernels, "_points", lambda: points)
    return "newcomer"


def test_a_kernel_of_unknown_power_is_right_and_no_strict_rule_is_judged_by_it(judged, newcomer):
    before, after = judged(), judged(kernels=["recentred", newcomer])
    more = after["cases"] - before["cases"]
    loose = [name for name, rule in RULES.items() if not rule.strict]
    assert {key: count for key, count in more.items() if count} == {(n, "false_alarms"): 2 for n in loose}
    assert after.loc[("one_line", "false_alarms"), "value"] == 0.0
    strict = [name for name, rule in (RULES | {"ideal_strict": None}).items() if rule is None or rule.strict]
    pd.testing.assert_frame_equal(before.loc[strict], after.loc[strict])


@pytest.mark.parametrize(
    ("ways", "kernel", "lacking"), [("recentred", "recentred", "plain"), ("two_pass", "compact", "recentred")]
)
def test_right_kernels_of_one_kind_are_too_few(ways, kernel, lacking):
    with pytest.raises(ValueError, match=f"ways, kernels: none that is {lacking} in float32; allowed: one"):
        experiment.run(**(SMALL | {"ways": [ways], "kernels": [kernel]}))
