"""An exception in one line."""

MOST = 200  # characters of the message, in a table


def one_line(error: BaseException, most: int | None = MOST) -> str:
    """The type and the message, the latter cut to `most` characters (None: uncut)."""
    said = " ".join(str(error).split())[:most]
    return ": ".join(filter(None, (type(error).__name__, said)))
