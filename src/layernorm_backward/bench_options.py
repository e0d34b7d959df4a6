"""The options of `python -m layernorm_backward bench`, which are read before what takes long to import."""

from pathlib import Path

from layernorm_backward.directions import TENSORS
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.options import Parser, seconds

BASELINES = ("numba_fused", "numpy_blocked", "compact")  # the quickest first
DESCRIPTION = (
    "Time a layer normalization beside the roof of memory (copy, triad on the same arrays) and beside "
    f"{', '.join(BASELINES)}, in under 20 seconds. Exit code 0: timed, 1: its results are wrong, 2: it could "
    "not be run."
)
SECONDS = 18.5
LIMIT_S = 180.0
DIRECTIONS = {**{name: (name,) for name in (*TENSORS, "both")}, "all": (*TENSORS, "both")}


def parser() -> Parser:
    """What reads the words after `bench`."""
    found = Parser(prog="python -m layernorm_backward bench", description=DESCRIPTION)
    one = "the name of a kernel, or MODULE:NAME as for `audit`: a Kernel, or a pair (forward, backward)"
    options = {
        "--kernel": {"required": True, "metavar": "NAME", "help": one},
        "--rows": {"required": True, "type": int, "metavar": "N", "help": "rows of x"},
        "--hidden": {"required": True, "type": int, "metavar": "D", "help": "elements of a row"},
        "--dtype": {"choices": DTYPE_NAMES, "default": "float32", "help": "dtype of x (%(default)s)"},
        "--gamma-dtype": {
            "choices": DTYPE_NAMES,
            "help": "dtype of gamma (that of x); allowed beside 16 bits: float32 too",
        },
        "--direction": {"choices": DIRECTIONS, "default": "backward", "help": "what is timed (%(default)s)"},
        "--threads": {"default": "all", "metavar": "N", "help": "threads for Numba and BLAS (%(default)s)"},
        "--seconds": {"type": float, "default": SECONDS, "help": "time that may be taken (%(default)s)"},
        "--limit-s": {
            "type": seconds,
            "default": LIMIT_S,
            "metavar": "SECONDS",
            "help": "time that a step may take beyond --seconds, as compiling does (%(default)g)",
        },
        "--seed": {"type": int, "default": 20260423, "help": "seed of the data (%(default)s)"},
        "--out": {"type": Path, "metavar": "CSV", "help": "write the table there too"},
    }
    for name, settings in options.items():
        found.add_argument(name, **settings)
    return found
