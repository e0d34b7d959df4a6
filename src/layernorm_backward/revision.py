"""The commit that the code is at."""

import os
import subprocess
from pathlib import Path

TOLD = "LAYERNORM_COMMIT"


def commit() -> str:
    """The commit of the working tree, with "+changes" where it is edited.

    Outside of a checkout that of the environment variable TOLD, else "".
    """
    try:
        text = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get(TOLD, "")
    return text.stdout.strip()
