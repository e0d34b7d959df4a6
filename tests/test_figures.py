"""Every figure draws from small, one-row and unmeasured tables, with its labels and without overlap."""

import importlib
from functools import cache
from itertools import combinations, product

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward import figures
from layernorm_backward.__main__ import main
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.figures import roofline, style
from layernorm_backward.records import tables
from layernorm_backward.records.schemas import SCHEMAS

KERNELS = ["reference", "compact", "overcached", "recentred", "numba_fused", "someone_elses"]
ON_A_GPU = ["cuda_fused", "cuda_uncentred", "cuda_separate", "cupy_compact", "torch_eager", "torch_compile"]
ON_A_GPU += ["jax", "triton_tutorial", "liger", "quack"]
GPU = {"timing_gpu", "timing_gpu_grid", "backward_error_gpu", "traffic_gpu"}
KEYS: dict[str, list] = {
    "kernel": KERNELS,
    "algorithm": ["naive", "two_pass", "two_pass_corrected", "welford"],
    "derivation": ["projection", "chain_rule", "symbolic"],
    "method": ["central2", "central4", "complex_step"],
    "operation": ["triad", "multiply_add"],
    "direction": ["forward", "backward"],
    "dtype": ["float64", "bfloat16"],
    "gamma_dtype": ["float64", "bfloat16"],
    "accumulator": ["storage", "float32"],
    "data": ["ladder", "gaussian"],
    "upstream": ["normal", "correlated"],
    "saved": ["mean_float32", "mean_rstd_bfloat16", "first_element", "x_hat"],
    "forward": ["two_pass", "recentred"],
    "backward": ["as_saved", "recentred", "recentred_rstd"],
    "scheme": ["running", "pairwise", "compensated", "kernel:compact"],
    "placement": ["inside", "outside", "none", "stored"],
    "variance": [0.0, 1e-5, 1.0],
    "row_kind": ["usual", "constant"],
    "gamma_kind": ["uniform", "random"],
    "quantity": ["dx", "dgamma"],
    "scope": ["full"],
    "shape": ["2x4x8", "32x128x256"],
    "axis": ["rows", "hidden"],
    "threads": [1, 2],
    "step": [1e-9, 1e-5, 1e-2],
    "offset": [0.0, 10.0, 1e4],
    "kappa": [1.0, 1e3, 1e7],
    "spread": [0.0],
    "source": ["mean_path"],
    "property": ["kappa", "hidden"],
    "eps": [1e-12, 1e-5],
    "rows": [16, 256],
    "hidden": [64, 1024],
    "band": [0, 1, 2],
    "place": [0, 64, 2048],
    "bytes": [1 << 20],
    "seed": [0],
    "variant": ["default", "no_recentring", "sums_per_thread", "ordinary_stores"],
    "working_set": ["beyond_cache", "in_cache"],
    "then": ["nothing", "read"],
    "mutant": ["none", "gamma left out"],
    "check": ["torch_gradcheck_loss", "ours"],
    "setting": ["default"],
    "layer": [0, 1, 12],
    "rule": ["allclose", "one_line", "someone_elses"],
    "std": [1e-3, 1.0],
    "name": ["g"],
    "way": ["table", "128x4 rows 2", "64x8 ring"],
}
OWN = {
    ("mutation", "data"): ["normal uniform normal", "mixed random shifted"],
    ("representation", "data"): ["ladder", "integers", "gaussian"],
    ("representation", "upstream"): ["shifted", "correlated"],
    ("representation", "quantity"): ["dx", "variance"],
    ("scaling", "quantity"): ["time", "extra"],
    ("scaling_points", "dtype"): ["float64"],
    ("peers_cpu", "kernel"): ["numba_fused", "torch", "jax"],
    ("peers_cpu", "setting"): ["default", "tuned"],
    ("peers_cpu", "gamma_dtype"): ["float64"],
    ("kernel_costs", "dtype"): ["float32", "bfloat16"],
    ("mean_path", "algorithm"): ["naive", "two_pass", "recentred"],
    ("mean_path", "dtype"): ["float64", "float32", "float16"],
    ("mean_path", "upstream"): ["shifted"],
    ("slopes", "upstream"): ["shifted"],
    ("model_error", "upstream"): ["shifted"],
    ("summation", "dtype"): ["float32", "bfloat16"],
    ("summation", "upstream"): ["shifted", "ones"],
    ("summation", "quantity"): ["dgamma", "dbeta"],
    ("eps_placement", "dtype"): ["float32", "float16"],
    ("eps_placement", "upstream"): ["shifted", "aligned"],
    ("tolerance", "dtype"): ["float64", "float32", "float16", "bfloat16"],
    ("tolerance", "property"): ["false_alarms", "killed"],
    ("audit", "property"): ["y_error", "dx_error", "dx_slope", "edge_cases"],
    ("audit_peers", "property"): ["dx_error", "dx_slope", "edge_cases"],
    ("roof_steps", "step"): ["by_row", "read_twice", "gamma", "partial_sums", "pass"],
    ("roof_steps", "dtype"): ["float32"],
    ("stores", "dtype"): ["float32"],
    ("page_offset", "dtype"): ["float32"],
    ("traffic_steps", "kernel"): ["numba_fused", "separate", "fused", "compact"],
    ("traffic_steps", "step"): [1, 2],
    ("ceiling_gpu", "dtype"): ["float64", "float32"],
    ("ceiling_gpu", "threads"): [1],
    ("timing_gpu", "threads"): [1],
    ("timing_gpu", "hidden"): [64, 1024, 1025],
    ("timing_gpu", "method"): ["graph"],
    ("backward_error_gpu", "upstream"): ["shifted"],
    ("maps_gpu", "dtype"): ["float32", "bfloat16"],
}
for stem in ("timing_gpu", "backward_error_gpu", "traffic_gpu"):
    OWN[stem, "kernel"] = ON_A_GPU
    OWN[stem, "dtype"] = ["float32", "bfloat16"]
    OWN[stem, "gamma_dtype"] = ["float32", "bfloat16"]
