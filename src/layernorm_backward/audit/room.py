"""What an audit takes in memory, and whether there is room for it."""

from collections.abc import Iterable

from layernorm_backward.audit.setting import Setting
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.timing.sizing import memory_limit

GIVEN = 2  # arrays of x's size and dtype that are kept for each kappa: x, dy
EXACT_BYTES = 32  # kept for each element of x: y and dx in double-double


def require_room(setting: Setting, dtypes: Iterable[DtypeName]) -> None:
    """ValueError where the sweeps keep more than a third of the available memory; it says what would fit."""
    limit = memory_limit()
    column = sum(element_bytes(setting, dtype) for dtype in dtypes)
    row = setting.hidden * column
    size = setting.rows * row
    if size <= limit:
        return
    fits = (
        f"--rows up to {limit // row}" if row <= limit else f"--rows 1 and --hidden up to {limit // column}"
    )
    said = f"the arrays take {size / 1e9:.3g} GB, over {limit / 1e9:.3g} GB, a third of the memory"
    raise ValueError(f"{said}; allowed here: {fits}")


def element_bytes(setting: Setting, dtype: DtypeName) -> int:
    """Bytes that the sweep over kappa keeps for each element of x."""
    return len(setting.kappas(dtype)) * (GIVEN * dtype_of(dtype).itemsize + EXACT_BYTES)
