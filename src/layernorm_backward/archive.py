"""The archive: tables of earlier runs, results/archive/<folder>/<stem>.csv, each with its own record.

Read by the workflow at each start, so nothing here imports pandas. A table of an optional experiment is taken
from here where the packages that it needs (`REQUIRES` of its module) are not installed.
"""

import json
import shutil
from pathlib import Path

from layernorm_backward.files import whole

ARCHIVE = Path("results/archive")
PROVENANCE = "provenance.json"


def folders(study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The folders that hold a run of `study`, the latest promotion first.

    Raises ValueError for a folder whose provenance does not say of which study and date it is.
    """
    found = [(*_promotion(path), path.parent) for path in archive.glob(f"*/{PROVENANCE}")]
    return [folder for _, which, folder in sorted(found, reverse=True) if which == study]


def _promotion(provenance: Path) -> tuple[str, str]:
    """When a folder was promoted, and the study that it holds."""
    try:
        record = json.loads(provenance.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{provenance}: not valid JSON: {error}") from None
    told = [record.get(key) for key in ("promoted", "study")] if isinstance(record, dict) else []
    if not told or not all(isinstance(value, str) for value in told):
        raise ValueError(f"{provenance}: holds no date of promotion, or no study")
    return told[0], told[1]


def tables(stem: str, study: str, archive: Path = ARCHIVE) -> list[Path]:
    """The archived tables of this stem and study, the latest promotion first."""
    found = (folder / f"{stem}.csv" for folder in folders(study, archive))
    return [table for table in found if table.exists()]


def latest(stem: str, study: str, archive: Path = ARCHIVE) -> Path | None:
    """The newest archived table of this stem and study; None where there is none."""
    return next(iter(tables(stem, study, archive)), None)


def take(source: Path, out: Path) -> None:
    """Copy an archived table to `out`; its record says from then on which folder it comes from."""
    record = json.loads(_meta(source).read_text(encoding="utf-8")) | {"archived": source.parent.name}
    with whole(out) as temporary:
        shutil.copyfile(source, temporary)
    with whole(_meta(out)) as temporary:
        temporary.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _meta(table: Path) -> Path:
    return table.with_suffix(".meta.json")
