"""The summary at the end of a run: the paper, the verdicts of the claims, the comparison with the archive.

Warnings follow: those of the rules, which scroll by during a run; timed tables beside which other processes
ran; and tables measured in different environments (processor, versions), or in another than the present one.

    python -m layernorm_backward.studies.summary results/paper

Reads tables, records and logs without pandas, so that a run with nothing to do ends quickly.
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

WARNING = re.compile(r"^warning: .*(?:\n  .*)*", re.MULTILINE)  # with its indented lines
WARNING_RULES = ("claims", "numbers", "paper_pdf")  # that warn of missing rows, or of a page that is too full
ENVIRONMENTS = "warning: tables were measured in different environments, or in another than the present one"
VERDICTS = ("confirmed", "corrected", "refuted", "not measured")


def summary(results: Path) -> str:
    """Three lines on the results of a study, then warnings; ValueError names a missing or broken file."""
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
    """A column of a table; ValueError if there is none of that name."""
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if rows and name not in rows[0]:
        raise ValueError(f"{table}: has no column {name!r}; remove the file to have it made again")
    return [row[name] for row in rows]


def _warnings(logs: Path) -> list[str]:
    """The warnings of each rule in its last run."""
    paths = [logs / f"{rule}.log" for rule in WARNING_RULES]
    return [
        it for path in paths if path.exists() for it in WARNING.findall(path.read_text("utf-8", "replace"))
    ]


def _records(tables: Path) -> dict[str, dict[str, Any]]:
    return {path.name.partition(".")[0]: jsonfile.load(path) for path in tables.glob("[!.]*.meta.json")}


def _mixed(records: dict[str, dict[str, Any]]) -> list[str]:
    """A warning that lists what differs between the environments of the tables, or from the present one."""
    differences = [f"  {it}" for it in mixed.differences(records, here=machine.describe())]
    return [f"{ENVIRONMENTS}; remove a table to have it measured again:", *differences] if differences else []


def _agreement(compared: list[str], passed: list[str]) -> str:
    """How many tables agree with the archived ones, and the names of those that do not."""
    counts = Counter(passed)
    differing = [table for table, agrees in zip(compared, passed, strict=True) if agrees == "False"]
    named = f" ({', '.join(differing)})" if differing else ""
    return f"{counts['True']} tables agree, {len(differing)} differ{named}, {counts['']} not compared"


def main(argv: list[str]) -> int:
    """Print the summary of the given results folder; an error gives one line and exit code 1."""
    try:
        print(summary(Path(*argv)))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