WORDS = {"reason": "", "residency": "memory", "name": "g"}


def sample(stem: str) -> pd.DataFrame:
    """A table of its schema: every combination of a few keys, values over some powers of ten."""
    keys = SCHEMAS[stem].keys
    table = pd.DataFrame(
        list(product(*(OWN.get((stem, key), KEYS[key]) for key in keys))), columns=list(keys)
    )
    rng = np.random.default_rng(0)
    for name, kind in SCHEMAS[stem].values.items():
        if kind == "float":
            table[name] = 10 ** rng.uniform(-3, 1, len(table))
        elif name in KEYS:
            table[name] = rng.choice(OWN.get((stem, name), KEYS[name]), len(table))
        else:
            table[name] = {"str": WORDS.get(name, "word"), "int": 5, "bool": True}[kind]
    if stem == "traffic_steps":
        table = table.assign(reads=2.0, writes=1.0, cached=np.where(table["kernel"] == "fused", 1.0, 0.0))
    return table


def module(figure: str):
    return importlib.import_module(figures.module_name(figure))


def drawn(figure: str, *frames: pd.DataFrame) -> Figure:
    """The figure, laid out: every text has its final place."""
    with style.context():
        result = module(figure).draw(*frames)
        FigureCanvasAgg(result).draw()
    return result


@cache
def whole(figure: str) -> Figure:
    """The figure of its whole sample tables."""
    return drawn(figure, *map(sample, module(figure).TABLES))


@pytest.fixture(params=figures.FIGURES)
def full(request) -> tuple[str, Figure]:
    return request.param, whole(request.param)


def names_in(figure: Figure) -> set[str]:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    ticks = [text.get_text() for panel in figure.axes for text in panel.get_yticklabels()]
    return set(legends) | set(ticks)


def test_every_kernel_and_algorithm_of_the_table_is_named_in_the_figure(full):
    stem, figure = full
    chosen = {
        "fusion",
        "pipeline",
        "gradient_check",
        "derivation",
        "timing_cpu",
        "timing_gpu_grid",
        "spells",
        "roof_steps",
        "stores",
        "page_offset",
    }  # one kernel, or none, by what they show
    if stem in chosen:
        assert "compact" not in names_in(figure)
        return
    for name in module(stem).TABLES:
        column = next((c for c in ("kernel", "algorithm") if c in SCHEMAS[name].keys), None)
        if column:
            wanted = (
                {"cuda_fused"} if (stem, name) == ("roofline", "timing_gpu") else set(sample(name)[column])
            )
            assert wanted <= names_in(figure)


def test_figures_are_as_wide_as_the_text_and_fit_a_page(full):
    width, height = full[1].get_size_inches()
    assert width == style.TEXT_WIDTH
    assert height <= 8.5


