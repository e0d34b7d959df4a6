"""The style tells names apart in colour, in grey, and wherever it is used from."""

import matplotlib
import pandas as pd
import pytest
from matplotlib.figure import Figure

from figure_lines import is_open, lines
from layernorm_backward.figures import peers_cpu, style

GROUPS = {
    "kernels": ["reference", "compact", "overcached", "recentred", "numba_fused"],
    "kernels on a GPU": [
        *("cuda_fused", "cuda_uncentred", "cuda_separate", "cupy_compact"),
        *("torch_eager", "torch_compile", "jax", "triton_tutorial", "liger", "quack"),
    ],
    "algorithms": [
        *("naive", "naive_s2", "naive_nn", "naive_compensated"),
        *("two_pass", "two_pass_corrected", "welford", "chan", "shifted"),
    ],
    "methods": ["central2", "central4", "central6", "richardson", "complex_step"],
    "quantities": ["y", "dx", "dgamma", "dbeta"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_names_that_meet_in_a_figure_differ_in_colour_and_without_it(group):
    looks = [style.LOOKS[name] for name in GROUPS[group]]
    assert len({look.colour for look in looks}) == len(looks)
    assert len({(look.marker, look.fill, look.line) for look in looks}) == len(looks)


def test_a_name_that_the_style_does_not_know_keeps_its_look():
    assert style.look("someone_elses") == style.look("someone_elses")
    assert style.look("someone_elses") not in style.LOOKS.values()


OTHERS = ["my_norm", "my_norm2", "my_numba", "my_torch", *(f"norm_{number}" for number in range(12))]


def test_names_that_the_style_does_not_know_differ_in_a_figure_and_are_the_same_in_its_next_drawing():
    drawn = []
    for _ in range(2):
        with style.context():
            drawn.append([style.look(name) for name in [*OTHERS, *OTHERS]])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == len(OTHERS) and not set(drawn[0]) & set(style.LOOKS.values())


def test_the_peers_at_their_best_are_joined_by_the_lines_of_the_legend():
    rows = pd.DataFrame({"kernel": ["torch"] * 3 + ["jax"] * 3, "hidden": [256, 1024, 4096] * 2})
    rows = rows.assign(setting="tuned", ours_ratio=2.0, ours_ratio_low=1.5, ours_ratio_high=2.5)
    panel = Figure().subplots()
    peers_cpu.by_length(panel, rows)
    joined = {line.get_color(): line.get_linestyle() for line in panel.lines if line.get_marker() != "None"}
    for name in ("torch", "jax"):
        (legend,) = panel.plot([], [], **style.look(name).curve)
        assert joined[legend.get_color()] == legend.get_linestyle() != "None"


def test_row_lengths_are_those_beyond_the_cache_and_cells_in_it_tell_their_rows():
    cell = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 2}
    sizes = [(9000, 256, "memory"), (8, 768, "cache"), (64, 768, "cache"), (99, 1024, "cache")]
    rows = pd.DataFrame([{"rows": n, "hidden": d, "residency": where} for n, d, where in sizes])
    rows = rows.assign(kernel="torch", setting="tuned", reason="", **cell)
    rows = rows.assign(ours_ratio=2.0, ours_ratio_low=1.5, ours_ratio_high=2.5)
    left, right = peers_cpu.draw(rows).axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["256"]
    assert [label.get_text() for label in right.get_yticklabels()] == [
        f"backward, float32, $N = {n}$, $D = {d}$, all threads*" for n, d, _ in sizes[1:]
    ]


def test_what_is_as_it_comes_is_open_and_ours_is_where_it_allocates():
    as_they_come = [("torch", "default"), ("jax", "default"), ("numba_fused", "allocating")]
    at_their_best = [("torch", "tuned"), ("jax", "reuse"), ("numba_fused", "default")]
    rows = pd.DataFrame([*as_they_come, *at_their_best], columns=["kernel", "setting"])
    rows = rows.assign(hidden=1024, ours_ratio=2.0, ours_ratio_low=1.5, ours_ratio_high=2.5)
    panel = Figure().subplots()
    peers_cpu.by_length(panel, rows)
    drawn = [line for line in panel.lines if line.get_marker() not in ("None", "_", "|")]
    found = sorted((line.get_xdata()[0], line.get_markerfacecolor() == "white") for line in drawn)
    assert found == [(1024, False)] * 3 + [(1024 * peers_cpu.BESIDE, True)] * 3


def test_times_over_ours_are_drawn_with_their_intervals_along_the_axis_that_says_so():
    rows = pd.DataFrame({"kernel": "torch", "setting": "tuned", "hidden": [256, 1024], "dtype": "float32"})
    rows = rows.assign(ours_ratio=[2.0, 3.0], ours_ratio_low=[1.5, 2.5], ours_ratio_high=[2.25, 3.75])
    rows = rows.assign(direction="backward", gamma_dtype="float32", threads=1, residency="memory", rows=9)
    for draw, along in ((peers_cpu.by_length, 1), (peers_cpu.by_cell, 0)):
        panel = Figure().subplots()
        draw(panel, rows)
        (points, _, (bars,)) = panel.containers[0]
        assert points.get_xydata()[:, along].tolist() == [2, 3] and points.get_linestyle() == "None"
        ends = [bar[:, along].tolist() for bar in bars.get_segments()]
        assert ends == [[1.5, 2.25], [2.5, 3.75]]
        assert (panel.get_xlabel(), panel.get_ylabel())[along] == "time / ours"
        (one,) = [line for line in panel.lines if len(line.get_xydata()) == 2 and line.get_marker() == "None"]
        assert set(one.get_xydata()[:, along]) == {1}


def test_a_peer_that_copies_its_results_is_in_no_panel():
    rows = pd.DataFrame({"kernel": "torch", "setting": ["tuned", "out"] * 2, "hidden": [64, 64, 256, 256]})
    rows = rows.assign(ours_ratio=[2.0, 7.0, 3.0, 8.0], ours_ratio_low=1.0, ours_ratio_high=9.0, reason="")
    cell = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 1, "rows": 9}
    drawn = lines(peers_cpu.draw(rows.assign(residency="memory", **cell)))
    ratios = {y for line in drawn if line.get_marker() == "o" for y in line.get_ydata()}
    assert ratios == {2, 3}


def test_the_legend_of_the_peers_has_an_open_marker_for_default_settings():
    cell = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 1, "rows": 9}
    rows = pd.DataFrame({"kernel": "torch", "setting": "tuned", "hidden": [64, 256], "reason": ""})
    rows = rows.assign(ours_ratio=2.0, ours_ratio_low=1.0, ours_ratio_high=9.0, residency="memory", **cell)
    (legend,) = peers_cpu.draw(rows).legends
    opened = {key.get_label(): is_open(key) for key in legend.legend_handles}
    assert (opened["default settings"], opened["at its best"]) == (True, False)


def test_names_come_in_the_order_of_the_style_and_unknown_ones_last():
    assert style.ordered(["zebra", "numba_fused", "ant", "compact", "compact"]) == [
        *("compact", "numba_fused"),
        *("ant", "zebra"),
    ]


def test_the_users_own_settings_do_not_show_and_come_back():
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        with style.context():
            assert matplotlib.rcParams["font.size"] == 8.5
            assert matplotlib.rcParams["axes.facecolor"] == "white"
        assert matplotlib.rcParams["font.size"] == 31


@pytest.mark.parametrize("suffix", [".pdf", ".png"])
def test_files_hold_no_date(suffix):
    assert set(style.metadata(suffix).values()) == {None}
