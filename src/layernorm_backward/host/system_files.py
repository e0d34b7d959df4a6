"""Text files of the operating system, such as those below /proc and /sys."""

from pathlib import Path


def contents(path: Path) -> str:
    """The text of a file, without surrounding white space; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
