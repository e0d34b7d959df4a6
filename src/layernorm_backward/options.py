"""Shared by the interactive commands: one-line errors, progress, memory limit, output file."""

import argparse
import errno
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from layernorm_backward.timing import sizing
from layernorm_backward.untrusted import watch
from layernorm_backward.untrusted.stdout import errors


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage; exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see --help\n")


def seconds(word: str) -> float:
    """What an option says in seconds; ArgumentTypeError where that is no time."""
    try:
        found = float(word)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{word}; allowed: finite and > 0")
    return found


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """ValueError, with the option, where what is done inside cannot write the file of `--out`."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written: {error.strerror}") from None


def require_writable(out: Path) -> None:
    """ValueError where the file of `--out` cannot be written, before anything is measured for it."""
    with writing(out):
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=out.parent):
            pass


def require_csv(out: Path) -> None:
    """ValueError where the file of `--out` is no CSV file by its name, or cannot be written."""
    require_writable(out)
    if out.suffix != ".csv":
        raise ValueError(f"--out {out}; allowed: a name that ends in .csv")


def require_memory(rows: int, hidden: int, element_bytes: int) -> None:
    """ValueError where rows x hidden elements take more than a third of the available memory.

    It says what would fit.
    """
    limit = sizing.memory_limit()
    row = hidden * element_bytes
    size = rows * row
    if size <= limit:
        return
    fits = f"--rows up to {limit // row}"
    if row > limit:
        fits = f"--rows 1 and --hidden up to {limit // element_bytes}"
    said = f"the arrays take {size / 1e9:.3g} GB, over {limit / 1e9:.3g} GB, a third of the memory"
    raise ValueError(f"{said}; allowed here: {fits}")


@contextmanager
def progress(steps: int, what: str) -> Iterator[Callable[[str], None]]:
    """A bar of so many steps, as long as it is open: a function that is told what comes next."""
    with tqdm(total=steps, desc=what, leave=False, file=errors(), dynamic_ncols=True) as bar:

        def tick(step: str) -> None:
            watch.update(step=f"{what}: {step}", function="")
            bar.set_postfix_str(step, refresh=False)
            bar.update()

        yield tick
