"""What a caption names is what is drawn: points, guides and intervals are read back from small tables."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from figure_lines import is_open, lines, shown, table
from layernorm_backward.figures import (
    _panels,
    audit,
    backward_error,
    derivation,
    eps,
    eps_placement,
    gradient_check,
    mean_path,
    model,
    mutation,
    representation,
    saved_statistics,
    style,
    summation,
    tolerance,
    variance,
)


@pytest.mark.parametrize(("accumulator", "u"), [("float32", 2.0**-24), ("storage", 2.0**-8)])
def test_the_guides_of_the_variance_start_at_u_of_the_sums(accumulator, u):
    rows = {"algorithm": "naive", "dtype": "bfloat16", "data": "gaussian", "representable": True}
    found = table(rows | {"kappa": [1.0, 1e4]}, hidden=1024, rel_error_max=1e-3, bound=1e-2)
    dotted = [
        it for it in lines(variance.draw(found.assign(accumulator=accumulator))) if it.get_linestyle() == ":"
    ]
    assert [it.get_ydata()[0] for it in dotted] == pytest.approx([u, u])


def test_errors_far_below_u_and_overflows_are_drawn_on_the_edges():
    rows = {"algorithm": "naive", "data": "gaussian", "representable": True, "accumulator": "storage"}
    errors = {"kappa": [1.0, 10.0, 100.0], "rel_error_max": [0.0, 1e-3, np.inf]}
    drawn = lines(variance.draw(table(rows | errors, hidden=1024, bound=np.nan)))
    (lowest,) = (it.get_ydata()[0] for it in drawn if it.get_ydata()[1:].tolist() == [1e-3])
    assert lowest == 2.0**-24 / 100
    assert shown(drawn, [100], [1e2])


def test_a_rule_is_shown_by_its_share_of_all_cases_and_fails_at_any_scale():
    shares = {"std": [1e-3, 1.0], "value": [0.0, 1.0], "cases": [90, 10], "passed": [True, False]}
    (panel,) = tolerance.draw(table(shares, rule="allclose", property="killed", kappa=1.0)).axes
    assert [text.get_text() for text in panel.texts] == ["10"]
    (passed,) = tolerance.draw(table(shares, rule="a", property="killed", kappa=1.0, passed=True)).axes
    assert panel.patches[0].get_facecolor() != passed.patches[0].get_facecolor()


@pytest.mark.parametrize(("high", "bars"), [(0.5, 0), (float("nan"), 0), (0.6, 1)])
def test_an_interval_without_length_draws_no_bar_which_might_set_the_limits_of_an_axis(high, bars):
    panel = Figure().subplots()
    _panels.intervals(panel, [0.5], [1.0], [0.5], [high], across=True)
    assert len(panel.collections) == bars and len(panel.lines) == 1


def test_the_nearest_size_is_that_of_the_smallest_ratio_and_of_two_the_smaller():
    assert _panels.nearest([512, 1800], 1024) == 1800
    assert _panels.nearest([2048, 512], 1024) == 512


def test_a_numerical_gradient_is_shown_by_its_largest_error_over_every_element_and_its_predicted_step():
    steps = {"step": [1e-6, 1e-6, 1e-3, 1e-3], "rel_error": [1e-9, 1e-8, 1e-7, 0.9]}
    scopes = {"scope": ["full"] * 3 + ["rows"], "kernel": "reference", "quantity": "dx", "shape": "1x8x64"}
    drawn = lines(gradient_check.draw(table(steps | scopes, method="central2")))
    assert shown(drawn, [1e-6, 1e-3], [1e-8, 1e-7])
    (best,) = [line.get_xdata() for line in drawn if line.get_linewidth() == 2]
    assert best == pytest.approx([2.0 ** (-53 / 3)] * 2)


def sums() -> list:
    sizes = {"rows": [100, 10_000], "rel_error_median": [1e-6, 1e-4], "computed_share_median": [1.0, 0.5]}
    keys = {"scheme": "running", "quantity": "dbeta", "upstream": "shifted", "bound": 1e-2}
    kept = pd.concat([table(sizes | keys, dtype=dtype) for dtype in ("float32", "bfloat16")])
    wide = kept.assign(accumulator="float32", rel_error_median=1e-7)
    return lines(summation.draw(pd.concat([kept.assign(accumulator="storage"), wide], ignore_index=True)))


@pytest.mark.parametrize(
    "values", [[1e-6, 1e-4], [2e-6, 2e-5], [100, 5000]], ids=["sums in the dtype", "sqrt(N)", "computed sum"]
)
def test_sums_over_rows_are_drawn_with_the_growth_of_sqrt_n_and_what_they_come_to(values):
    assert shown(sums(), [100, 10_000], values)


def test_errors_of_a_pass_are_marked_and_its_identity_is_solid_and_its_bound_dashed():
    rows = {"kappa": [1.0, 1e3], "error_u_max": [1.0, 90.0], "identity_u_max": [2.0, 95.0]}
    keys = {"algorithm": "two_pass", "quantity": "dx", "data": "gaussian", "accumulator": "storage"}
    own = table(rows | keys, hidden=1024, bound_u=[3.0, 99.0], upstream="shifted")
    fits = {"kernel": "two_pass", "quantity": "dx", "property": "kappa", "accumulator": "storage"}
    fit = table(fits | {"source": ["mean_path", "variance"], "value": [1.1, 1.7]}, upstream="shifted")
    found = pd.concat([own, own.assign(upstream="normal", error_u_max=7.0)], ignore_index=True)
    figure = mean_path.draw(found, fit.assign(value_low=1.0, value_high=1.8))
    drawn = lines(figure, "$dx$, float32")
    styles = {"None": [1.0, 90.0], "-": [2.0, 95.0], "--": [3.0, 99.0]}
    for drawn_by, values in styles.items():
        (line,) = shown(drawn, [1, 1e3], values)
        assert line.get_linestyle() == drawn_by
    guides = [
        line.get_xydata() for line in drawn if line.get_linestyle() == ":" and len(line.get_xdata()) > 2
    ]
    powers = [np.diff(np.log(at[[0, -1]]), axis=0)[0] for at in guides]
    assert [round(float(y / x), 6) for x, y in powers] == [1, 2, 0]
    assert [x for line in lines(figure, "float32") for x in line.get_xdata() if x % 1] == [1.1]


def faults(**more) -> list:
    found = {"mutant": ["none", "a", "b", "c"], "caught": [False, True, False, False]}
    errors = {"rel_error": [0.0, 1.0, 1.0, 1e-16], "caught_draws": [0, 2, 0, 0]}
    data = {"check": "ours", "data": "normal uniform normal", "setting": "default"}
    panel = mutation.draw(table(found | errors | data | more)).axes[0]
    looks = {name: style.look(name).point["marker"] for name in ("caught", "missed", "no fault here")}
    return [
        name
        for height in range(3)
        for line in panel.get_lines()
        for name, marker in looks.items()
        if line.get_marker() == marker and height in line.get_ydata()
    ]


@pytest.mark.parametrize("data", ["normal uniform normal", "normal uniform own"])
def test_a_fault_is_missed_only_where_it_changes_the_gradients(data):
    assert faults(data=data) == ["caught", "missed", "no fault here"]


def test_a_check_that_fails_the_correct_kernel_in_one_draw_is_hatched():
    assert faults(caught_draws=1) == []


def saved_errors() -> pd.DataFrame:
    errors = {
        "saved": ["mean_float32", "mean_rstd_bfloat16", "mean_float32"],
        "dx_error_u_max": [2.0, 9.0, 5.0],
    }
    passes = {"forward": "recentred", "backward": ["recentred", "recentred", "recentred_rstd"]}
    cells = [table(errors | passes, kappa=kappa, hidden=1024, upstream="shifted") for kappa in (1.0, 1e3)]
    return pd.concat(cells, ignore_index=True)


def test_what_is_saved_is_shown_with_rstd_in_full_and_with_rstd_corrected():
    figure = saved_statistics.draw(saved_errors())
    values = [line.get_ydata().tolist() for line in lines(figure) if line.get_marker() != "None"]
    assert sorted(values) == [[2.0, 2.0], [5.0, 5.0]]


@pytest.mark.parametrize(
    ("share", "told"), [(0.0, "0"), (0.001, "1"), (0.5, "50"), (0.999, "99"), (1.0, "100")]
)
def test_nearly_none_and_nearly_all_are_not_printed_as_none_and_all(share, told):
    found = table({"value": [share]}, rule="allclose", property="killed", kappa=1.0, cases=9, passed=True)
    assert [text.get_text() for text in tolerance.draw(found).axes[0].texts] == [told]


def test_rows_that_a_dtype_does_not_represent_have_no_error_of_the_variance():
    rows = {"algorithm": "naive", "data": "gaussian", "accumulator": "storage", "bound": np.nan}
    errors = {"kappa": [1.0, 10.0, 100.0], "rel_error_max": [1e-3, 1e-2, 1e-1]}
    drawn = lines(variance.draw(table(rows | errors, hidden=1024, representable=[True, True, False])))
    assert shown(drawn, [1, 10], [1e-3, 1e-2])


def test_errors_against_eps_are_those_of_dx_and_the_largest_that_is_not_drawn_is_told():
    cells = {"eps": [1e-12, 1e-5] * 4, "row_kind": "usual", "quantity": ["dx"] * 6 + ["dgamma"] * 2}
    names = {"kernel": ["compact", "compact"] * 2 + ["recentred"] * 2 + ["compact"] * 2}
    kinds = {"dtype": ["float32"] * 2 + ["float64"] * 4 + ["float32"] * 2}
    figure = eps.draw(table(cells | names | kinds, error_u_max=[2.0, 3.0, 0.5, 0.7, 0.5, 0.7, 9.0, 9.0]))
    assert shown(lines(figure), [1e-12, 1e-5], [2, 3]) and not shown(lines(figure), [1e-12, 1e-5], [0.5, 0.7])
    assert figure.get_supxlabel() == (
        "Not drawn: float64, where all kernels coincide; the largest error there is 0.7 u."
    )


def placed() -> Figure:
    rows = {"variance": [0.0, 1.0] * 2, "placement": ["inside"] * 2 + ["outside"] * 2, "upstream": "shifted"}
    values = {"dx_change": [0.9, 0.1, 0.8, 0.2], "dx_from_inside": [0.3, 0.4, 0.5, 0.6]}
    return eps_placement.draw(table(rows | values, dx_gain=[7.0, 8.0, 9.0, 10.0], eps=1e-5))


@pytest.mark.parametrize(
    ("panel", "values"),
    [(0, [[0.9, 0.1]]), (1, [[0.3, 0.4], [0.5, 0.6]]), (2, [[7, 8], [9, 10]])],
    ids=["change by eps, inside", "change against inside", "size of dx"],
)
def test_each_panel_shows_what_its_title_says_of_eps_and_a_variance_of_zero_on_the_left_edge(panel, values):
    found = [line for line in placed().axes[panel].get_lines() if len(line.get_xdata()) == 2]
    curves = [line for line in found if line.get_marker() != "None"]
    assert [line.get_ydata().tolist() for line in curves] == values
    assert all(line.get_xdata().tolist() == [1e-14, 1.0] for line in curves)


def test_derivations_are_open_for_uniform_gamma_and_proved_where_one_proof_succeeded():
    kinds = {"gamma_kind": ["uniform", "random"], "rel_error": [1e-15, 1e-3], "proved": [True, False]}
    figure = derivation.draw(table(kinds, derivation="projection", quantity="dx"))
    (uniform,) = [line for line in lines(figure) if line.get_xdata().tolist() == [1e-15]]
    (random,) = [line for line in lines(figure) if line.get_xdata().tolist() == [1e-3]]
    assert (is_open(uniform), is_open(random)) == (True, False)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["projection (proved)"]


def test_the_bound_of_a_kernel_is_dashed_and_its_error_is_marked():
    errors = {"kappa": [1.0, 1e3], "error_u_max": [1.0, 2.0], "bound_u": [5.0, 6.0]}
    drawn = lines(backward_error.draw(table(errors, quantity="dx", hidden=1024, upstream="shifted")))
    (bound,), (error,) = shown(drawn, [1, 1e3], [5, 6]), shown(drawn, [1, 1e3], [1, 2])
    assert (bound.get_linestyle(), error.get_marker() != "None") == ("--", True)


def test_an_audit_is_shown_by_its_errors_powers_and_edge_cases_that_fail():
    names = {"property": ["dx_error", "dx_kappa", "dx_slope", "edge_cases", "edge_nan_row"]}
    values = {"value": [3.0, 1e6, 0.5, 2.0, 70.0], "limit": 8.0, "passed": True, "value_low": 0.4}
    found = table(names | values, value_high=0.6)
    error, power, failed = audit.draw(found, found.iloc[:0]).axes
    assert shown(error.get_lines(), [3], [0]) and shown(power.get_lines(), [0.5], [0])
    assert [bar.get_width() for bar in failed.patches] == [2.0]


def encoder() -> list:
    """Panels of one layer normalization with its rows as they are and moved."""
    quantiles = {"offset_q05": [0.02], "offset_median": 0.1, "offset_q95": 0.3, "offset_max": 0.5, "layer": 0}
    errors = {"offset": [0.0, 10.0, 1e4], "dx_error_u_max": [2.0, 3.0, 4.0], "bound_u": [5.0, 6.0, 7.0]}
    keys = {"algorithm": "two_pass", "layer": 0, "upstream": "shifted", "accumulator": "storage"}
    return model.draw(table(quantiles, upstream="shifted", hidden=64), table(errors | keys)).axes


def test_rows_of_an_encoder_are_shown_from_5_to_95_per_cent():
    (bars,) = encoder()[0].collections
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[0.02, 0.3]]


def test_rows_as_they_are_stand_at_their_median_offset_and_alone_in_the_panels_by_layer():
    _, moved, *each = encoder()
    assert shown(moved.get_lines(), [0.1, 10, 1e4], [2, 3, 4])
    assert shown(moved.get_lines(), [0.1, 10, 1e4], [5, 6, 7])
    assert [[line.get_ydata().tolist() for line in panel.get_lines()] for panel in each] == [[[2.0]], [[2.0]]]


def test_what_an_algorithm_adds_is_that_of_the_widest_sums_and_bold_where_it_exceeds_the_rounding():
    cells = {"offset": [1.0, 10.0] * 2, "accumulator": ["storage"] * 2 + ["float32"] * 2, "quantity": "dx"}
    errors = {"error_max": [1.0, 1.0, 0.1, 0.1], "representation_error": [1e-3, 0.5] * 2}
    keys = {"dtype": "bfloat16", "data": "gaussian", "algorithm": "naive", "upstream": "shifted"}
    keys["representable"] = True
    (panel,) = representation.draw(table(cells | errors | keys, distinct_values=5.0)).axes
    assert panel.get_title() == "bfloat16, sums in float32"
    told = [(text.get_text(), text.get_fontweight()) for text in panel.texts]
    added = [("\N{MINUS SIGN}1", "bold"), ("\N{MINUS SIGN}1", "normal")]
    assert told == [("\N{MINUS SIGN}3", "normal"), ("0", "normal"), *added]


def test_a_figure_tells_in_what_it_differs_from_its_caption_and_shows_fewest_and_most_threads():
    rows = table({"threads": [1, 2, 4]}, dtype="float64")
    wanted = {"dtype": "float32", "direction": "backward"}
    assert _panels.others(_panels.centre(rows, wanted), wanted) == "Shown here: dtype float64."
    assert [_panels.fewest_and_most(counts) for counts in ([4, 1, 2], [2])] == [[1, 4], [2]]
