"""The experiments: one module each, whose `run(...)` returns the table of the same name.

The keyword arguments of `run` are the keys of config/<study>/<name>.yaml. An experiment that is computed
from other tables names them in `NEEDS`. Modules that begin with an underscore are shared by experiments.
"""

from pathlib import Path

EXPERIMENTS = tuple(
    sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith(("_", ".")))
)


def module_name(experiment: str) -> str:
    """The dotted module of an experiment."""
    return f"{__name__}.{experiment}"
