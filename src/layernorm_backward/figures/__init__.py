"""The figures: one module each, with the `TABLES` it reads and `draw(*tables) -> Figure`."""

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
