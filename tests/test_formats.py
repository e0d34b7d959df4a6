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
        ("power0", 1e8, r"$1 \times 10^{8}$"),
        ("three", 1234.5, "1230"),
        ("three", 0.01234, "0.0123"),
        ("three", 9.999, "10.0"),
        ("three", float("nan"), "nan"),
        ("integer", 1234567.0, "1\u202f234\u202f567"),
        ("percent", 0.875, "88\u00a0%"),
        ("percent1", 0.0123, "1.2\u00a0%"),
        ("milliseconds", 0.0123, "12.3\u00a0ms"),
        ("megabytes", 2_500_000.0, "2.50\u00a0MB"),
        ("code", "numba_fused", "`numba_fused`"),
        ("text", "copy", "copy"),
    ],
)
def test_a_value_is_printed_in_its_format(name, value, text):
    assert FORMATS[name](value) == text
