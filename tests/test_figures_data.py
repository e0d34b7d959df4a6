"""What a caption names is what is drawn: points, guides and intervals are read back from small tables."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from layernorm_backward.figures import (
    _panels,
    kernel_costs,
    maps_gpu,
    peers_cpu,
    scaling,
    spells,
    stores,
    timing_cpu,
    timing_gpu,
    timing_shapes,
    tolerance,
    traffic_cpu,
    variance,
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
    found = [(line, line.get_xydata()) for line in drawn]
    return [line for line, points in found if points.shape == wanted.shape and np.allclose(points, wanted)]


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
