"""The summary of the bounds counts every bounded row, and sees a row that exceeds its bound."""

import numpy as np
import pandas as pd

from layernorm_backward.experiments.tightness import run
from layernorm_backward.records.schemas import SCHEMAS

CELL = {"algorithm": "two_pass", "dtype": "float32", "accumulator": "storage", "quantity": "dx"}


def cells(*changes: dict[str, object]) -> pd.DataFrame:
    """A table mean_path of one row a change."""
    empty = {"str": "", "int": 0, "float": 0.0}
    row = {name: empty[kind] for name, kind in SCHEMAS["mean_path"].columns.items()}
    usual = {"data": "gaussian", "rows": 64, "bounded_rows": 64, "bound_ratio_median": 0.1}
    return pd.DataFrame([row | CELL | usual | {"kappa": k} | change for k, change in enumerate(changes)])


def test_rows_add_up_and_ratios_are_the_median_cell_and_the_worst_row():
    ratios = [(0.1, 0.2), (0.3, 0.9), (0.2, 0.4)]
    found = run(
        data=["gaussian"],
        mean_path=cells(*({"bound_ratio_median": a, "bound_ratio_max": b} for a, b in ratios)),
    ).iloc[0]
    assert (found["cells"], found["rows"], found["bounded_rows"], found["violations"]) == (3, 192, 192, 0)
    assert (found["ratio_median"], found["ratio_max"]) == (0.2, 0.9)


def test_a_violation_is_counted():
    found = run(data=["gaussian"], mean_path=cells({}, {"violations": 2, "bound_ratio_max": 1.5})).iloc[0]
    assert (found["violations"], found["ratio_max"]) == (2, 1.5)


def test_cells_without_bounds_or_of_other_data_do_not_count():
    none = {"bounded_rows": 0, "bound_ratio_median": np.nan, "bound_ratio_max": np.nan}
    found = run(data=["gaussian"], mean_path=cells({}, none, {"data": "outlier"})).iloc[0]
    assert (found["cells"], found["rows"], found["bounded_rows"]) == (2, 128, 64)
    assert found["ratio_median"] == 0.1
    assert run(data=["gaussian"], mean_path=cells(none)).iloc[0]["reason"].startswith("no row")


def test_cells_that_were_not_measured_make_no_row():
    assert run(data=["gaussian"], mean_path=cells({"reason": "overflow"})).empty


def test_each_algorithm_dtype_accumulator_and_quantity_has_a_row_in_the_order_of_the_table():
    changes = [{"algorithm": "naive"}, {"dtype": "float16"}, {"accumulator": "float64"}, {"quantity": "y"}]
    found = run(data=["gaussian"], mean_path=cells({}, *changes))
    assert found[list(CELL)].to_dict("records") == [CELL | change for change in ({}, *changes)]