def test_outer_axes_say_what_they_show(full):
    for panel in full[1].axes:
        spec = panel.get_subplotspec()
        names = any(text.get_text()[:1].isalpha() for text in panel.get_yticklabels())
        if panel.axison and spec.is_last_row():
            assert panel.get_xlabel()
        if panel.axison and spec.is_first_col():
            assert panel.get_ylabel() or names


def test_panels_have_letters_in_order(full):
    letters = [panel.get_title(loc="left") for panel in full[1].axes]
    assert letters == [f"({chr(97 + number)})" for number in range(len(letters))]


def texts(figure: Figure) -> list[tuple[str, matplotlib.transforms.Bbox]]:
    """Every visible text with its box, shrunk by half a pixel."""
    found = [text for panel in figure.axes for text in panel_texts(panel)]
    found += [text for legend in figure.legends for text in legend.get_texts()] + figure.texts
    found = [text for text in found if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent().padded(-0.5)) for text in found]


def panel_texts(panel: Axes) -> list[matplotlib.text.Text]:
    titles = [panel.title, panel._left_title]
    labels = [panel.xaxis.label, panel.yaxis.label]
    ticks = []
    for axis in (panel.xaxis, panel.yaxis):
        low, high = sorted(axis.get_view_interval())
        shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        ticks += [tick.label1 for tick in shown if tick.label1.get_visible()]
    return titles + labels + ticks if panel.axison else titles


def test_no_text_is_cut_or_lies_on_another(full):
    stem, figure = full
    assert_legible(figure, stem)


def assert_legible(figure: Figure, stem: str) -> None:
    page = figure.bbox.padded(1)
    boxes = texts(figure)
    for text, box in boxes:
        assert page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1), f"{stem}: {text!r} is cut"
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), f"{stem}: {one!r} lies on {other!r}"


@pytest.mark.parametrize("stem", ["timing_shapes", "scaling"])
def test_a_long_name_of_a_kernel_is_not_cut_in_the_legend(stem):
    renamed = {"someone_elses": "somebodys_fused_kernel_with_a_long_name"}
    frames = [sample(name).replace({"kernel": renamed}) for name in module(stem).TABLES]
    (legend,) = drawn(stem, *frames).legends
    assert legend.get_window_extent().width <= 1.05 * legend.figure.bbox.width


def test_names_of_dtypes_with_one_kernel_each_lie_apart():
    rows = sample("audit").query("kernel == 'compact' and dtype == 'bfloat16'")
    frames = [pd.concat([rows.assign(dtype=name) for name in DTYPE_NAMES])] * 2
    assert_legible(drawn("audit", *frames), "audit")


def test_eps_of_one_kernel_leaves_no_dtype_out():
    rows = sample("eps").query("kernel == 'compact'")
    rows["error_u_max"] = np.where(rows["dtype"] == "bfloat16", np.inf, 0.5)
    figure = drawn("eps", rows)
    shown = [panel.get_ylabel().partition(" ")[0] for panel in figure.axes if panel.get_ylabel()]
    assert (shown, figure.get_supxlabel()) == (["float64", "bfloat16"], "")


@pytest.mark.parametrize("stem", figures.FIGURES)
def test_a_table_of_one_row_is_drawn(stem):
    frames = [sample(name).iloc[:1] for name in module(stem).TABLES]
    assert isinstance(drawn(stem, *frames), Figure)


@pytest.mark.parametrize("stem", [stem for stem in figures.FIGURES if stem not in {"fusion", "pipeline"}])
def test_a_table_without_a_measured_row_says_why(stem):
    frames = [sample(name) for name in module(stem).TABLES]
    for frame in frames:
        frame["reason"] = "no such device"
    figure = drawn(stem, *frames)
    assert "not measured" in figure.texts[0].get_text()
    assert "no such device" in figure.texts[0].get_text()


def test_an_empty_table_says_so():
    for stem in ("fusion", "pipeline"):
        figure = drawn(stem, sample("traffic_steps").iloc[:0])
        assert "the table is empty" in figure.texts[0].get_text()


