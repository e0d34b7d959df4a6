"""Rows become tables with the columns of their schema."""

import numpy as np

from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.records.tabulate import table


def test_what_a_row_leaves_out_is_empty():
    found = table([{"kernel": "compact", "rows": 8}, {"reason": "no time"}], "scaling_points")
    assert list(found.columns) == list(SCHEMAS["scaling_points"].columns)
    assert found["kernel"].tolist() == ["compact", ""] and found["reason"].tolist() == ["", "no time"]
    assert found["rows"][0] == 8 and found["rows"].isna().tolist() == [False, True]
    assert np.isnan(found["median_s"]).all()
