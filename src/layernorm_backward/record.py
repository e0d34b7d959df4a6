"""The record beside each table: machine, versions, code, configuration, date and duration."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from layernorm_backward import machine
from layernorm_backward.provenance import code_hash


def record(module: str, config: dict[str, Any], config_path: Path, started: datetime) -> dict[str, Any]:
    """What a reader needs to judge and to repeat a table; `started` is in UTC."""
    return {
        "study": config_path.parent.name,
        "config": config,
        "code_hash": code_hash(module, config.get("kernels", ())),
        "commit": commit(),
        "date": started.isoformat(timespec="seconds"),
        "duration_s": round((datetime.now(UTC) - started).total_seconds(), 3),
        "machine": machine.describe(),
    }


def commit() -> str:
    """The commit of the working tree, with "+changes" where it is edited; "" outside of a checkout."""
    try:
        text = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return text.stdout.strip()