@pytest.mark.parametrize(
    ("stem", "kept", "blank"),
    [
        ("mean_path", "dtype == 'float32'", "ade"),
        ("mean_path", "dtype == 'float16'", "abcd"),
        ("mean_path", "quantity == 'dx'", "ac"),
        ("peers_cpu", "direction == 'forward' and threads == 1 and dtype == 'float64'", "b"),
        ("summation", "dtype == 'bfloat16'", "ab"),
        ("eps_placement", "dtype == 'float32'", "d"),
        ("scaling", "axis == 'rows'", "be"),
        ("saved_statistics", "dtype == 'bfloat16' or forward == 'recentred'", "c"),
        ("backward_error", "dtype == 'bfloat16' or upstream == 'normal'", "b"),
        ("backward_error_gpu", "dtype == 'bfloat16'", ""),
        ("roof_steps", "direction == 'forward' or threads == 2", "a"),
        ("maps_gpu", "direction == 'forward' or dtype == 'float32'", "b"),
        ("timing_gpu", "direction == 'forward' or dtype == 'float32'", "b"),
        ("traffic_gpu", "direction == 'forward' or dtype == 'float32'", "b"),
    ],
)
def test_a_panel_for_which_nothing_was_measured_says_so(stem, kept, blank):
    first, *others = map(sample, module(stem).TABLES)
    figure = drawn(stem, first.query(kept), *others)
    found = {panel._left_title.get_text() for panel in figure.axes if "not measured" in written(panel)}
    assert found - {"(f)", "(g)"} == {f"({letter})" for letter in blank}
    assert_legible(figure, stem)


def test_a_panel_of_slopes_that_were_not_fitted_says_so():
    rows, slopes = sample("mean_path"), sample("slopes")
    panels = drawn("mean_path", rows, slopes.assign(dtype="float64")).axes[-2:]
    assert ["not measured" in written(panel) for panel in panels] == [False, True]


def written(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts]


def test_unmeasured_rows_are_left_out():
    table = sample("backward_error")
    table.loc[table["kernel"] == "compact", "reason"] = "not built"
    assert "compact" not in names_in(drawn("backward_error", table))


def test_a_kernel_has_one_colour_in_all_figures():
    seen: dict[str, set[str]] = {}
    for stem in ("backward_error", "eps", "timing_shapes", "roofline", "scaling"):
        legend = whole(stem).legends[0]
        for text, drawing in zip(legend.get_texts(), legend.legend_handles, strict=True):
            if isinstance(drawing, Line2D):
                seen.setdefault(text.get_text(), set()).add(to_hex(drawing.get_color()))
    assert {len(seen[name]) for name in KERNELS} == {1}


def test_written_files_are_the_same_byte_for_byte(tmp_path):
    tables.write(sample("timing_cpu"), tmp_path / "timing_cpu.csv")
    for name in ("one", "two"):
        assert main(["figure", "saved_bytes", str(tmp_path), str(tmp_path / f"{name}.pdf")]) == 0
    for suffix in (".pdf", ".png"):
        written = (tmp_path / f"one{suffix}").read_bytes()
        assert len(written) > 1000
        assert written == (tmp_path / f"two{suffix}").read_bytes()


def test_the_roofline_takes_the_bytes_of_the_size_that_was_timed():
    """Stores go past the caches in large arrays only, so small ones have more bytes an element."""
    key = {"kernel": "numba_fused", "direction": "forward", "dtype": "float32", "hidden": 1024}
    timing = pd.DataFrame([key | {"rows": 1 << 18, "median_s": 1.0}])
    model = [(1 << 8, 12), (1 << 10, 12), (1 << 18, 8)]
    counted = key | {"operations_per_element": 9.0, "reason": ""}
    traffic = pd.DataFrame([counted | {"rows": n, "modelled_bytes": n * 1024.0 * each} for n, each in model])
    (point,) = roofline._points(timing, traffic).to_dict("records")
    assert point["intensity"] == 9 / 8


NO_DEVICE = "no CUDA device can be used: cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def unmeasured(stem: str, reason: str = NO_DEVICE) -> pd.DataFrame:
    """A table as it is where nothing could be measured: keys and reasons, and no numbers."""
    table = sample(stem)
    for name, kind in SCHEMAS[stem].values.items():
        table[name] = {"float": np.nan, "str": ""}.get(kind, pd.NA)
    return table.assign(reason=reason)


def said(figure: Figure) -> str:
    """What stands on a figure outside of its panels and legends, in one line."""
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


@pytest.mark.parametrize("stem", sorted(GPU))
def test_without_a_gpu_a_figure_says_so_and_shows_nothing_else(stem):
    figure = drawn(stem, *map(unmeasured, module(stem).TABLES))
    assert "not measured" in said(figure)
    assert NO_DEVICE in said(figure)
    assert not figure.axes
    assert_legible(figure, stem)


