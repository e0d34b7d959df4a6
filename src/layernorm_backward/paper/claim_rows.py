"""Rows of the paper's tables of claims."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$~^@])")


def plain(text: str) -> str:
    """Text with the special characters of Markdown escaped, except bars: `markdown_table` escapes those."""
    return _SPECIAL.sub(r"\\\1", text)


def claim_rows(claims: Iterable[Mapping[str, Any]], origin: str) -> list[dict[str, str]]:
    """The claims of one origin: claim, verdict, measured value, its condition and the reason for the verdict.

    The reason is left out where a claim is confirmed; the table `claims` has it.
    """
    return [
        {
            "claim": f"`{row['claim']}`: {plain(row['says'])}",
            "verdict": f"**{row['verdict']}**" if row["verdict"] != "confirmed" else row["verdict"],
            "measured": ". ".join(plain(part).rstrip(".") for part in _measured(row) if part),
        }
        for row in claims
        if row["origin"] == origin
    ]


def judged(row: Mapping[str, Any]) -> str:
    """A claim within a sentence: its name and verdict."""
    return f"claim `{row['claim']}`, {row['verdict']}"


def _measured(row: Mapping[str, Any]) -> tuple[str, ...]:
    reason = () if row["verdict"] == "confirmed" else (row["reason"],)
    return row["value"], row["condition"], *reason
