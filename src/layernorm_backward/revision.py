"""The commit that the code is at."""

import subprocess
from pathlib import Path


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
