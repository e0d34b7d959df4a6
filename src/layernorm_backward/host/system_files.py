"""Text files of the operating system, as below /proc and /sys."""

from pathlib import Path


def contents(path: Path) -> str:
    """The text of a file, without surrounding white space; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
