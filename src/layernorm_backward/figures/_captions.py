"""The caption of a figure: the CAPTION of its module, with D and dy of the rows that are drawn."""

import importlib
from pathlib import Path
from typing import Any

from layernorm_backward import figures
from layernorm_backward.figures import style
from layernorm_backward.records import tables

_UNKNOWN = {"{hidden}": "one $D$", "{upstream}": "one $dy$"}  # of a figure that has nothing to show


def caption(stem: str, tables_dir: Path) -> str:
    """The CAPTION of a figure's module on one line; with `{hidden}` and `{upstream}` filled in."""
    module = importlib.import_module(figures.module_name(stem))
    text = " ".join(module.CAPTION.split())
    if any(field in text for field in _UNKNOWN):
        said = _UNKNOWN | _said(_facts(module, tables_dir / f"{module.TABLES[0]}.csv"))
        for field in _UNKNOWN:
            text = text.replace(field, said[field])
    return text


def _facts(module: Any, table: Path) -> dict[str, Any]:
    """The configuration of a table, overridden by the first row of `captioned(table)` if there is one."""
    if not table.exists():
        return {}
    facts = dict(tables.read_meta(table).get("config", {}))
    if hasattr(module, "captioned"):
        rows = module.captioned(tables.read(table))
        facts |= rows.iloc[0].to_dict() if len(rows) else {}
    return facts


def _said(facts: dict[str, Any]) -> dict[str, str]:
    said = {}
    if "hidden" in facts:
        said["{hidden}"] = f"$D = {facts['hidden']}$"
    if "upstream" in facts:
        said["{upstream}"] = style.UPSTREAM.get(facts["upstream"], f"{facts['upstream']} $dy$")
    return said
