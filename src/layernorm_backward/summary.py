"""How a run ends: where the paper is, and how many claims came out how.

    python -m layernorm_backward.summary results/paper

Reads the table of claims with the standard library alone, so that a run with nothing to do ends at once.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

VERDICTS = ("confirmed", "corrected", "refuted", "not measured")


def summary(results: Path) -> str:
    """Two lines on a study's results; ValueError names the file that is missing."""
    paper, claims = results / "paper.pdf", results / "tables" / "claims.csv"
    for path in (paper, claims):
        if not path.exists():
            raise ValueError(f"{path}: there is no such file; make it with: make paper STUDY={results.name}")
    with claims.open(encoding="utf-8", newline="") as lines:
        counts = Counter(row["verdict"] for row in csv.DictReader(lines))
    judged = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS]
    judged += [f"{count} {verdict}" for verdict, count in sorted(counts.items()) if verdict not in VERDICTS]
    return f"paper: {paper} (and .html, .md, .tex)\nclaims: {', '.join(judged)}"


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
