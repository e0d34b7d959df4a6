"""The memory that an audit needs, and whether it is available."""

from collections.abc import Iterable

from layernorm_backward import options
from layernorm_backward.audit.setting import Setting
from layernorm_backward.dtypes import DtypeName, dtype_of

GIVEN = 2  # arrays of x's size and dtype that are kept for each kappa: x, dy
EXACT_BYTES = 32  # kept for each element of x: y and dx in double-double


def require_memory(setting: Setting, dtypes: Iterable[DtypeName]) -> None:
    """ValueError where the sweeps keep more than a third of the available memory; it says what would fit."""
    each = sum(element_bytes(setting, dtype) for dtype in dtypes)
    options.require_memory(setting.rows, setting.hidden, each)


def element_bytes(setting: Setting, dtype: DtypeName) -> int:
    """Bytes that the sweep over kappa keeps for each element of x."""
    return len(setting.kappas(dtype)) * (GIVEN * dtype_of(dtype).itemsize + EXACT_BYTES)
