"""The paper's tables hold what the run's tables hold."""

import pandas as pd
import pytest

from layernorm_backward.paper.grids import _name, listing, pivot
from layernorm_backward.records import tables

DERIVATION = pd.DataFrame(
    {
        "derivation": ["projection", "projection", "chain_rule"],
        "shape": ["2x4x8", "4x8x16", "2x4x8"],
        "gamma_kind": "random",
        "quantity": "dx",
        "rel_error": [0.25, 0.5, float("nan")],
        "proved": False,
        "reason": ["", "", "left out"],
    }
)
LAYOUT = {"label": "demo", "caption": "A caption."}


@pytest.fixture
def folder(tmp_path):
    tables.write(DERIVATION, tmp_path / "derivation.csv")
    return tmp_path


def lines(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_a_listing_has_a_line_for_each_selected_row(folder):
    columns = {"derivation": ("Derivation", "code"), "rel_error": ("Error", "two")}
    text = listing(folder, "derivation", columns, {"shape": "2x4x8"}, **LAYOUT)
    assert lines(text)[0] == "| Derivation | Error |"
    assert lines(text)[1] == "|:----|----:|"
    assert lines(text)[2:] == ["| `projection` | 0.25 |", "| `chain_rule` | \N{EN DASH} |"]
    assert ": A caption. {#tbl:demo}" in text


def test_a_pivot_puts_one_key_in_rows_and_one_in_columns(folder):
    text = pivot(
        folder, "derivation", "derivation", "shape", "rel_error", {}, format="two", head="Way", **LAYOUT
    )
    assert lines(text)[0] == "| Way | `2x4x8` | `4x8x16` |"
    assert lines(text)[2:] == [
        "| `projection` | 0.25 | 0.50 |",
        "| `chain_rule` | \N{EN DASH} | \N{EN DASH} |",
    ]


@pytest.mark.parametrize(
    ("how", "cell"), [({"reduce": "min"}, "0.25"), ({"reduce": "max"}, "0.50"), ({}, "0.50")]
)
def test_a_cell_of_a_pivot_is_reduced_as_it_is_asked_or_to_the_largest(folder, how, cell):
    by = ("derivation", "gamma_kind", "quantity", "rel_error", {})
    text = pivot(folder, *by, format="two", **how, **LAYOUT)
    assert lines(text)[2:] == [f"| `random` | {cell} |"]


def test_an_unknown_column_is_told(folder):
    with pytest.raises(ValueError, match="no column dtype; there are: derivation, shape"):
        pivot(folder, "derivation", "derivation", "shape", "rel_error", {"dtype": "float32"}, **LAYOUT)


def test_a_column_of_a_pivot_may_have_a_format_of_its_own(folder):
    by = ("derivation", "derivation", "shape", "rel_error", {"derivation": "projection"})
    text = pivot(folder, *by, format="two", formats={"4x8x16": "one"}, **LAYOUT)
    assert lines(text)[2:] == ["| `projection` | 0.25 | 0.5 |"]


def test_numbers_that_head_a_table_are_powers_where_they_are_large_or_small():
    assert [_name(value) for value in (0, 1024, 1e5)] == ["0", "1024", r"$1 \times 10^{5}$"]
