"""What figures of a GPU name is what they draw: it is read back from small tables."""

import pandas as pd
import pytest

from figure_lines import lines, shown, table
from layernorm_backward.figures import _gpu, backward_error, backward_error_gpu, maps_gpu, style, timing_gpu


def times(**more) -> pd.DataFrame:
    """Rows of cuda_fused at 12 GB/s under a roof of 20."""
    rates = {"useful_gb_per_s": 12.0, "roof_gb_per_s": 20.0, "roof_operation": "triad", "method": "graph"}
    each = {"median_s": 1.0, "p20_s": 0.8, "p80_s": 1.25, "bytes": 12 * 10**9, "rows": 9}
    return table({"hidden": [1024, 1025, 2048], "kernel": "cuda_fused"}, **each | rates | more)


def test_times_on_a_gpu_are_those_with_gamma_in_the_dtype_of_x():
    rows, cold = _gpu.timed(times(gamma_dtype=["float32", "float16", "float32"]))
    assert (rows["hidden"].tolist(), cold) == ([1024, 2048], "")


@pytest.mark.parametrize(
    ("methods", "told"),
    [(["graph", "calls", "calls"], False), (["calls"] * 3, True)],
    ids=["some replayed", "none replayed"],
)
def test_only_a_kernel_that_was_never_replayed_is_told_as_launched_call_by_call(methods, told):
    note = timing_gpu.draw(times(method=methods)).get_supxlabel()
    assert ("Launched call by call, not replayed as a CUDA graph: cuda_fused." in note) == told


def test_a_line_joins_powers_of_two_alone():
    drawn = lines(timing_gpu.draw(times()))
    (joined,) = shown(drawn, [1024, 2048], [12, 12])
    (apart,) = shown(drawn, [1025], [12])
    assert (joined.get_linestyle(), apart.get_linestyle()) == ("-", "None")
    assert shown(drawn, [1024, 2048], [20, 20])


def tried(ratios: dict[int, tuple[float, float]], **more) -> pd.DataFrame:
    """The table's way at 0.5 of the roof, and by hidden size another of this ratio and its upper end."""
    other = {"hidden": list(ratios), "way": "wide", "table_ratio": [ratio for ratio, _ in ratios.values()]}
    wide = table(other, table_ratio_high=[high for _, high in ratios.values()])
    own = wide.assign(way="table", table_ratio=1.0, table_ratio_high=1.0)
    found = pd.concat([own, wide], ignore_index=True)
    keys = {"kernel": "cuda_fused", "rows": 9, "roof_gb_per_s": 20.0, "roof_operation": "triad"}
    return found.assign(roof_fraction=0.5 / found["table_ratio"], **keys | more)


@pytest.mark.parametrize(("high", "told"), [(0.97, True), (0.99, False)])
def test_a_way_is_named_only_where_the_upper_end_of_its_ratio_is_clearly_below_one(high, told):
    note = maps_gpu.draw(tried({1024: (0.9, high)})).get_supxlabel()
    assert ("backward float32 D = 1024: wide (0.90)" in note) == told


def test_the_fastest_ways_are_named_first_and_the_seventh_counted():
    ratios = {2**power: (0.5 + 0.05 * (power % 4) + 0.001 * power, 0.9) for power in range(6, 13)}
    note = maps_gpu.draw(tried(ratios)).get_supxlabel().replace("\n", " ")
    fastest = sorted(ratios, key=lambda size: ratios[size])
    places = [note.find(f"D = {size}:") for size in fastest]
    assert places[:6] == sorted(places[:6]) and places[0] > 0 and places[6] == -1
    assert "; and 1 more." in note


def test_the_way_of_the_table_is_marked_apart_from_the_others():
    drawn = lines(maps_gpu.draw(tried({1024: (0.8, 0.9), 2048: (1.25, 1.3)})))
    by_marker = {line.get_marker(): list(line.get_ydata()) for line in drawn if len(line.get_xdata())}
    own = style.look("cuda_fused").marker
    assert (by_marker[own], by_marker["."], by_marker["D"]) == ([0.5, 0.5], [0.625, 0.4], [0.625, 0.5])


def errors(**more) -> pd.DataFrame:
    """Two upstreams; kappa up to 1000 in float32, and to 1 alone in bfloat16."""
    cells = {"kappa": [1.0, 1e3, 1.0] * 2, "dtype": ["float32", "float32", "bfloat16"] * 2}
    keys = {"upstream": ["normal"] * 3 + ["shifted"] * 3, "hidden": 1024, "quantity": "dx"}
    values = {"error_u_max": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "bound_u": 90.0}
    return table(cells, **keys | values | more)


@pytest.mark.parametrize("drawn_by", [backward_error, backward_error_gpu])
def test_each_panel_of_errors_has_its_own_dtype_and_upstream_and_hatches_the_kappas_that_it_has_not(drawn_by):
    found = {}
    for panel in drawn_by.draw(errors()).axes:
        marked = [line for line in panel.get_lines() if line.get_marker() != "None"]
        found[tuple(marked[0].get_ydata())] = (len(marked), bool(panel.patches))
    assert found == {(2, 3): (1, False), (5, 6): (1, False), (4,): (1, True), (7,): (1, True)}


def test_a_panel_of_errors_on_a_gpu_is_titled_by_its_dtype_and_upstream():
    figure = backward_error_gpu.draw(errors())
    assert shown(lines(figure, f"float32, {style.UPSTREAM['shifted']}"), [1, 1e3], [5, 6])
    assert shown(lines(figure, f"bfloat16, {style.UPSTREAM['normal']}"), [1], [4])


@pytest.mark.parametrize("drawn_by", [backward_error, backward_error_gpu])
def test_errors_against_kappa_are_those_of_dx(drawn_by):
    both = pd.concat([errors(), errors(quantity="dgamma", error_u_max=50.0)], ignore_index=True)
    assert {y for line in lines(drawn_by.draw(both)) for y in line.get_ydata()} == {2, 3, 4, 5, 6, 7, 90}
