"""What a promotion is held to: ValueError where it would publish what does not belong together."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from layernorm_backward.records import mixed


def require_one_machine(records: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse tables of several CPUs or several GPUs; a warning names what else differs, such as versions."""
    for group in mixed.apart(records):
        processors = sorted({mixed.processor(record["machine"]) for record in group.values()})
        if len(processors) > 1:
            raise ValueError(
                f"the tables come from several machines: {', '.join(processors)}; measure them on one"
            )
    for difference in mixed.differences(records):
        print(f"warning: not all tables were measured alike: {difference}", file=sys.stderr)


def require_later(made: Path, tables: Iterable[Path]) -> None:
    """Refuse what is not there, and what is older than a table that it is made from."""
    if not made.exists():
        raise ValueError(f"{made}: there is no such file; run make paper first")
    for table in tables:
        if made.stat().st_mtime_ns < table.stat().st_mtime_ns:
            raise ValueError(f"{made}: is older than {table.name}; remove it, and run make paper first")