@pytest.mark.parametrize("stem", sorted(GPU))
def test_the_most_common_reason_is_said_first(stem):
    tables = [unmeasured(name) for name in module(stem).TABLES]
    for table in tables:
        table.loc[table.index[0], "reason"] = "not measured: time was up"
    told = said(drawn(stem, *tables))
    assert 0 < told.find(NO_DEVICE) < told.find("time was up")


@pytest.mark.parametrize("stem", sorted(GPU - {"timing_gpu_grid"}))
def test_a_kernel_that_was_nowhere_measured_is_named_with_its_reason(stem):
    (name,) = module(stem).TABLES
    table = sample(name)
    missing = table["kernel"].isin(["quack", "jax"])
    figure = drawn(stem, pd.concat([table[~missing], unmeasured(name, "not installed")[missing]]))
    assert "Not measured: jax, quack (not installed)." in said(figure)
    assert not {"quack", "jax"} & names_in(figure)
    assert_legible(figure, stem)


def test_the_roofline_without_a_gpu_is_that_of_the_cpu_and_a_note():
    frames = {name: sample(name) for name in roofline.TABLES}
    frames |= {name: unmeasured(name) for name in ("ceiling_gpu", "timing_gpu")}
    figure = drawn("roofline", *frames.values())
    assert said(figure) == f"No GPU was measured: {NO_DEVICE}."
    assert not {"cuda_fused", "roof of the GPU"} & names_in(figure)
    assert {"numba_fused", "roof of all threads"} <= names_in(figure)
    assert_legible(figure, "roofline")


def test_the_roofline_puts_ours_on_a_gpu_at_the_operations_of_ours_on_the_cpu():
    """float32, backward: 17 operations on 3 accesses of 4 bytes."""
    pass_ = {"direction": "backward", "dtype": "float32", "reason": ""}
    timed = {"kernel": "cuda_fused", "gamma_dtype": "float32", "residency": "memory", "median_s": 1e-3}
    sizes = [(1 << 17, 1024), (1 << 13, 1024), (1 << 20, 4096)]
    timing = pd.DataFrame([pass_ | timed | {"rows": n, "hidden": d, "bytes": 12 * n * d} for n, d in sizes])
    traffic = pd.DataFrame([pass_ | {"kernel": "numba_fused", "operations_per_element": 17.0}])
    (point,) = roofline._points_gpu(timing, traffic).to_dict("records")
    assert point["intensity"] == pytest.approx(17 / 12)
    assert point["gflop_per_s"] == pytest.approx(17 * (1 << 27) / 1e-3 / 1e9)


def test_bandwidth_is_that_of_the_usual_working_set_beyond_the_cache():
    cell = {"kernel": "cuda_fused", "direction": "backward", "dtype": "float32", "gamma_dtype": "float32"}
    cell |= {"reason": "", "method": "graph", "residency": "memory"}
    cell |= {"roof_gb_per_s": 2000.0, "roof_operation": "triad"}
    shapes = [(1 << 17, 1024, 1.0), (1 << 15, 4096, 1.0), (1 << 13, 4096, 9.0), (1 << 13, 16384, 1.0)]
    shapes += [(1 << 18, 1024, 9.0)]
    table = pd.DataFrame(
        [cell | {"rows": n, "hidden": d, "bytes": 12 * n * d, "median_s": s * 1e-3} for n, d, s in shapes]
    )
    table = table.assign(p20_s=table["median_s"], p80_s=table["median_s"], useful_gb_per_s=1600.0)
    cold = table.assign(hidden=64, residency="cold", median_s=1.0)
    curve = bandwidths(drawn("timing_gpu", pd.concat([table, cold], ignore_index=True)))
    assert curve == {1024: pytest.approx(1610.6, 1e-4), 4096: pytest.approx(1610.6, 1e-4), 16384: curve[1024]}
    only_cold = drawn("timing_gpu", cold)
    assert "filled with other data" in said(only_cold)
    assert set(bandwidths(only_cold)) == {64}


def bandwidths(figure: Figure) -> dict[float, float]:
    """The points of the first kernel drawn."""
    points = figure.axes[0].containers[0][0]
    return dict(zip(points.get_xdata(), points.get_ydata(), strict=True))


