"""What the commands for people share: errors in one line, and a check that a result can be written."""

import argparse
import errno
import os
import tempfile
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage; exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; --help lists what is allowed\n")


def require_writable(out: Path) -> None:
    """ValueError where the file of `--out` cannot be written, before anything is measured for it."""
    try:
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written: {error.strerror}") from None
