"""The archive: tables of earlier runs, results/archive/<folder>/<stem>.csv, each with its own record.

The workflow reads it at every start, so this module does not import pandas. The table of an optional
experiment is taken from the archive if the packages that it requires (`REQUIRES` of its module) are not
installed. A record holds the sha256 of its table, and the provenance of a folder those of its records.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

from layernorm_backward.storage import jsonfile
from layernorm_backward.storage.files import whole

ARCHIVE = Path("results/archive")
WHOLE = "paper"  # the study whose archived tables replace missing ones
PROVENANCE = "provenance.json"
RECORD_HASH = "record_sha256"  # key of a table's entry in its folder's provenance


def folders(study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The folders that hold a run of `study`, the latest promotion first.

    Raises ValueError if there is no archive, as outside the repository's folder, and for a folder whose
    provenance lacks its study or date.
    """
    if not archive.is_dir():
        raise ValueError(f"{archive}: there is no such folder; allowed: the repository's, which holds it")
    found = [(*_promotion(path), path.parent) for path in archive.glob(f"*/{PROVENANCE}")]
    return [folder for _, which, folder in sorted(found, reverse=True) if which == study]


def _promotion(provenance: Path) -> tuple[str, str]:
    """The date of promotion of a folder, and its study."""
    record = jsonfile.load(provenance)
    found = [record.get(key) for key in ("promoted", "study")]
    if not all(isinstance(value, str) for value in found):
        raise ValueError(f"{provenance}: holds no date of promotion, or no study")
    return found[0], found[1]


def tables(stem: str, study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The archived tables of this stem and study, the latest promotion first; ValueError: see `verify`."""
    found = [folder / f"{stem}.csv" for folder in folders(study, archive)]
    there = [table for table in found if table.exists()]
    for table in there:
        verify(table)
    return there


def verify(table: Path) -> None:
    """Raise ValueError if the record of an archived table is not the one that was promoted.

    Provenance of older promotions holds no hashes of records; all records are then accepted.
    """
    provenance = table.parent / PROVENANCE
    promoted = jsonfile.load(provenance).get("tables", {})
    if not isinstance(promoted, dict):
        raise ValueError(
            f"{provenance}: tables: must hold one entry a table, holds {type(promoted).__name__}"
        )
    of_table: dict[str, Any] = promoted.get(table.stem, {})
    if RECORD_HASH in of_table and of_table[RECORD_HASH] != record_hash(table):
        raise ValueError(
            f"{_meta(table)}: the record was cut or edited after it was promoted (its sha256 differs from "
            f"{PROVENANCE}); take the published one back: git checkout -- {table.parent}"
        )


def record_hash(table: Path) -> str:
    """The sha256 of the record beside a table; "" where there is none."""
    meta = _meta(table)
    return hashlib.sha256(meta.read_bytes()).hexdigest() if meta.exists() else ""


def latest(stem: str, study: str, archive: Path = ARCHIVE) -> Path | None:
    """The newest archived table of this stem and study; None where there is none."""
    return next(iter(tables(stem, study, archive)), None)


def take(source: Path, out: Path, code_here: str) -> None:
    """Copy an archived table to `out`; the record of the copy also holds the name of the archive folder, and
    the hash of the code that would measure the table here.

    Raises ValueError if the record is not the one that was promoted.
    """
    verify(source)
    record = jsonfile.load(_meta(source)) | {"archived": source.parent.name, "code_here": code_here}
    with whole(out) as temporary:
        shutil.copyfile(source, temporary)
    jsonfile.save(_meta(out), record)


def _meta(table: Path) -> Path:
    return table.with_suffix(".meta.json")
