"""Promotion: a run's tables become published results, in results/archive/<machine>/, with their provenance.

results/archive/<machine>/<stem>.csv, <stem>.meta.json   the tables, each with its own record
results/archive/<machine>/provenance.json                machine, date, commit, and hashes per table
results/archive/<machine>/timing_cpu.png, timing_gpu.png the figure that the README shows
results/archive/<machine>/paper.pdf                      the paper of the run
results/archive/<machine>/ro-crate-metadata.json         machine-readable metadata of the folder, an RO-Crate

Tables of the study full go to results/archive/<machine>-full/. That study may be run in parts, so the tables
that exist are promoted, except those larger than MOST_BYTES, which every clone would contain. The folder of a
campaign on a GPU (`gpu --out`) is promoted with the tables that it holds. For these tables the machine's
folder keeps the version of an earlier promotion: those that the run took from the archive, and GPU tables in
which nothing was measured, that lack rows of the earlier version, or that have the same rows but an earlier
date.
"""

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from layernorm_backward.records import candidates, crate, tables
from layernorm_backward.records.archive import ARCHIVE, PROVENANCE, RECORD_HASH, WHOLE, record_hash
from layernorm_backward.records.promotable import (
    IN_PARTS,
    require_alike,
    require_later,
    require_name,
    require_one_machine,
    require_one_study,
)
from layernorm_backward.records.recorded import read_record
from layernorm_backward.records.revision import commit
from layernorm_backward.storage import jsonfile
from layernorm_backward.studies import study

FIGURE, FIGURE_GPU = "timing_cpu", "timing_gpu"
PAPER = "paper.pdf"
STUDIES = (WHOLE, IN_PARTS)
_PER_TABLE = ("sha256", "code_hash", "commit", "date", "duration_s", "rows")


def promote(results: Path, machine: str, archive: Path = ARCHIVE, studies: tuple[str, ...] = STUDIES) -> Path:
    """Copy the tables below `results` into archive/machine atomically; returns that folder.

    An earlier promotion of the same name is replaced, except tables that this run did not measure. Raises
    ValueError for an invalid name, a name used by another study, a study that is not published, tables that
    are missing, edited, from several machines or without a complete record, and a paper older than its
    tables.
    """
    require_name(machine)
    if not results.is_dir():
        raise ValueError(f"{results}: there is no such folder; allowed: results/STUDY after a run of it")
    parts = results.name == IN_PARTS
    campaign = not parts and candidates.is_campaign(results)
    if results.name not in studies and not campaign:
        raise ValueError(
            f"{results}: only these studies are published: {', '.join(studies)}; and campaigns on a GPU, "
            "whose tables were all measured on one"
        )
    target = archive / (f"{machine}-{IN_PARTS}" if parts else machine)
    found = candidates.of_campaign(results) if campaign else candidates.of_run(results, parts)
    measured = [path for path in found if not candidates.holds_less(path, target / path.name)]
    stems = (
        (path.stem for path in sorted(target.glob("[!.]*.csv"))) if campaign else study.stems(results.name)
    )
    files = [*measured, *candidates.kept(stems, target, {path.name for path in measured})]
    provenance = _provenance(machine, files)
    require_alike(target, provenance["study"], campaign)
    require_one_study({path.stem: read_record(path) for path in files})
    if not all(record["commit"] for record in provenance["tables"].values()):
        print("warning: the commit of some tables is not known", file=sys.stderr)
    if provenance["edited"]:
        print("warning: the tables were measured with uncommitted changes", file=sys.stderr)
    if campaign and (others := candidates.of_other_code(measured)):
        print(f"warning: measured with code other than the current: {', '.join(others)}", file=sys.stderr)
    for failed in candidates.not_passed(files):
        print(f"warning: checks that failed: {failed}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as drawn:
        shown = _of_gpu(files, Path(drawn)) if campaign else [] if parts else _shown(results, measured)
        copies = [*files, *(tables.meta_path(path) for path in files), *shown]
        return _place(copies, provenance, target)


def _shown(results: Path, measured: list[Path]) -> list[Path]:
    """The files of a run for readers: a figure and the paper, made from its tables."""
    figure, paper = results / "figures" / f"{FIGURE}.png", results / PAPER
    require_later(figure, (path for path in measured if path.stem in study.drawn_from(FIGURE)))
    for made in (results / "tables" / f"{crate.CLAIMS}.csv", paper):
        require_later(made, measured)
    return [figure, paper]


def _of_gpu(files: list[Path], folder: Path) -> list[Path]:
    """The figure of a campaign, written to a folder; none if nothing was timed."""
    from layernorm_backward.figures import _files

    timed = [path.parent for path in files if path.stem == FIGURE_GPU]
    for tables_dir in timed:
        _files.write(FIGURE_GPU, tables_dir, folder / FIGURE_GPU, [".png"])
    return [folder / f"{FIGURE_GPU}.png" for _ in timed]


def _provenance(machine: str, files: list[Path]) -> dict[str, Any]:
    records = {path.stem: read_record(path) for path in files}
    require_one_machine(records)
    return {
        "machine": machine,
        "study": next(iter(records.values()))["study"],
        "promoted": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "edited": any(record["commit"].endswith("+changes") for record in records.values()),
        "described": max(records.values(), key=_describes)["machine"],
        "tables": {path.stem: _of_table(records[path.stem], path) for path in files},
    }


def _describes(record: dict[str, Any]) -> tuple[bool, str]:
    """Sort key: the latest record describes a machine best, but a GPU's says little about its host."""
    return not record["machine"].get("gpu"), record["date"]


def _of_table(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """The provenance of a table: a part of its record, and the hash of the whole record."""
    return {key: record[key] for key in _PER_TABLE} | {RECORD_HASH: record_hash(path)}


def _place(copies: list[Path], provenance: dict[str, Any], target: Path) -> Path:
    """Fill a folder beside `target`, then replace `target` by it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".promote-", dir=target.parent) as name:
        new, old = Path(name) / "new", Path(name) / "old"
        new.mkdir()
        for path in copies:
            shutil.copyfile(path, new / path.name)
        jsonfile.save(new / PROVENANCE, provenance)
        crate.write(new)
        try:
            if target.exists():
                target.rename(old)
            new.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
    return target
