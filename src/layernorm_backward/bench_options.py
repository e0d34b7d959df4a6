"""The options of `python -m layernorm_backward bench`, parsed before the slow imports."""

from pathlib import Path

from layernorm_backward.directions import TENSORS
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.options import Parser, seconds

BASELINES = ("numba_fused", "numpy_blocked", "compact")  # the quickest first
DESCRIPTION = (
    "Time a layer normalization beside the memory roof (copy or triad of the same arrays) and beside "
    f"{', '.join(BASELINES)}, in under 20 seconds. Exit code 0: timed, 1: results are wrong, 2: could not "
    "be run. Example: bench --kernel my_norm:forward,backward --rows 16384 --hidden 1024"
)
SECONDS = 18.5
LIMIT_S = 180.0
DIRECTIONS = {**{name: (name,) for name in (*TENSORS, "both")}, "all": (*TENSORS, "both")}


def parser() -> Parser:
    """What reads the words after `bench`."""
    found = Parser(prog="python -m layernorm_backward bench", description=DESCRIPTION)
    one = "MODULE:FORWARD,BACKWARD, two functions, as for `audit`; or the name of one of our kernels"
    options = {
        "--kernel": {"required": True, "metavar": "NAME", "help": one},
        "--rows": {"required": True, "type": int, "metavar": "N", "help": "rows of x"},
        "--hidden": {"required": True, "type": int, "metavar": "D", "help": "elements per row"},
        "--dtype": {"choices": DTYPE_NAMES, "default": "float32", "help": "dtype of x (%(default)s)"},
        "--gamma-dtype": {
            "choices": DTYPE_NAMES,
            "help": "dtype of gamma and beta (that of x); with 16-bit x also float32",
        },
        "--direction": {"choices": DIRECTIONS, "default": "backward", "help": "what is timed (%(default)s)"},
        "--threads": {"default": "all", "metavar": "N", "help": "threads for Numba and BLAS (%(default)s)"},
        "--seconds": {"type": float, "default": SECONDS, "help": "time limit for everything (%(default)s)"},
        "--limit-s": {
            "type": seconds,
            "default": LIMIT_S,
            "metavar": "SECONDS",
            "help": "time limit of one step beyond --seconds, as for compilation (%(default)g)",
        },
        "--seed": {"type": int, "default": 20260423, "help": "seed of the data (%(default)s)"},
        "--out": {"type": Path, "metavar": "CSV", "help": "also write the table to this .csv file"},
    }
    for name, settings in options.items():
        found.add_argument(name, **settings)
    return found
