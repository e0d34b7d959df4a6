"""The summary that ends a run: the paper, the verdicts of the claims, tables that agree with the archive.

Then the warnings of the rules, which scroll by during a run; the timed tables beside which other processes
ran; and the tables measured on another processor or with other versions than the rest, or than at present.

    python -m layernorm_backward.studies.summary results/paper

Reads tables, records and logs without pandas, so that a run with nothing to do ends at once.
"""

import csv
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from layernorm_backward import machine
from layernorm_backward.records import mixed, waited
from layernorm_backward.storage import jsonfile

WARNING = re.compile(r"^warning: .*(?:\n  .*)*", re.MULTILINE)  # with the indented lines below it
WARNING_RULES = ("claims", "numbers", "paper_pdf")  # of what is not measured any more, or cut
ALIKE = "warning: not all tables were measured alike, and with what is here now"
VERDICTS = ("confirmed", "corrected", "refuted", "not measured")


def summary(results: Path) -> str:
    """Three lines on a study's results, then warnings; ValueError names a file that is missing or spoilt."""
    paper = results / "paper.pdf"
    claims, comparison = (results / "tables" / f"{stem}.csv" for stem in ("claims", "comparison"))
    for path in (paper, claims, comparison):
        if not path.exists():
            raise ValueError(f"{path}: there is no such file; make it with: make paper STUDY={results.name}")
    counts = Counter(_column(claims, "verdict"))
    judged = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS]
    judged += [f"{count} {verdict}" for verdict, count in sorted(counts.items()) if verdict not in VERDICTS]
    lines = [f"paper: {paper} (and .html, .md, .tex)", f"claims: {', '.join(judged)}"]
    lines.append(f"archive: {_agreement(_column(comparison, 'table'), _column(comparison, 'passed'))}")
    records = _records(results / "tables")
    return "\n".join([*lines, *_warnings(results / "logs"), *waited.warnings(records), *_mixed(records)])


def _column(table: Path, name: str) -> list[str]:
    """A column of a table; ValueError where it has none of that name."""
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if rows and name not in rows[0]:
        raise ValueError(f"{table}: has no column {name!r}; remove it to have it made again")
    return [row[name] for row in rows]


def _warnings(logs: Path) -> list[str]:
    """What each rule warned of when it last ran."""
    paths = [logs / f"{rule}.log" for rule in WARNING_RULES]
    return [
        it for path in paths if path.exists() for it in WARNING.findall(path.read_text("utf-8", "replace"))
    ]


def _records(tables: Path) -> dict[str, dict[str, Any]]:
    return {path.name.partition(".")[0]: jsonfile.load(path) for path in tables.glob("[!.]*.meta.json")}


def _mixed(records: dict[str, dict[str, Any]]) -> list[str]:
    """A warning that names the facts which differ between the tables of a run, or from what is here now."""
    differences = [f"  {it}" for it in mixed.differences(records, here=machine.describe())]
    return [f"{ALIKE}; remove a table to have it measured again:", *differences] if differences else []


def _agreement(compared: list[str], passed: list[str]) -> str:
    """How many tables agree with the archived ones, and the names of those that do not."""
    counts = Counter(passed)
    differing = [table for table, agrees in zip(compared, passed, strict=True) if agrees == "False"]
    named = f" ({', '.join(differing)})" if differing else ""
    return f"{counts['True']} tables agree, {len(differing)} differ{named}, {counts['']} not compared"


def main(argv: list[str]) -> int:
    """Print the summary of the results folder that is named; an error ends in one line and exit code 1."""
    try:
        print(summary(Path(*argv)))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
