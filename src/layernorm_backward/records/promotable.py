"""Preconditions of a promotion: ValueError where it would publish tables that do not belong together."""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from layernorm_backward.records import mixed
from layernorm_backward.records.archive import PROVENANCE
from layernorm_backward.storage import jsonfile

IN_PARTS = "full"  # the study whose name is appended to those of its folders
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def require_name(machine: str) -> None:
    """Refuse a name that is invalid for an archive folder, or reserved for folders of the study full."""
    if not _NAME.fullmatch(machine):
        raise ValueError(
            f"MACHINE={machine!r}: allowed: lower-case letters, digits and single hyphens, as in xeon-2core"
        )
    if machine.endswith(f"-{IN_PARTS}"):
        raise ValueError(
            f"MACHINE={machine!r}: allowed: a name without -{IN_PARTS}, which the study {IN_PARTS} adds"
        )


def require_alike(target: Path, study: str, campaign: bool) -> None:
    """Refuse to replace tables of another study, or a run by a campaign on a GPU."""
    if not (target / PROVENANCE).exists():
        return
    published = jsonfile.load(target / PROVENANCE)
    kinds = [(published.get("study"), "gpu" in published.get("described", {})), (study, campaign)]
    there, here = (f"a {'campaign on a GPU' if gpu else 'run'} of the study {name}" for name, gpu in kinds)
    if there != here:
        raise ValueError(f"{target}: holds {there}, not {here}; allowed: another name, or to remove it first")


def require_one_study(records: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse tables of several studies, as campaigns with several config folders produce."""
    studies = {stem: record["study"] for stem, record in records.items()}
    if len(set(studies.values())) > 1:
        listed = ", ".join(f"{stem} of {name}" for stem, name in sorted(studies.items()))
        raise ValueError(f"the tables are of several studies: {listed}; allowed: those of one")


def require_one_machine(records: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse tables of several CPUs or several GPUs; a warning names other differences, such as versions."""
    for group in mixed.by_device(records):
        processors = sorted({mixed.processor(record["machine"]) for record in group.values()})
        if len(processors) > 1:
            raise ValueError(
                f"the tables come from several machines: {', '.join(processors)}; measure them on one"
            )
    for difference in mixed.differences(records):
        print(f"warning: the tables were measured in different environments: {difference}", file=sys.stderr)


def require_later(made: Path, tables: Iterable[Path]) -> None:
    """Refuse a file that is missing, or older than a table from which it is made."""
    if not made.exists():
        raise ValueError(f"{made}: there is no such file; run make paper first")
    for table in tables:
        if made.stat().st_mtime_ns < table.stat().st_mtime_ns:
            raise ValueError(f"{made}: is older than {table.name}; remove it, and run make paper first")
