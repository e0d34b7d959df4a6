"""What a caption names is what is drawn: points, guides and intervals are read back from small tables."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from layernorm_backward.figures import (
    _panels,
    audit,
    backward_error,
    derivation,
    eps,
    eps_placement,
    gradient_check,
    kernel_costs,
    maps_gpu,
    mean_path,
    model,
    mutation,
    page_offset,
    peers_cpu,
    representation,
    roof_steps,
    saved_bytes,
    saved_statistics,
    scaling,
    spells,
    stores,
    style,
    summation,
    timing_cpu,
    timing_gpu,
    timing_shapes,
    tolerance,
    traffic_cpu,
    traffic_gpu,
    variance,
    variance_time,
)

CELL = {
    "kernel": "numba_fused",
    "direction": "backward",
    "dtype": "float32",
    "gamma_dtype": "float32",
    "residency": "memory",
    "threads": 2,
    "reason": "",
}


def table(columns: dict, **more) -> pd.DataFrame:
    """Rows of one cell, or of what is given in its place."""
    return pd.DataFrame(CELL | columns | more)


def lines(figure: Figure, *titles: str) -> list:
    """All lines of the panels with these titles, or of all panels."""
    return [line for it in figure.axes if not titles or it.get_title() in titles for line in it.get_lines()]


def is_open(line) -> bool:
    return line.get_markerfacecolor() in ("none", "white")


def shown(drawn: list, x: list, y: list) -> list:
    """The lines through exactly these points."""
    wanted = np.column_stack([x, y]).astype(float)
    alike = [line for line in drawn if line.get_xydata().shape == wanted.shape]
    return [line for line in alike if np.allclose(line.get_xydata(), wanted, atol=0)]


def growth() -> Figure:
    sizes = {"rows": [10, 100, 1000], "hidden": 64, "axis": "rows"}
    points = table(sizes, median_s=[1.0, 2.0, 4.0], extra_bytes=[1e6, 3e6, 9e6], peak_bytes=7e6)
    exponents = {"quantity": ["time", "extra"] * 2, "direction": ["backward"] * 2 + ["forward"] * 2}
    fits = table(
        exponents, axis="rows", points=3, exponent=[0.5, 0.75, 2.0, 3.0], exponent_low=0.1, exponent_high=4.0
    )
    return scaling.draw(points, fits)


@pytest.mark.parametrize("values", [[1, 2, 4], [1, 3, 9]], ids=["time", "extra memory in MB"])
def test_growth_is_that_of_the_time_and_of_the_extra_memory(values):
    assert shown(lines(growth()), [10, 100, 1000], values)


def test_fitted_lines_have_the_exponents_of_the_backward_pass():
    fitted = [line.get_xydata() for line in lines(growth()) if line.get_marker() == "None"]
    slopes = [np.diff(np.log(points[[0, -1]]), axis=0)[0] for points in fitted if len(points) == 3]
    assert [float(y / x) for x, y in slopes] == pytest.approx([0.5, 0.75])


@pytest.mark.parametrize(("threads", "goal", "floor"), [(2, 0.95, 0.88), (1, 0.90, 0.75)])
def test_each_panel_has_the_goal_and_the_floor_of_its_threads(threads, goal, floor):
    sizes = {"hidden": [256, 1024] * 2, "shape": ["8x256", "8x1024"] * 2, "threads": [2, 2, 1, 1]}
    found = table(sizes, roof_fraction=0.8, roof_fraction_low=0.7, roof_fraction_high=0.9)
    drawn = lines(timing_cpu.draw(found), f"backward, {threads} thread{'s' * (threads > 1)}")
    levels = {y[0] for y in (line.get_ydata() for line in drawn) if len(y) == 2 and y[0] == y[1]}
    assert {1, goal, floor} <= levels and not levels & ({0.95, 0.90} - {goal})


@pytest.mark.parametrize(("residency", "fractions"), [("memory", [0.6, 0.7]), ("cache", [0.8, 0.9])])
def test_points_in_the_cache_are_open_and_dotted(residency, fractions):
    sizes = {"hidden": [256, 1024] * 2, "shape": list("abcd"), "residency": ["memory"] * 2 + ["cache"] * 2}
    values = [0.6, 0.7, 0.8, 0.9]
    found = table(sizes, roof_fraction=values, roof_fraction_low=values, roof_fraction_high=values)
    (line,) = shown(lines(timing_cpu.draw(found)), [256, 1024], fractions)
    assert (is_open(line), line.get_linestyle()) == ((True, ":") if residency == "cache" else (False, "-"))


def fractions(sizes: list, low: float = 0.7, high: float = 0.9, **more) -> Figure:
    """timing_cpu of arrays beyond the cache with these D."""
    found = {"hidden": sizes, "shape": [f"8x{size}" for size in sizes]}
    return timing_cpu.draw(
        table(found, roof_fraction=0.8, roof_fraction_low=low, roof_fraction_high=high, **more)
    )


def test_neighbours_of_a_power_of_two_stand_aside_from_it_on_their_own_side():
    marked = [line for line in lines(fractions([768, 1023, 1024, 1025])) if line.get_marker() != "None"]
    places = sorted(float(x) for line in marked for x in line.get_xdata())
    assert list(np.log2(places)) == pytest.approx([np.log2(768), 9.67, 10, 10.33])


def test_intervals_of_the_fraction_of_the_roof_stay_in_the_frame():
    assert fractions([256, 1024], high=1.5).axes[0].get_ylim()[1] > 1.5


def test_floors_lie_above_the_curves():
    drawn = lines(fractions([256, 1024]))
    (floor,) = [line for line in drawn if list(line.get_ydata()) == [0.88, 0.88]]
    assert all(floor.get_zorder() > line.get_zorder() for line in drawn if line.get_marker() != "None")


@pytest.mark.parametrize(("roof", "slowdowns"), [(False, [1.5, 2.5]), (True, [1.1, 1.3])])
def test_slowdowns_of_the_kernel_are_filled_and_those_of_the_roof_open(roof, slowdowns):
    slower = {"update_slowdown": [1.0, 2.0], "kernel_slowdown": [1.5, 2.5], "roof_slowdown": [1.1, 1.3]}
    fractions = {"roof_fraction": [0.8, 0.7], "roof_fraction_low": 0.6, "roof_fraction_high": 0.9}
    (line,) = shown(lines(spells.draw(table(slower | fractions, hidden=64, band=[1, 2]))), [1, 2], slowdowns)
    assert is_open(line) is roof


def test_sizes_of_a_pass_are_in_millions_of_bytes():
    sizes = {"bytes": [5_000_000, 50_000_000], "then": "read", "hidden": 1024, "stream": True}
    found = table(sizes, ratio=[0.8, 1.2], ratio_low=0.7, ratio_high=1.3)
    assert shown(lines(stores.draw(found)), [5, 50], [0.8, 1.2])


def test_the_cell_with_most_row_lengths_is_drawn_by_row_length():
    rows = {"hidden": [64, 256, 1024, 64], "direction": ["backward"] * 3 + ["forward"], "rows": 9}
    peer = {"kernel": "torch", "setting": "tuned"}
    found = table(rows | peer, ours_ratio=[2.0, 3.0, 4.0, 5.0], ours_ratio_low=1.0, ours_ratio_high=9.0)
    assert shown(lines(peers_cpu.draw(found)), [64, 256, 1024], [2, 3, 4])


def costs() -> list:
    variants = {"variant": ["one", "two"], "working_set": "in_cache", "hidden": 1024, "stream": False}
    values = {"cost": [0.1, 0.2], "cost_low": [0.05, 0.1], "cost_high": 0.3, "differs": [True, False]}
    return [
        line for line in lines(kernel_costs.draw(table(variants | values))) if line.get_marker() != "None"
    ]


@pytest.mark.parametrize(("opened", "per_cent"), [(False, {10}), (True, {10, 20})])
def test_costs_are_in_per_cent_and_filled_where_they_differ(opened, per_cent):
    places = [x for line in costs() if is_open(line) is opened for x in line.get_xdata()]
    assert set(np.round(places, 9)) == per_cent


def test_bandwidth_on_a_gpu_lies_between_its_quantiles():
    times = {"kernel": "cuda_fused", "median_s": [1.0, 1.0], "p20_s": 0.8, "p80_s": 1.25, "method": "graph"}
    sizes = {"bytes": 12 * 10**9, "rows": 10**9 // 1024, "hidden": [1024, 2048], "useful_gb_per_s": 12.0}
    figure = timing_gpu.draw(table(times | sizes, roof_gb_per_s=20.0, roof_operation="triad"))
    ends = [bar for drawn in figure.axes[0].containers for part in drawn[2] for bar in part.get_segments()]
    assert {tuple(np.round(end[:, 1], 9)) for end in ends} == {(9.6, 15.0)}


@pytest.mark.parametrize(
    ("streamed", "told"),
    [
        ([False, False], ""),
        ([False, True], "In 1 of 2 cells in the last-level cache the default too stores its result past the"),
    ],
)
def test_it_is_said_where_the_default_in_the_cache_has_the_plan_for_beyond_it(streamed, told):
    cells = {"variant": ["default", "one"] * 2, "hidden": [256, 256, 1024, 1024], "working_set": "in_cache"}
    values = {"cost": 0.1, "cost_low": 0.05, "cost_high": 0.3, "differs": True}
    found = table(cells | values, stream=np.repeat(streamed, 2))
    beyond = found.assign(working_set="beyond_cache", residency="memory", stream=True)
    figure = kernel_costs.draw(pd.concat([beyond, found.assign(residency="cache")], ignore_index=True))
    assert figure.get_supxlabel().startswith(told) and bool(figure.get_supxlabel()) == bool(told)


@pytest.mark.parametrize("drawn_by", [timing_gpu, maps_gpu])
def test_it_is_said_which_copy_was_the_roof_of_how_many_cells(drawn_by):
    times = {"median_s": 1.0, "p20_s": 0.8, "p80_s": 1.25, "method": "graph", "useful_gb_per_s": 12.0}
    sizes = {"rows": 9, "hidden": [64, 256, 1024], "bytes": 12 * 10**9}
    fraction = {"roof_fraction": 0.6, "table_ratio": 1.0, "table_ratio_high": 1.0, "way": "table"}
    passes = [
        table(sizes | {"roof_operation": ["triad"] * 3}),
        table(sizes | {"roof_operation": ["copy_runtime", "copy", "copy"]}, direction="forward"),
    ]
    found = pd.concat([*passes, passes[1]], ignore_index=True).assign(**times | fraction, roof_gb_per_s=20.0)
    told = drawn_by.draw(found.assign(kernel="cuda_fused")).get_supxlabel()
    assert told == "The roof, by number of cells: backward, triad (3); forward, copy (2), copy_runtime (1)."


def test_a_kernels_bytes_are_those_at_the_row_length_nearest_to_1024():
    sizes = {"rows": 1000, "hidden": [64, 1024], "measured_bytes": [np.nan, np.nan]}
    unit = 1000 * np.array([64, 1024]) * 4
    drawn = lines(traffic_cpu.draw(table(sizes, minimum_bytes=3 * unit, modelled_bytes=unit * [4, 5])))
    assert shown(drawn, [5], [0]) and not shown(drawn, [4], [0])


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


@pytest.mark.parametrize("quantity", ["time", "extra"])
def test_exponents_of_one_quantity_alone_are_drawn(quantity):
    points = table({"rows": [10, 100]}, hidden=64, axis="rows", median_s=[1.0, 2.0], extra_bytes=1e6)
    fit = {"quantity": [quantity], "points": 2, "exponent": 1.5}
    fits = table(fit, axis="rows", exponent_low=1.4, exponent_high=1.6)
    assert shown(lines(scaling.draw(points, fits)), [1.5], [0])


@pytest.mark.parametrize(("ends", "ringed"), [((1.2, 1.8), True), ((0.9, 1.8), False), ((0.2, 0.9), True)])
def test_an_exponent_is_ringed_where_its_interval_leaves_one_out(ends, ringed):
    points = table({"rows": [10, 100]}, hidden=64, axis="rows", median_s=[1.0, 2.0], extra_bytes=1e6)
    low, high = ends
    fit = {"quantity": ["time", "extra"], "points": 2, "exponent": sum(ends) / 2}
    fits = table(fit, axis="rows", exponent_low=low, exponent_high=high)
    assert any(line.get_markersize() == 7 for line in lines(scaling.draw(points, fits))) == ringed


def test_a_rule_is_shown_by_its_share_of_all_cases_and_fails_at_any_scale():
    shares = {"std": [1e-3, 1.0], "value": [0.0, 1.0], "cases": [90, 10], "passed": [True, False]}
    (panel,) = tolerance.draw(table(shares, rule="allclose", property="killed", kappa=1.0)).axes
    assert [text.get_text() for text in panel.texts] == ["10"]
    (passed,) = tolerance.draw(table(shares, rule="a", property="killed", kappa=1.0, passed=True)).axes
    assert panel.patches[0].get_facecolor() != passed.patches[0].get_facecolor()


@pytest.mark.parametrize(
    ("backward", "told"), [("cache", "1\u00d78\u00d764*"), ("memory", "1\u00d78\u00d764")]
)
def test_an_asterisk_marks_a_shape_that_is_in_the_cache_in_both_directions(backward, told):
    both = {"direction": ["forward", "backward"], "residency": ["cache", backward]}
    times = {f"{part}_s": 1e-3 for part in ("median", "p20", "p80")}
    fractions = {f"roof_fraction{end}": 0.5 for end in ("", "_low", "_high")}
    figure = timing_shapes.draw(table(both, shape="1x8x64", rows=8, hidden=64, **times, **fractions))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [told]


@pytest.mark.parametrize(("high", "bars"), [(0.5, 0), (float("nan"), 0), (0.6, 1)])
def test_an_interval_without_length_draws_no_bar_which_might_set_the_limits_of_an_axis(high, bars):
    panel = Figure().subplots()
    _panels.intervals(panel, [0.5], [1.0], [0.5], [high], across=True)
    assert len(panel.collections) == bars and len(panel.lines) == 1


def test_of_each_kernel_and_cell_the_row_of_most_threads_is_taken():
    assert timing_cpu.most_threads(table({"threads": [1, 4, 2]}, shape="1x8x64"))["threads"].tolist() == [4]


def test_the_nearest_size_is_that_of_the_smallest_ratio_and_of_two_the_smaller():
    assert _panels.nearest([512, 1800], 1024) == 1800
    assert _panels.nearest([2048, 512], 1024) == 512


def test_the_default_has_no_line_of_its_own_among_the_costs_of_its_decisions():
    variants = {"variant": ["default", "one"], "working_set": "in_cache", "hidden": 1024, "stream": False}
    values = {"cost": 0.1, "cost_low": 0.05, "cost_high": 0.3, "differs": True}
    panel = kernel_costs.draw(table(variants | values, residency="cache")).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["one"]


def test_a_numerical_gradient_is_shown_by_its_largest_error_over_every_element_and_its_predicted_step():
    steps = {"step": [1e-6, 1e-6, 1e-3, 1e-3], "rel_error": [1e-9, 1e-8, 1e-7, 0.9]}
    scopes = {"scope": ["full"] * 3 + ["rows"], "kernel": "reference", "quantity": "dx", "shape": "1x8x64"}
    drawn = lines(gradient_check.draw(table(steps | scopes, method="central2")))
    assert shown(drawn, [1e-6, 1e-3], [1e-8, 1e-7])
    (best,) = [line.get_xdata() for line in drawn if line.get_linewidth() == 2]
    assert best == pytest.approx([2.0 ** (-53 / 3)] * 2)


def test_growth_is_that_of_the_backward_pass_through_its_longest_times():
    sizes = {"rows": [10, 100, 1000], "hidden": 64, "axis": "rows", "extra_bytes": 1e6}
    points = table(sizes, median_s=[9.0, 2.0, 20.0])
    fit = table({"quantity": ["time"]}, axis="rows", points=3, exponent=1.0)
    forward = points.assign(direction="forward", median_s=[5.0, 6.0, 7.0])
    figure = scaling.draw(pd.concat([forward, points]), fit.assign(exponent_low=0.9, exponent_high=1.1))
    drawn = lines(figure)
    assert shown(drawn, [10, 100, 1000], [9, 2, 20]) and shown(drawn, [10, 100, 1000], [0.2, 2, 20])


def test_the_mixed_band_of_a_spell_is_not_drawn():
    slower = {"update_slowdown": [1.5, 1.0, 2.0], "kernel_slowdown": 1.5, "roof_slowdown": 1.1}
    values = {"roof_fraction": [0.1, 0.8, 0.7], "roof_fraction_low": 0.1, "roof_fraction_high": 0.9}
    assert shown(lines(spells.draw(table(slower | values, hidden=64, band=[0, 1, 2]))), [1, 2], [0.8, 0.7])


def test_a_pass_alone_and_with_its_result_read_next_have_lines_of_their_own():
    cells = {"bytes": [5_000_000, 50_000_000] * 2, "then": ["read", "read", "nothing", "nothing"]}
    ratios = {"ratio": [0.8, 1.2, 0.9, 1.4], "ratio_low": 0.7, "ratio_high": 1.5}
    drawn = lines(stores.draw(table(cells | ratios, hidden=1024, stream=True)))
    for ratios, opened in (([0.8, 1.2], False), ([0.9, 1.4], True)):
        (line,) = shown(drawn, [5, 50], ratios)
        assert is_open(line) is opened


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


def offsets(**more) -> Figure:
    places = {"place": [0, 64], "ratio": [1.5, 1.2], "ratio_low": 1.1, "ratio_high": 1.6, "hidden": 1024}
    roofs = {"roof_ratio": [1.3, 1.05], "roof_ratio_low": 1.0, "roof_ratio_high": 1.4}
    return page_offset.draw(table(places | roofs | more))


@pytest.mark.parametrize(("values", "opened"), [([1.5, 1.2], False), ([1.3, 1.05], True)])
def test_times_against_the_page_offset_are_filled_for_the_kernel_and_open_for_its_roof(values, opened):
    figure = offsets()
    (line,) = [line for line in lines(figure) if list(line.get_ydata()) == values]
    (key,) = [it for it in figure.legends[0].legend_handles if is_open(it) is opened]
    assert is_open(line) is opened
    assert key.get_label() == ("its roof, 2 threads" if opened else "numba_fused, 2 threads")


def test_one_thread_and_all_threads_have_colours_of_their_own():
    one, two = ({line.get_color() for line in lines(offsets(threads=count))} for count in (1, 2))
    assert {page_offset.LOOKS["ratio", False].colour} <= one - two
    assert {page_offset.LOOKS["ratio", True].colour} <= two - one


def test_the_steps_of_the_roof_are_those_beyond_the_cache():
    steps = {"step": "pass", "hidden": [256, 1024] * 2, "residency": ["cache"] * 2 + ["memory"] * 2}
    values = {"roof_fraction": [0.1, 0.2, 0.8, 0.9], "roof_fraction_low": 0.1, "roof_fraction_high": 0.9}
    drawn = lines(roof_steps.draw(table(steps | values)))
    assert shown(drawn, [256, 1024], [0.8, 0.9])


def test_saved_bytes_are_those_beside_x_and_gamma_and_all_over_those_of_x():
    sizes = {"rows": 8, "hidden": 64, "shape": "1x8x64", "saved_bytes": [3 * 8 * 64 * 4]}
    (panel,) = saved_bytes.draw(table(sizes, saved_extra_bytes=8 * 64 * 4)).axes
    assert [(bar.get_x(), bar.get_width()) for bar in panel.patches] == [(0, 1), (1, 2)]
    assert [text.get_text() for text in panel.texts] == [" 1 / 3"]


def test_counted_bytes_are_shown_where_a_kernel_was_counted_at_another_row_length():
    sizes = {"rows": 1000, "hidden": [256, 1024], "measured_bytes": [3.5 * 256_000 * 4, np.nan]}
    unit = 1000 * np.array([256, 1024]) * 4
    drawn = lines(traffic_cpu.draw(table(sizes, minimum_bytes=3 * unit, modelled_bytes=unit * [4, 5])))
    assert shown(drawn, [3.5], [0]) and shown(drawn, [4], [0]) and not shown(drawn, [5], [0])


def test_bytes_on_a_gpu_are_over_the_fewest_and_uncounted_cells_are_told():
    cells = {"kernel": "cuda_fused", "hidden": [256, 1024, 4096], "reason": ["", "", "no counter"], "rows": 9}
    counts = {"measured_bytes": [3.0, 3.6, np.nan], "modelled_bytes": 3.3, "minimum_bytes": 3.0}
    figure = traffic_gpu.draw(table(cells | counts))
    ratios = [y for line in lines(figure) for y in line.get_ydata() if line.get_marker() != "None"]
    assert sorted(ratios) == pytest.approx([1.0, 1.1, 1.1, 1.1, 1.2])
    assert "Cells not counted: 1 of 3, " in figure.get_supxlabel()


def test_rows_that_a_dtype_does_not_represent_have_no_error_of_the_variance():
    rows = {"algorithm": "naive", "data": "gaussian", "accumulator": "storage", "bound": np.nan}
    errors = {"kappa": [1.0, 10.0, 100.0], "rel_error_max": [1e-3, 1e-2, 1e-1]}
    drawn = lines(variance.draw(table(rows | errors, hidden=1024, representable=[True, True, False])))
    assert shown(drawn, [1, 10], [1e-3, 1e-2])


def test_times_of_the_variance_are_apart_by_the_dtype_of_the_sums():
    times = {"algorithm": "naive", "accumulator": ["storage", "float32"], "dtype": "bfloat16", "hidden": 1024}
    ratios = {
        "two_pass_ratio": [0.5, 0.7],
        "two_pass_ratio_low": [0.5, 0.7],
        "two_pass_ratio_high": [0.5, 0.7],
    }
    figure = variance_time.draw(table(times | ratios))
    points = {
        panel.get_title(): [
            x for line in panel.get_lines() if line.get_marker() != "None" for x in line.get_xdata()
        ]
        for panel in figure.axes
    }
    assert points == {"bfloat16, sums bfloat16": [0.5], "bfloat16, sums float32": [0.7]}


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


def gpu_times(**more) -> pd.DataFrame:
    times = {"median_s": 1.0, "p20_s": 0.8, "p80_s": 1.25, "bytes": 12 * 10**9, "rows": 9, "hidden": 1024}
    rates = {"useful_gb_per_s": 12.0, "roof_gb_per_s": 20.0, "roof_operation": "triad"}
    return table({"kernel": ["cuda_fused", "liger"]}, **times | rates | more)


def test_kernels_that_were_launched_call_by_call_are_told():
    told = timing_gpu.draw(gpu_times(method=["graph", "calls"])).get_supxlabel()
    assert "Launched call by call, not replayed as a CUDA graph: liger." in told


def test_the_fastest_way_to_lay_threads_over_rows_is_marked():
    ways = {"way": ["table", "wide", "slow"], "roof_fraction": [0.8, 0.9, 0.5], "kernel": "cuda_fused"}
    ratios = {"table_ratio": [1.0, 0.9, 1.6], "table_ratio_high": [1.0, 0.95, 1.7], "hidden": 1024, "rows": 9}
    figure = maps_gpu.draw(table(ways | ratios, roof_gb_per_s=20.0, roof_operation="triad"))
    (fastest,) = [line for line in lines(figure) if line.get_marker() == "D"]
    assert fastest.get_ydata().tolist() == [0.9]


def test_shapes_of_the_article_are_timed_with_the_fewest_threads():
    times = {f"{part}_s": [1e-3, 5e-4] for part in ("median", "p20", "p80")}
    fractions = {f"roof_fraction{end}": [0.5, 0.6] for end in ("", "_low", "_high")}
    cells = table(times | fractions, threads=[1, 2], shape="1x8x64", rows=8, hidden=64)
    drawn = lines(timing_shapes.draw(cells))
    values = {x for line in drawn if line.get_marker() != "None" for x in line.get_xdata()}
    assert sorted(values) == pytest.approx([0.5, 1e6 / 512])


def test_a_figure_tells_in_what_it_differs_from_its_caption_and_shows_fewest_and_most_threads():
    rows = table({"threads": [1, 2, 4]}, dtype="float64")
    wanted = {"dtype": "float32", "direction": "backward"}
    assert _panels.others(_panels.centre(rows, wanted), wanted) == "Shown here: dtype float64."
    assert [_panels.fewest_and_most(counts) for counts in ([4, 1, 2], [2])] == [[1, 4], [2]]
