"""The GPUs on which tables were measured, from their records."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Record = Mapping[str, Any]


class Source(NamedTuple):
    """A device, its driver, the commit of the code, and the tables measured with these."""

    gpu: str
    driver: str
    commit: str
    tables: list[str]


def sources(records: Mapping[str, Record], stems: Iterable[str]) -> list[Source]:
    """The sources of some tables; the source of most tables comes first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for stem in stems:
        its = records[stem]["machine"]
        where = (its.get("gpu", ""), its.get("driver", ""), records[stem].get("commit", ""))
        found.setdefault(where, []).append(stem)
    return sorted((Source(*where, tables) for where, tables in found.items()), key=lambda it: -len(it.tables))
