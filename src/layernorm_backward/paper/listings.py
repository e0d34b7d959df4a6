"""Rows of the paper's longer tables: the claims, and what shows what."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$~^|@])")


def plain(text: str) -> str:
    """Text in which no character means anything to Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def claim_rows(claims: Iterable[Mapping[str, Any]], origin: str) -> list[dict[str, str]]:
    """The claims of one origin: the claim, its verdict, what was measured and under which condition."""
    return [
        {
            "claim": f"`{row['claim']}`: {plain(row['says'])}",
            "verdict": f"**{row['verdict']}**" if row["verdict"] != "confirmed" else row["verdict"],
            "measured": ". ".join(plain(part).rstrip(".") for part in _measured(row) if part),
        }
        for row in claims
        if row["origin"] == origin
    ]


def experiment_rows(meta: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """One row a measured table: the command that makes it, how long that took, and its rows."""
    return [
        {
            "table": f"`{stem}`",
            "command": f"`config/{record['study']}/{stem}.yaml`",
            "seconds": f"{record['duration_s']:.0f}",
            "rows": str(record["rows"]),
            "code": f"`{record['code_hash'][:8]}`",
        }
        for stem, record in meta.items()
        if stem != "claims"
    ]


def _measured(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["value"], row["condition"], row["reason"]
