"""The tables of a promotion: those measured by a run or campaign, and those kept from an earlier one."""

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from layernorm_backward.records import crate, tables
from layernorm_backward.records.archive import verify
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.studies import study

MOST_BYTES = 5_000_000  # of a table of the study full


def is_campaign(results: Path) -> bool:
    """Whether a folder holds only tables that were measured on a GPU, as `gpu --out` writes."""
    found = list((results / "tables").glob("[!.]*.csv"))
    return bool(found) and all(
        study.on_device(path.stem) and "archived" not in tables.read_meta(path) for path in found
    )


def of_campaign(results: Path) -> list[Path]:
    """The tables of a campaign on a GPU in which any row was measured."""
    found = [path for path in sorted((results / "tables").glob("[!.]*.csv")) if _any_measured(path)]
    if not found:
        raise ValueError(f"{results}: holds no table in which anything was measured")
    return found


def of_run(results: Path, parts: bool) -> list[Path]:
    """The tables measured in a run, or in the parts of one, each checked against its schema and its hash."""
    stems = study.stems(results.name) if parts else (*study.stems(results.name), crate.CLAIMS)
    found = [results / "tables" / f"{stem}.csv" for stem in stems]
    found = [path for path in found if path.exists() and _small_enough(path)] if parts else found
    if not found:
        raise ValueError(f"{results}: holds no table; run the study {results.name}, or parts of it, first")
    return [path for path in found if _any_measured(path) and "archived" not in tables.read_meta(path)]


def holds_less(path: Path, published: Path) -> bool:
    """Whether a GPU table lacks measured rows of the published one, for lack of time, a tool, a peer or a
    shape, or has the same rows but an earlier date. The published one is then kept, which is reported.
    """
    if not (study.on_device(path.stem) and published.exists()):
        return False
    try:
        there = _measured(tables.read(published), path.stem)
    except ValueError:  # unusable now
        return False
    here = _measured(tables.read(path), path.stem)
    before, after = (tables.read_meta(one).get("date", "") for one in (path, published))
    said = ""
    if lost := there - here:
        said = f"{path} lacks {len(lost)} measured rows of {published}"
    elif here == there and before < after:
        said = f"{path} is of {before}, {published} of {after}"
    if said:
        print(f"left out: {said}; remove that to have it replaced", file=sys.stderr)
    return bool(said)


def of_other_code(paths: Iterable[Path]) -> list[str]:
    """The tables of a campaign that were measured with code other than the current one."""
    records = {path.stem: tables.read_meta(path) for path in paths}
    return [
        stem
        for stem, record in records.items()
        if record["code_hash"] != study.recorded_hash(stem, record["config"].get("kernels", ()))
    ]


def not_passed(files: Iterable[Path]) -> list[str]:
    """One line for each table with failed checks, with their number."""
    counts = {path.name: _failed(tables.read(path)) for path in files if study.on_device(path.stem)}
    return [f"{count} in {name}" for name, count in counts.items() if count]


def kept(stems: Iterable[str], target: Path, measured: set[str]) -> list[Path]:
    """Tables of an earlier promotion that this run did not measure; reports those that are unusable now."""
    found = []
    for path in (target / f"{stem}.csv" for stem in stems):
        if path.name in measured or not path.exists():
            continue
        try:
            verify(path)
            tables.read(path)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
        else:
            print(f"kept, not measured in this run: {path}", file=sys.stderr)
            found.append(path)
    return found


def _any_measured(path: Path) -> bool:
    """Whether any row of a table was measured; only GPU tables may have none. The table is verified."""
    table = tables.read(path)
    return not study.on_device(path.stem) or bool(_measured(table, path.stem))


def _measured(table: pd.DataFrame, stem: str) -> set[tuple]:
    """The keys of the measured rows of a GPU table; a check with a verdict counts even if it has a reason."""
    measured = table["reason"] == ""
    if "passed" in table:
        measured |= table["passed"].notna()
    return set(table.loc[measured, list(SCHEMAS[stem].keys)].itertuples(index=False, name=None))


def _failed(table: pd.DataFrame) -> int:
    return int((table["passed"] == False).sum()) if "passed" in table else 0  # noqa: E712, it may be missing


def _small_enough(path: Path) -> bool:
    """Whether a table of the study full has at most MOST_BYTES; reports one that has more."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        print(f"left out: {path}, {size / 1e6:.1f} MB; allowed: {MOST_BYTES / 1e6:g} MB", file=sys.stderr)
    return size <= MOST_BYTES
