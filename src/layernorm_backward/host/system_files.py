"""What the operating system tells in files, as below /proc and /sys."""

from pathlib import Path


def contents(path: Path) -> str:
    """What a file says, without white space around it; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
