"""The archive: tables of earlier runs, results/archive/<folder>/<stem>.csv, each with its own record.

Read by the workflow at each start, so nothing here imports pandas. A table of an optional experiment is taken
from here where the packages that it needs (`REQUIRES` of its module) are not installed. As a record holds the
sha256 of its table, the provenance of a folder holds those of its records.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

from layernorm_backward.storage import jsonfile
from layernorm_backward.storage.files import whole

ARCHIVE = Path("results/archive")
WHOLE = "paper"  # the study whose tables stand for others that are not here
PROVENANCE = "provenance.json"
RECORD_HASH = "record_sha256"  # of a table, in its folder's provenance


def folders(study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The folders that hold a run of `study`, the latest promotion first.

    Raises ValueError where there is no archive, as elsewhere than in the repository's folder, and for a
    folder whose provenance does not say of which study and date it is.
    """
    if not archive.is_dir():
        raise ValueError(f"{archive}: there is no such folder; allowed: the repository's, which holds it")
    found = [(*_promotion(path), path.parent) for path in archive.glob(f"*/{PROVENANCE}")]
    return [folder for _, which, folder in sorted(found, reverse=True) if which == study]


def _promotion(provenance: Path) -> tuple[str, str]:
    """When a folder was promoted, and the study that it holds."""
    record = jsonfile.load(provenance)
    told = [record.get(key) for key in ("promoted", "study")]
    if not all(isinstance(value, str) for value in told):
        raise ValueError(f"{provenance}: holds no date of promotion, or no study")
    return told[0], told[1]


def tables(stem: str, study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The archived tables of this stem and study, the latest promotion first; ValueError: see `verify`."""
    found = [folder / f"{stem}.csv" for folder in folders(study, archive)]
    there = [table for table in found if table.exists()]
    for table in there:
        verify(table)
    return there


def verify(table: Path) -> None:
    """Raise ValueError where the record of an archived table is not the one that was promoted.

    A folder that was promoted before provenance held the hashes of records tells of none, and all are taken.
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
    """Copy an archived table to `out`; its record says from then on which folder it comes from, and the hash
    of the code that would measure it here.

    Raises ValueError where the record is not the one that was promoted.
    """
    verify(source)
    record = jsonfile.load(_meta(source)) | {"archived": source.parent.name, "code_here": code_here}
    with whole(out) as temporary:
        shutil.copyfile(source, temporary)
    jsonfile.save(_meta(out), record)


def _meta(table: Path) -> Path:
    return table.with_suffix(".meta.json")
