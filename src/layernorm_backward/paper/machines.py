"""Rows of a table: the fraction of the roof that numba_fused reaches in this run and on archived machines."""

from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward.paper.goals import NONE
from layernorm_backward.records import archive, revision, tables

STEM = "timing_cpu"
_WIDE, _SHORT = ("float64", "float32"), ("float16", "bfloat16")
_Cells = tuple[
    str, str, tuple[str, ...], tuple[int, int]
]  # column, direction, dtypes, smallest and largest D
SPANS: dict[str, _Cells] = {
    "short": ("roof_fraction", "backward", _WIDE, (256, 1024)),
    "long": ("roof_fraction", "backward", _WIDE, (4096, 16384)),
    "forward": ("roof_fraction", "forward", _WIDE, (256, 16384)),
    "half": ("roof_fraction", "backward", _SHORT, (256, 16384)),
    "compact": ("compact_ratio", "backward", _WIDE, (256, 16384)),
}


def rows(tables_dir: Path, folder: Path = archive.ARCHIVE) -> list[dict[str, str]]:
    """This run, then the archived machines of the same study, the latest first.

    An archived copy of this run is left out, and so is a table of older code that cannot be read. Each cell
    is the range over rows of whole cache lines, with all threads and beyond the cache, or a dash where none
    was measured.
    """
    here = tables_dir / f"{STEM}.csv"
    archived = archive.tables(STEM, tables_dir.parent.name, folder)
    others = [it for it in archived if it.read_bytes() != here.read_bytes()]
    readable = [table for table in others if _readable(table)]
    return [_row("this run", here), *(_row(_name(table), table) for table in readable)]


def _name(table: Path) -> str:
    return f"`{table.parent.name}`, {revision.named(tables.read_meta(table)['commit'])}"


def _readable(table: Path) -> bool:
    try:
        tables.read(table)
    except tables.TableError:
        return False
    return True


def _row(name: str, path: Path) -> dict[str, str]:
    found, machine = tables.read(path), tables.read_meta(path)["machine"]
    found = found[(found.kernel == "numba_fused") & (found.residency == "memory") & (found.hidden % 64 == 0)]
    measured = found[found.roof_fraction.notna()]
    found = measured[measured.threads == measured.threads.max()]
    spans = {key: _span(found, cells) for key, cells in SPANS.items()}
    return {"machine": name, "processor": _processor(machine)} | spans | {"recentring": _recentring(path)}


def _span(found: pd.DataFrame, cells: _Cells) -> str:
    column, direction, dtypes, sizes = cells
    wanted = found.hidden.between(*sizes) & found.dtype.isin(dtypes) & (found.direction == direction)
    values = found.loc[wanted, column].dropna()
    if values.empty:
        return NONE
    digits = 1 if column == "compact_ratio" else 2
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def _recentring(path: Path) -> str:
    costs = path.with_name("kernel_costs.csv")
    if not costs.exists():
        return NONE
    found = tables.read(costs)
    found = 100 * found.loc[found["variant"] == "no_recentring", "cost"].dropna()
    return f"{found.min():.1f} to {found.max():.1f} %" if len(found) else NONE


def _processor(machine: dict[str, Any]) -> str:
    design = f" ({machine['design']})" if machine.get("design") else ""
    core = f"{machine['cpu']}{design}, {machine.get('vectors') or 'vectors not recorded'}"
    caches = ", ".join(
        _size_of(machine[name]) for name in ("l1d_bytes", "l2_bytes", "last_level_cache_bytes")
    )
    return f"{core}, {machine['cores_usable']} cores; {caches}"


def _size_of(size: int) -> str:
    scale, unit = (2**20, "MiB") if size >= 2**20 else (2**10, "KiB")
    return f"{size / scale:.0f} {unit}" if size else "not reported"
