"""What a caption of times or bytes names is what is drawn: it is read back from small tables."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from figure_lines import is_open, lines, shown, table
from layernorm_backward.figures import (
    kernel_costs,
    maps_gpu,
    page_offset,
    peers_cpu,
    roof_steps,
    roofline,
    saved_bytes,
    scaling,
    spells,
    stores,
    timing_cpu,
    timing_gpu,
    timing_gpu_grid,
    timing_shapes,
    traffic_cpu,
    traffic_gpu,
    variance_time,
)


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


@pytest.mark.parametrize(
    ("backward", "told"), [("cache", "1\u00d78\u00d764*"), ("memory", "1\u00d78\u00d764")]
)
def test_an_asterisk_marks_a_shape_that_is_in_the_cache_in_both_directions(backward, told):
    both = {"direction": ["forward", "backward"], "residency": ["cache", backward]}
    times = {f"{part}_s": 1e-3 for part in ("median", "p20", "p80")}
    fractions = {f"roof_fraction{end}": 0.5 for end in ("", "_low", "_high")}
    figure = timing_shapes.draw(table(both, shape="1x8x64", rows=8, hidden=64, **times, **fractions))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [told]


def test_of_each_kernel_and_cell_the_row_of_most_threads_is_taken():
    assert timing_cpu.most_threads(table({"threads": [1, 4, 2]}, shape="1x8x64"))["threads"].tolist() == [4]


def test_the_default_has_no_line_of_its_own_among_the_costs_of_its_decisions():
    variants = {"variant": ["default", "one"], "working_set": "in_cache", "hidden": 1024, "stream": False}
    values = {"cost": 0.1, "cost_low": 0.05, "cost_high": 0.3, "differs": True}
    panel = kernel_costs.draw(table(variants | values, residency="cache")).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["one"]


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


def a_roofline() -> Figure:
    """float64 and bfloat16, on the CPU and a GPU: the roofs of float64 on the CPU are twice as high."""
    none = np.nan
    roofs = {"bytes": [9e8, 9e8, 1e6, none, none], "threads": [2, 1, 2, 2, 1]}
    roofs |= {"gb_per_s": [20.0, 10.0, 90.0, none, none], "gflop_per_s": [none, none, none, 80.0, 50.0]}
    narrow = table(roofs, dtype="bfloat16")
    wide = narrow.assign(
        dtype="float64", gb_per_s=2 * narrow["gb_per_s"], gflop_per_s=2 * narrow["gflop_per_s"]
    )
    shapes = {"rows": [1 << 16, 1 << 10, 1 << 18, 1 << 18], "hidden": [4096, 1024, 1024, 1024]}
    times = table(shapes, threads=[2, 2, 1, 2], median_s=[9.0, 7.0, 5.0, 2.0], shape=list("abcc"))
    bytes_ = 12.0 * times["rows"] * times["hidden"]
    model = times.assign(operations_per_element=17.0, modelled_bytes=bytes_).drop_duplicates("shape")
    gpu = {"bytes": [9e9, 1e6, none, none], "gb_per_s": [4e3, 9e3, none, none]}
    gpu |= {"gflop_per_s": [none, none, 3e4, 6e4], "dtype": ["float16", "float16", "float64", "float32"]}
    timed = table(
        {"rows": [1 << 18], "hidden": 1024, "bytes": 12 << 28, "kernel": "cuda_fused"}, median_s=1e-3
    )
    both = [
        pd.concat([it.assign(dtype=name) for name in ("float64", "bfloat16")]) for it in (times, model, timed)
    ]
    both = [it.assign(gamma_dtype=it["dtype"]) for it in both]
    return roofline.draw(pd.concat([wide, narrow]), both[0], both[1], table(gpu), both[2])


@pytest.mark.parametrize(("panel", "high", "peak"), [(0, 2, 3e4), (1, 1, 6e4)])
def test_roofs_are_those_of_the_largest_arrays_and_of_the_dtype_on_the_cpu_and_a_gpu(panel, high, peak):
    drawn = [line for line in a_roofline().axes[panel].lines if line.get_marker() == "None"]
    roofs = {}
    for line in drawn:
        x, y = line.get_data()
        roofs[line.get_linestyle()] = (float(y[0] / x[0]), float(y.max()))
    expected = {"-": (20 * high, 80 * high), "--": (10 * high, 50 * high), ":": (4e3, peak)}
    assert roofs == {name: pytest.approx(ends) for name, ends in expected.items()}


def test_a_kernel_stands_at_its_largest_shape_nearest_to_1024_with_most_threads():
    (point, *_) = [line for line in a_roofline().axes[0].lines if line.get_marker() != "None"]
    assert point.get_xydata().tolist() == [[pytest.approx(17 / 12), pytest.approx(17 * 2**28 / 2 / 1e9)]]


def test_the_legend_of_the_roofs_has_their_lines():
    keys = {key.get_label(): key.get_linestyle() for key in a_roofline().legends[0].legend_handles}
    found = {name: line for name, line in keys.items() if name.startswith("roof")}
    assert found == {"roof of all threads": "-", "roof of one thread": "--", "roof of the GPU": ":"}


def test_a_grid_is_of_the_backward_pass_in_float32_and_blue_where_ours_is_faster():
    cells = {
        "direction": ["forward", "backward", "backward"],
        "gamma_dtype": ["float32", "float32", "float16"],
    }
    ours = table(cells, kernel="cuda_fused", rows=9, hidden=64, roof_fraction=[0.9, 0.5, 0.7], ours_ratio=1.0)
    peers = ours.assign(kernel="liger", ours_ratio=2.0)
    figure = timing_gpu_grid.draw(pd.concat([ours, peers]))
    assert [text.get_text() for panel in figure.axes for text in panel.texts] == ["0.50", "2.00"]
    assert to_hex(figure.axes[1].patches[0].get_facecolor()).upper() == "#0072B2"


def test_bytes_that_were_counted_are_markers_and_those_of_the_model_bars():
    counts = {
        "hidden": [256, 1024],
        "measured_bytes": [3.0, 3.6],
        "modelled_bytes": 3.3,
        "minimum_bytes": 3.0,
    }
    drawn = lines(traffic_gpu.draw(table(counts, kernel="cuda_fused", rows=9)))
    bars = [y for line in drawn if line.get_marker() == "_" for y in line.get_ydata()]
    assert bars == pytest.approx([1.1, 1.1])