def test_a_grid_names_the_fastest_peer_and_hatches_what_is_missing():
    keys = ("kernel", "rows", "hidden", "ours_ratio")
    cells = [(1, 64, 0.5, 2.0), (1, 256, 1.5, 1.25), (64, 64, 1.1, 1.05)]
    rows = [("cuda_fused", n, d, 1.0) for n, d, *_ in cells]
    rows += [("liger", n, d, one) for n, d, one, _ in cells] + [
        ("quack", n, d, two) for n, d, _, two in cells
    ]
    rows += [("cuda_separate", 1, 64, 0.1)]
    table = pd.DataFrame(rows, columns=keys).assign(
        direction="backward", dtype="float32", gamma_dtype="float32", residency="cold", roof_fraction=0.5
    )
    figure = drawn("timing_gpu_grid", table.assign(reason=""))
    written = [text.get_text() for text in figure.axes[1].texts]
    assert written == ["0.50*", "1.25*", "1.05*"]
    assert {"liger", "quack"} <= names_in(figure)
    for panel in figure.axes:
        assert sum(patch.get_hatch() is not None for patch in panel.patches) == 1


def test_what_ours_is_written_to_move_is_shown_where_no_bytes_were_counted():
    table = sample("traffic_gpu")
    ours = table["kernel"] == "cuda_fused"
    table = table.assign(measured_bytes=np.nan, reason="ncu is not installed")
    figure = drawn("traffic_gpu", table.assign(modelled_bytes=table["modelled_bytes"].where(ours)))
    assert "Bytes were not measured: ncu is not installed." in said(figure)
    assert names_in(figure) & {*ON_A_GPU, "model"} == {"cuda_fused", "model"}
    assert_legible(figure, "traffic_gpu")


@pytest.mark.parametrize("stream", [True, False])
def test_where_stores_never_change_no_change_is_drawn(stream):
    table = sample("stores").assign(stream=stream, bytes=pd.array([1 << 20] * len(sample("stores")), "Int64"))
    lines = [line for panel in drawn("stores", table).axes for line in panel.get_lines()]
    assert not [line for line in lines if line.get_linestyle() == ":"]


def test_a_change_of_stores_is_drawn_half_way_between_two_sizes_on_the_logarithmic_axis():
    table = sample("stores")
    table = pd.concat(
        [table.assign(bytes=size, stream=stream) for size, stream in ((10**6, False), (10**8, True))]
    ).astype({"bytes": "Int64", "stream": "boolean"})
    lines = [line for panel in drawn("stores", table).axes for line in panel.get_lines()]
    upright = [list(line.get_xdata()) for line in lines if list(line.get_ydata()) == [0, 1]]
    assert upright and all(places == pytest.approx([10, 10]) for places in upright)


def test_near_and_far_cores_show_the_rate_of_the_pass_below_that_of_its_roof_without_the_mixed_band():
    table = sample("handover").assign(residency="memory", roof_gb_per_s=80.0, roof_fraction=0.75)
    table["latency_ns"] = table["band"].map({0: 100.0, 1: 40.0, 2: 160.0})
    rates = drawn("handover", table).axes[0]
    marked = [line for line in rates.lines if line.get_marker() != "None"]
    seen = {(x, y) for line in marked for x, y in zip(*line.get_data(), strict=True)}
    assert seen == {(40.0, 80.0), (40.0, 60.0), (160.0, 80.0), (160.0, 60.0)}


def test_near_and_far_cores_are_parted_by_a_line_between_ticks_and_no_marker_is_cut():
    table = sample("handover").assign(residency="memory", roof_gb_per_s=32.0, roof_fraction=0.9)
    for column, ends in (
        ("latency_ns", {0: 143.0, 1: 119.0, 2: 147.0}),
        ("latency_from_ns", {0: np.nan, 1: 0.0, 2: 120.0}),
        ("latency_below_ns", {0: np.nan, 1: 120.0, 2: np.inf}),
    ):
        table[column] = table["band"].map(ends)
    figure = drawn("handover", table)
    for panel in figure.axes:
        low, high = panel.get_xlim()
        assert sum(low <= tick <= high for tick in panel.get_xticks()) >= 3
        assert [line.get_xdata() for line in panel.lines if line.get_linestyle() == "--"] == [[120, 120]]
    assert figure.axes[0].get_ylim()[1] > 1.04 * 32


def test_near_and_far_cores_without_a_row_beyond_the_cache_are_drawn_and_its_panels_say_so():
    figure = drawn("handover", sample("handover").assign(residency="cache"))
    assert ["not measured" in written(panel) for panel in figure.axes] == [True, True, False]
    assert_legible(figure, "handover")
