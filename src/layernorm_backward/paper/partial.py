"""Claims and numbers that lose their rows when a reader edits a configuration.

A table is partial in the study `smoke`. It is also partial if its configuration differs from that of the
newest archived run of the study `paper`, or if it is computed from such a table. A claim or number without
rows in a partial table is excused and listed in one warning. With the environment variable CI only the study
`smoke` excuses.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from layernorm_backward import constants
from layernorm_backward.paper.predicates.judgement import count, listing
from layernorm_backward.records import archive, tables

SUMMARIES = ("claims", "comparison")  # computed from all other tables


class Excuses:
    """The partial tables of one run, and what was excused for them so far."""

    def __init__(self, tables_dir: Path) -> None:
        self._folder = tables_dir
        self._study = tables_dir.parent.name
        self._differs = cache(_differs)  # called for each claim and number
        self._lost: dict[str, list[str]] = {}
        self.smoke = self._study == "smoke"
        self.allowed = self.smoke or not os.environ.get("CI")

    def edited(self, stems: Iterable[str]) -> list[str]:
        """Those of these tables, and of the tables they are computed from, that have another
        configuration."""
        return [stem for stem in self._origins(stems) if self._differs(self._folder / f"{stem}.csv")]

    def edited_files(self) -> list[str]:
        """The config files of this run that differ from the archived ones; none outside the study `paper`."""
        if self._study != archive.WHOLE or not self.allowed:
            return []
        found = sorted(path.stem for path in self._folder.glob("[!.]*.csv"))
        return [self.files([stem]) for stem in found if self._differs(self._folder / f"{stem}.csv")]

    def reason(self, name: str, stems: Iterable[str]) -> str:
        """Why a claim or number may find no row in these tables; empty if nothing excuses it."""
        if self.smoke:
            return "the smoke study does not measure these rows"
        edited = self.edited(stems) if self.allowed else []
        for stem in edited:
            self._lost.setdefault(stem, []).append(name)
        verb = "measures" if len(edited) == 1 else "measure"
        return f"{self.files(edited)} no longer {verb} this" if edited else ""

    def files(self, stems: Iterable[str]) -> str:
        """The config files of tables."""
        return listing(f"config/{self._study}/{stem}.yaml" for stem in stems)

    def warn(self, thing: str, outcome: str) -> None:
        """One warning on stderr: how many claims or numbers were excused, and which, for each table."""
        if self._lost:
            many = len({name for names in self._lost.values() for name in names})
            lines = [f"  {self.files([stem])}: {', '.join(names)}" for stem, names in self._lost.items()]
            head = (
                f"warning: {count(many, thing)} {outcome}: edited config files no longer measure their rows:"
            )
            print("\n".join([head, *lines]), file=sys.stderr)

    def _origins(self, stems: Iterable[str]) -> list[str]:
        found: dict[str, None] = {}
        todo = list(stems)
        while todo:
            stem = todo.pop(0)
            if stem in SUMMARIES:
                todo += sorted(
                    path.stem for path in self._folder.glob("[!.]*.csv") if path.stem not in SUMMARIES
                )
            elif stem not in found:
                found[stem] = None
                todo += _needs(stem)
        return list(found)


@cache
def _needs(stem: str) -> tuple[str, ...]:
    """The tables that an experiment is computed from: NEEDS in its module, read without importing it."""
    path = Path(constants.__file__).parent / "experiments" / f"{stem}.py"
    return (path.exists() and constants.constant(path, "NEEDS")) or ()


def _differs(path: Path) -> bool:
    """Whether the recorded configuration of a table differs from that of the newest archived run."""
    archived = archive.latest(path.stem, archive.WHOLE)
    if archived is None or not path.exists():
        return False
    here, there = (tables.read_meta(table).get("config") for table in (path, archived))
    return here is not None and here != there
