"""A figure drawn from the tables of a folder, into files."""

import importlib
from collections.abc import Iterable
from pathlib import Path

from layernorm_backward import figures, files, tables
from layernorm_backward.figures import style


def write(stem: str, tables_dir: Path, out: Path, suffixes: Iterable[str] = (".pdf", ".png")) -> None:
    """Draw a figure and write it as `out` with each of the suffixes; ValueError where there is none such."""
    if stem not in figures.FIGURES:
        raise ValueError(f"no figure is called {stem!r}; there are: {', '.join(figures.FIGURES)}")
    module = importlib.import_module(figures.module_name(stem))
    with style.context():
        drawing = module.draw(*(tables.read(tables_dir / f"{name}.csv") for name in module.TABLES))
        drawing.draw_without_rendering()  # laid out once, not for each file
        drawing.set_layout_engine("none")
        for suffix in suffixes:
            with files.whole(out.with_suffix(suffix)) as temporary:
                drawing.savefig(temporary, metadata=style.metadata(suffix))
