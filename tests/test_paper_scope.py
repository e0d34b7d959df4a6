"""What the paper's text measures is told with its scope: which kernels, which dy, which dtype, which rows."""

import re
from types import SimpleNamespace

import pytest
import yaml

from layernorm_backward.paper.context import constant
from layernorm_backward.paper.render import environment
from test_paper_machine import MACROS, TEMPLATE, Numbers
from workspace import ROOT

TEXT = " ".join(TEMPLATE.split())


def clause(name: str) -> str:
    """What stands before the last place of a number, from the beginning of its sentence on."""
    before = TEXT[: TEXT.rindex(f"<< n.{name} >>")]
    return re.split(r"(?<=[.:;)])\s+(?=[A-Z])", before)[-1]


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("edge_passed", "All six kernels"),
        ("recentred_dx_float32_worst", 'In float32 at $D = << c("1024").tex >>$'),
        ("mean_path_naive_small", r"$dy \sim N(1,1)$"),
        ("mean_path_naive_outlier", r"$dy \sim N(1,1)$"),
        ("mean_path_recentred_bfloat16", r"$dy \sim N(1,1)$"),
        ("mean_path_kappa_g_plain", "in float64"),
        ("model_error_correlated", "in float32"),
        ("gpu_error_eager", 'At $D = << c("1024").tex >>$'),
        ("gpu_triad_persistent", "In float32, on the largest arrays"),
    ],
)
def test_a_number_stands_behind_its_scope(name, scope):
    assert scope in clause(name)


def test_rows_of_16_bits_on_which_two_pass_is_harmless_are_named():
    assert "<< n.representation_two_pass_half >> at most on Gaussian rows and rows of integers" in TEXT


def test_what_the_interval_of_an_exponent_takes_for_granted_is_told_where_methods_are():
    method = TEXT[TEXT.index("# Method {") : TEXT.index("# Results {")]
    assert "The interval takes the points' distances from a straight line as independent and alike" in method


@pytest.mark.parametrize(("cells", "said"), [(2, "table `timing_cpu` (forward"), (4, "(the first of them:")])
def test_all_cells_above_their_roof_are_not_called_the_first(cells, said):
    cell = {"kernel": "numba_fused", "roof_fraction": 1.1, "roof_fraction_low": 1, "roof_fraction_high": 2}
    rows = [cell | {"direction": "forward", "dtype": "float32", "hidden": 64, "threads": 1}] * cells
    (line,) = (line for line in TEMPLATE.splitlines() if "Roofs are reference streams" in line)
    names = {"n": Numbers(), "c": constant, "rows": {"timing_cpu": rows}.get}
    assert said in environment(ROOT / "paper").from_string(line).render(**names)


def test_a_range_in_parentheses_behind_a_value_is_an_interval_unless_it_is_said_to_be_one_over_cells():
    ranges = re.findall(r"\(<< n\.(\w+) >> to << n\.\w+ >>([^<)]*)\)", TEXT)
    over_cells = {name for name, said in ranges if said == " from cell to cell"}
    assert {"kernel_costs_order_least", "kernel_costs_order_cache_least"} == over_cells
    assert [name for name, _ in ranges if name not in over_cells and not name.endswith("_low")] == []
    assert "A range in parentheses behind a ratio of times or an exponent is its interval" in TEXT


@pytest.mark.parametrize(
    "condition",
    [
        "independent of $x$ and of each other, and of zero mean",
        r"loses nothing as long as $(s+1)\,u\,\kappa$ is small",
        "| sums in the dtype of $x$, every stable variance |",
    ],
)
def test_what_theory_says_stands_with_its_condition(condition):
    assert condition in TEXT


@pytest.mark.parametrize(
    "said",
    [
        "The CPUs of the archive are virtual machines with two cores.",
        "no machine of the archive exposes its hardware counters",
        'A second-level cache of << c("2") >> MiB holds those of float32 only.',
        'bytes instead of spread over several lines"',
    ],
)
def test_what_need_not_hold_on_a_readers_machine_is_not_said_of_it(said):
    assert said in TEXT


@pytest.mark.parametrize(
    ("record", "where"), [({}, "there"), ({"archived": "old"}, "on the archive's machine `old`")]
)
def test_the_abstract_tells_on_which_machine_peers_were_timed(record, where):
    (line,) = (line for line in TEMPLATE.splitlines() if line.lstrip().startswith("**Speed.** We compare"))
    names = {"n": Numbers(), "c": constant, "meta": SimpleNamespace(peers_cpu=record)}
    text = environment(ROOT / "paper").from_string(MACROS + line).render(**names)
    assert f"tuned allocator takes 7 times as long {where}, on one thread" in text


@pytest.mark.parametrize("stem", ["paper", "full"])
def test_each_variant_that_the_figure_of_costs_names_is_in_the_text(stem):
    config = yaml.safe_load((ROOT / f"config/{stem}/kernel_costs.yaml").read_text(encoding="utf-8"))
    assert [name for name in config["variants"] if f"`{name}`" not in TEXT] == []


def test_the_corrected_rstd_of_the_figure_is_told_by_its_name_in_the_table_too():
    assert "(`corrected_rstd`; `recentred_rstd` in the table)" in TEXT
