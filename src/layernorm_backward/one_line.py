"""An exception in one line."""

MOST = 200  # characters of what it says, in a table


def one_line(error: BaseException, most: int | None = MOST) -> str:
    """Its type and what it says, of which `most` characters are kept (None: all)."""
    said = " ".join(str(error).split())[:most]
    return ": ".join(filter(None, (type(error).__name__, said)))
