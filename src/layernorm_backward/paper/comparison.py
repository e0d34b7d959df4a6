"""Compares this run with an archived run of the same study: which tables agree, and how closely.

A table is compared with the newest archived one that is not a copy of itself (there is one after a
promotion). Results of packages that compile for the processor are compared with a similar processor if the
archive has one. Rows are matched by their keys, provided that both runs had the same configuration. The
allowed difference is in `schemas`; 0 means that every cell is the same on any machine with the same versions.
The difference of two numbers is |a - b| / max(|a|, |b|).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from layernorm_backward.records import archive, revision, tables
from layernorm_backward.records.recorded import read_record
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.records.tabulate import table

COMPILED = {"audit_peers"}  # of packages that compile for the processor, which fixes their order of additions
_PROCESSOR = "cpu", "vectors", "l2_bytes", "last_level_cache_bytes"


def run(tables_dir: Path, stems: Iterable[str], archived: Path = archive.ARCHIVE) -> pd.DataFrame:
    """One row per table of the run in `tables_dir`, whose folder names the study."""
    study = tables_dir.parent.name
    rows = ({"table": stem} | _compared(tables_dir / f"{stem}.csv", study, archived) for stem in stems)
    return table(rows, "comparison")


def _compared(path: Path, study: str, archived: Path) -> dict[str, Any]:
    allowed, here = SCHEMAS[path.stem].repeats, read_record(path)
    if allowed is None:
        return {"reason": "belongs to the machine"}
    if "archived" in here:
        return {"archive": here["archived"], "reason": "taken from the archive, not measured in this run"}
    copies = [(copy, tables.read_meta(copy)) for copy in archive.tables(path.stem, study, archived)]
    if not copies:
        return {"reason": f"the archive has no such table of the study {study}"}
    others = [(copy, meta) for copy, meta in copies if not _of_one_run(here, meta)]
    if not others:
        return {"archive": copies[0][0].parent.name, "reason": "the archive has only a copy of this table"}
    if path.stem in COMPILED:
        others.sort(key=lambda other: not _alike(other[1], here))
    return _beside(path, here, *others[0])


def _of_one_run(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (one["date"], one["sha256"]) == (other["date"], other["sha256"])


def _beside(path: Path, here: dict[str, Any], other: Path, there: dict[str, Any]) -> dict[str, Any]:
    """Compare two tables; they need not agree if `_expected_difference` gives a reason."""
    named = {"archive": other.parent.name}
    if there["config"] != here["config"]:
        return named | {"reason": "the archived run had a different configuration"}
    if tables.columns(other) != tables.columns(path):
        commit = revision.named(there["commit"])
        return named | {"reason": f"the archived table has other columns: it is from other code, {commit}"}
    found = named | _cells(tables.read(path), tables.read(other), path.stem)
    why = _expected_difference(here, there, path.stem)
    if not why:
        return found
    held = {} if found["passed"] else {"passed": None}
    return found | held | {"reason": why}


def _expected_difference(here: dict[str, Any], there: dict[str, Any], stem: str) -> str:
    """Why two tables may differ: other code, or packages compiled for another processor; else ""."""
    if there["code_hash"] != here["code_hash"]:
        return f"other code, {revision.named(there['commit'])}"
    if stem in COMPILED and not _alike(there, here):
        named = filter(None, (there["machine"].get(key) for key in ("cpu", "vectors")))
        return f"packages compile for the processor: {', '.join(named)} there"
    return ""


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two processors have the same design, as far as the records say; older records name no
    design."""
    designs = {it["machine"].get("design") for it in (one, other)} - {None}
    same = all(one["machine"].get(key) == other["machine"].get(key) for key in _PROCESSOR)
    return same and len(designs) < 2


def _cells(ours: pd.DataFrame, theirs: pd.DataFrame, stem: str) -> dict[str, Any]:
    schema = SCHEMAS[stem]
    both = ours.merge(theirs, on=list(schema.keys), suffixes=("", "_archived"))
    names = [name for name in schema.values if name != "reason"]
    differences = np.stack([_differences(both[name], both[f"{name}_archived"]) for name in names], axis=-1)
    beyond = int(np.sum(differences > schema.repeats))
    unmatched = len(ours) + len(theirs) - 2 * len(both)
    return {
        "rows": len(both),
        "unmatched_rows": unmatched,
        "cells": differences.size,
        "equal": int(np.sum(differences == 0)),
        "beyond": beyond,
        "largest_difference": float(np.max(differences, initial=0.0)),
        "allowed_difference": float(schema.repeats),
        "passed": len(both) > 0 and unmatched == 0 and beyond == 0,
    }


def _differences(ours: pd.Series, theirs: pd.Series) -> NDArray[np.float64]:
    """0 where two cells are equal or both empty; infinity where they differ and are not numbers."""
    if not pd.api.types.is_float_dtype(ours):
        same = (ours == theirs) | (ours.isna() & theirs.isna())
        return np.where(same.fillna(False).to_numpy(bool), 0.0, np.inf)
    a, b = ours.to_numpy(), theirs.to_numpy()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
    return np.where(same, 0.0, np.where(np.isfinite(found), found, np.inf))
