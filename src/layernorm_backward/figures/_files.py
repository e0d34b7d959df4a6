"""Draws a figure from the tables of a folder, and writes it to files."""

import importlib
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import pandas as pd

from layernorm_backward import figures
from layernorm_backward.figures import style
from layernorm_backward.records import archive, tables
from layernorm_backward.storage import files

_NEEDED = {
    "TABLES": "a tuple of that name, of the tables that it is drawn from",
    "CAPTION": "a text of that name, which the paper prints",
    "draw": "a function of that name, which takes the tables and returns the figure",
}


def write(stem: str, tables_dir: Path, out: Path, suffixes: Iterable[str] = (".pdf", ".png")) -> None:
    """Draw a figure and write it as `out` with each of the suffixes.

    ValueError if there is no such figure, or it has no TABLES, CAPTION or `draw`.
    """
    if stem not in figures.FIGURES:
        raise ValueError(f"no figure is called {stem!r}; there are: {', '.join(figures.FIGURES)}")
    module = importlib.import_module(figures.module_name(stem))
    for part, what in _NEEDED.items():
        if not hasattr(module, part):
            raise ValueError(f"{module.__file__}: no {part}; needed: {what}")
    with style.context():
        drawing = module.draw(*(_table(tables_dir, name) for name in module.TABLES))
        drawing.draw_without_rendering()  # laid out once; with an engine, each file would be drawn twice
        with matplotlib.rc_context({"figure.constrained_layout.use": False}):
            drawing.set_layout_engine(None)
        for suffix in suffixes:
            with files.whole(out.with_suffix(suffix)) as temporary:
                drawing.savefig(temporary, metadata=style.metadata(suffix))


def _table(tables_dir: Path, name: str) -> pd.DataFrame:
    """A table of a folder; ValueError if it is missing, naming the archive folder that holds one."""
    path = tables_dir / f"{name}.csv"
    elsewhere = not path.exists() and archive.ARCHIVE.is_dir()
    if found := elsewhere and archive.latest(name, archive.WHOLE):
        raise ValueError(f"{path}: there is no such table, but {found}; needed: all tables in one folder")
    return tables.read(path)
