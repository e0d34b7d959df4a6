"""The figures: one module each, with the `TABLES` it reads, its `CAPTION`, and `draw(*tables) -> Figure`.

Where a figure shows one D of several, `captioned(table)` returns its rows, for `draw` and the caption.
"""

from pathlib import Path

FIGURES = tuple(
    sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if not path.stem.startswith(("_", ".")) and path.stem != "style"
    )
)


def module_name(figure: str) -> str:
    """The dotted module of a figure."""
    return f"{__name__}.{figure}"
