"""Rows become tables with the columns of their schema."""

import numpy as np
import pytest

from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.records.tabulate import table


@pytest.mark.parametrize(
    ("row", "stem", "message"),
    [
        (
            {"kernel": "compact", "median": 1.0},
            "compile_time",
            "table compile_time: no column 'median'; allowed: ",
        ),
        ({"repeats": 0.5}, "compile_time", "table compile_time: column 'repeats' must hold int: "),
        ({}, "compile_times", "no table is called 'compile_times'; allowed: derivation, "),
    ],
)
def test_a_row_that_is_not_of_its_schema_is_reported_by_table_and_column(row, stem, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        table([row], stem)


def test_what_a_row_leaves_out_is_empty():
    found = table([{"kernel": "compact", "rows": 8}, {"reason": "no time"}], "scaling_points")
    assert list(found.columns) == list(SCHEMAS["scaling_points"].columns)
    assert found["kernel"].tolist() == ["compact", ""] and found["reason"].tolist() == ["", "no time"]
    assert found["rows"][0] == 8 and found["rows"].isna().tolist() == [False, True]
    assert np.isnan(found["median_s"]).all()


def test_a_verdict_that_a_row_leaves_out_is_neither_true_nor_false():
    found = table([{"claim": "a", "strict": True}, {"claim": "b"}], "claims")
    assert found["strict"].isna().tolist() == [False, True]
