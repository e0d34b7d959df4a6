"""How values are printed."""

import pytest

from layernorm_backward.paper.formats import FORMATS


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("power", 5.04e-11, r"$5.04 \times 10^{-11}$"),
        ("power", 0.5, "0.500"),
        ("power", 0.0, "0"),
        ("power", 123456.0, r"$1.23 \times 10^{5}$"),
        ("power", 0.01, "0.0100"),
        ("power", 1000.0, r"$1.00 \times 10^{3}$"),
        ("power_up", -1.471e-7, r"$-1.47 \times 10^{-7}$"),
        ("power0", 1e8, r"$1 \times 10^{8}$"),
        ("three", 1234.5, "1230"),
        ("three", 0.01234, "0.0123"),
        ("three", 9.999, "10.0"),
        ("three", float("nan"), "nan"),
        ("one_up", 3.4312, "3.5"),
        ("one_up", 3.4, "3.4"),
        ("one_up", 0.1 + 0.2, "0.4"),
        ("two_up", 0.601, "0.61"),
        ("two_up", float("inf"), "inf"),
        ("two_down", 1.0683, "1.06"),
        ("two_down", 0.1 + 0.2, "0.30"),
        ("two_down", 0.94, "0.94"),
        ("three_down", 0.99309, "0.993"),
        ("three_down", 0.99999, "0.999"),
        ("three_down", 1234.5, "1230"),
        ("three_down", float("nan"), "nan"),
        ("percent1_up", 0.00912, "1.0\u00a0%"),
        ("percent1_up", 0.6835, "68.4\u00a0%"),
        ("power_up", 1.471e-7, r"$1.48 \times 10^{-7}$"),
        ("power_up", 9.991e-7, r"$1.00 \times 10^{-6}$"),
        ("power_up", 52225.3, r"$5.23 \times 10^{4}$"),
        ("power_up", 0.0, "0"),
        ("integer", 1234567.0, "1\u202f234\u202f567"),
        ("percent", 0.875, "88\u00a0%"),
        ("percent1", 0.0123, "1.2\u00a0%"),
        ("percent1", -0.0002, "0.0\u00a0%"),
        ("percent1", -0.0123, "-1.2\u00a0%"),
        ("two", -0.004, "0.00"),
        ("one_up", -0.04, "0.0"),
        ("megabytes", 2_500_000.0, "2.50\u00a0MB"),
        ("code", "numba_fused", "`numba_fused`"),
        ("text", "copy", "copy"),
    ],
)
def test_a_value_is_printed_in_its_format(name, value, text):
    assert FORMATS[name](value) == text
