"""The attempts at speed in paper/attempts.csv, checked and formatted for the appendix.

One line per attempt: what was tried, the predicted and the measured outcome, and the commit that adopted it
(7 to 40 hexadecimal digits; empty if none did). The text is plain, not Markdown. Its numbers belong to the
attempt; no table holds them.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from layernorm_backward.paper.claim_rows import plain

COLUMNS = ("what", "prediction", "outcome", "commit")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class AttemptsError(ValueError):
    """A file of attempts that cannot be used; each fault has file, line and what is allowed."""


def read(path: Path) -> list[dict[str, str]]:
    """The attempts in the order of the file; AttemptsError lists every fault of the file."""
    if not path.exists():
        raise AttemptsError(f"{path}: there is no such file; its columns are: {', '.join(COLUMNS)}")
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            numbered = [(lines.line_num, cells) for cells in lines]
        except (ValueError, csv.Error) as error:
            raise AttemptsError(f"{path}:{lines.line_num}: not UTF-8 CSV: {error}") from None
    faults = [f"{path}:{line}: {fault}" for line, fault in _faults(numbered)]
    if faults:
        raise AttemptsError("\n".join(faults))
    return [dict(zip(COLUMNS, cells, strict=True)) for _, cells in numbered[1:]]


def rows(path: Path) -> list[dict[str, str]]:
    """The attempts as rows of a table of the paper: text escaped, the commit as code, or a dash."""
    return [
        {name: plain(attempt[name]) for name in COLUMNS[:3]} | {"commit": _kept(attempt["commit"])}
        for attempt in read(path)
    ]


def _kept(commit: str) -> str:
    return f"`{commit[:7]}`" if commit else "\N{EN DASH}"


def _faults(numbered: list[tuple[int, list[str]]]) -> Iterator[tuple[int, str]]:
    """Line and fault, in the order of the file; only the header if that is wrong."""
    header = numbered[0][1] if numbered else []
    if tuple(header) != COLUMNS:
        yield 1, f"the header is {','.join(header) or 'missing'}; allowed: {','.join(COLUMNS)}"
        return
    seen: dict[str, int] = {}
    for line, cells in numbered[1:]:
        if len(cells) != len(COLUMNS):
            yield line, f"{len(cells)} cells; allowed: {len(COLUMNS)}, {', '.join(COLUMNS)}"
            continue
        what, *_, commit = cells
        empty = [name for name, cell in zip(COLUMNS[:3], cells, strict=False) if not cell.strip()]
        if empty:
            yield line, f"{', '.join(empty)} is empty; allowed: text"
        if commit and not _COMMIT.fullmatch(commit):
            yield (
                line,
                f"commit is {commit!r}; allowed: 7 to 40 digits of a hash, or empty if no commit adopted it",
            )
        if seen.setdefault(what, line) != line:
            yield line, f"what repeats line {seen[what]}; allowed: each attempt once"
