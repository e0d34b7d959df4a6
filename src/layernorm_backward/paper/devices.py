"""The devices that tables on a GPU were measured on, as their records tell."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Record = Mapping[str, Any]


class Source(NamedTuple):
    """A device, its driver and the commit of the code; the tables that were measured so."""

    gpu: str
    driver: str
    commit: str
    tables: list[str]


def sources(records: Mapping[str, Record], stems: Iterable[str]) -> list[Source]:
    """Where some tables are from, each with those that are; that of most tables comes first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for stem in stems:
        its = records[stem]["machine"]
        where = (its.get("gpu", ""), its.get("driver", ""), records[stem].get("commit", ""))
        found.setdefault(where, []).append(stem)
    return sorted((Source(*where, tables) for where, tables in found.items()), key=lambda it: -len(it.tables))
