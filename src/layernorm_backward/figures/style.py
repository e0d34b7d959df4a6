"""How every figure looks: one style file, and one colour, marker and line for each name in the tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib

TEXT_WIDTH = 6.3  # inches: A4 less the margins of the paper's templates
GREY = "#6E6E6E"  # guides, bounds and roofs, which are not measured
HATCH = {"facecolor": "white", "edgecolor": "#A8A8A8", "hatch": "////", "linewidth": 0}  # what cannot be
SMALL = 7  # points: the smallest text of a key or a cell
UPSTREAM = {
    "normal": r"$dy\sim N(0,1)$",
    "shifted": r"$dy\sim N(1,1)$",
    "correlated": r"$dy$ correlated with $x$",
}
MATH = {"y": r"$y$", "dx": r"$dx$", "dgamma": r"$d\gamma$", "dbeta": r"$d\beta$"}

_STYLE = Path(__file__).with_name("style.mplstyle")
_UNDATED = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}


@dataclass(frozen=True)
class Look:
    """How one name is drawn; `fill` is "none" for an open marker."""

    colour: str
    marker: str
    line: Any = "-"
    fill: Literal["full", "none"] = "full"
    size: float = 3.6  # points

    @property
    def point(self) -> dict[str, Any]:
        """Keyword arguments of a marker alone."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "markersize": self.size,
            "markerfacecolor": self.colour if self.fill == "full" else "none",
            "linestyle": "none",
        }

    @property
    def curve(self) -> dict[str, Any]:
        """Keyword arguments of a line with markers."""
        return self.point | {"linestyle": self.line}


# Colours: Okabe & Ito (2008), distinguishable with every common colour blindness, and darker shades of them
# where there are more names than colours. In grey, marker, filling and line distinguish names.
_DOTS, _DASHES, _MIXED, _LONG = (0, (1, 1.2)), (0, (4, 1.4)), (0, (5, 1.2, 1, 1.2)), (0, (8, 1.6))
LOOKS: dict[str, Look] = {
    # kernels
    "reference": Look("#000000", "o", _DOTS, "none", 5.5),
    "compact": Look("#D55E00", "s", _DASHES),
    "overcached": Look("#CC79A7", "D", _MIXED, "none", 5.0),
    "recentred": Look("#0072B2", "^", "-", "none"),
    "numpy_blocked": Look("#56B4E9", "P", _LONG, size=4.4),
    "numba_fused": Look("#009E73", "v", "-"),
    # kernels on a GPU
    "cuda_fused": Look("#006B50", "*", "-", size=5.5),
    "cuda_uncentred": Look("#00334F", "o", _DASHES, "none", 5.5),
    "cuda_separate": Look("#000000", "D", _DOTS, "none", 4.2),
    "cupy_compact": Look("#4B3B8F", "h", _MIXED, "none", 4.8),
    # other packages
    "torch": Look("#D55E00", "o", "-", size=4.0),
    "jax": Look("#0072B2", "s", _DASHES, size=4.0),
    # other packages on a GPU, and JAX as above
    "torch_eager": Look("#D55E00", "o", "-"),
    "torch_compile": Look("#E69F00", "^", _MIXED, size=4.2),
    "triton_tutorial": Look("#56B4E9", "P", _LONG, size=4.4),
    "liger": Look("#CC79A7", "X", "-", size=4.4),
    "quack": Look("#8C5A00", "v", _DASHES, "none", 4.2),
    # schemes of the traffic model, which are no kernels
    "separate": Look("#6E6E6E", "P", _DOTS),
    "fused": Look("#6E6E6E", "X", _DASHES, "none"),
    # algorithms for the variance: naive ones warm and open, stable ones cold
    "naive": Look("#D55E00", "x", "-"),
    "naive_s2": Look("#E69F00", "+", _DASHES),
    "naive_nn": Look("#8C5A00", "1", _DOTS),
    "naive_compensated": Look("#CC79A7", "s", _MIXED, "none"),
    "two_pass": Look("#56B4E9", "D", "-"),
    "two_pass_corrected": Look("#0072B2", "o", "-"),
    "welford": Look("#009E73", "*", _DASHES, size=5.0),
    "chan": Look("#006B50", "v", _MIXED),
    "shifted": Look("#000000", "o", _DOTS, "none", 5.0),
    # other algorithms for mean and variance
    "recentred_sums": Look("#0072B2", ">", _DASHES, "none"),
    "float64_mean": Look("#8C5A00", "P", _MIXED, "none"),
    "float64_statistics": Look("#6E6E6E", "X", _LONG),
    # orders of summation
    "running": Look("#D55E00", "s", _DASHES),
    "pairwise": Look("#0072B2", "o", "-", "none"),
    "chunked": Look("#009E73", "v", "-"),
    "compensated": Look("#000000", "x", _DOTS),
    # places of eps
    "inside": Look("#0072B2", "o", "-"),
    "outside": Look("#D55E00", "s", _DASHES, "none"),
    "none": Look("#6E6E6E", "x", _DOTS),
    "stored": Look("#CC79A7", "D", _MIXED),
    # methods of the gradient check, darker with the order
    "central2": Look("#56B4E9", "o", "-", "none"),
    "central4": Look("#0072B2", "s", _DASHES),
    "central6": Look("#00334F", "^", _MIXED, "none"),
    "richardson": Look("#D55E00", "D", _LONG),
    "complex_step": Look("#000000", "x", _DOTS),
    # what is saved for the mean: plain numbers from dark to light, others warm
    "mean_float64": Look("#000000", "o", _DOTS, "none", 5.5),
    "mean_float32": Look("#00334F", "s", "-"),
    "mean_float16": Look("#0072B2", "^", _DASHES, "none"),
    "mean_bfloat16": Look("#56B4E9", "D", "-"),
    "mean_and_shift": Look("#009E73", "v", _LONG),
    "first_element": Look("#E69F00", "x", _MIXED),
    "x_hat": Look("#D55E00", "+", _DASHES),
    "corrected_rstd": Look("#CC79A7", "P", "-"),
    # the outcome of a gradient check for a fault
    "caught": Look("#56B4E9", "s", size=4.4),
    "missed": Look("#D55E00", "o", "-", "none", 4.4),
    "no fault here": Look("#6E6E6E", "_", size=3.6),
    # quantities
    "y": Look("#000000", "x"),
    "dx": Look("#0072B2", "o"),
    "dgamma": Look("#E69F00", "s"),
    "dbeta": Look("#009E73", "^", "-", "none"),
}
_SPARE = tuple(
    Look(colour, marker, line)
    for marker, line in (("P", "-"), ("X", _DASHES), ("p", _MIXED), ("h", _LONG))
    for colour in ("#E69F00", "#56B4E9", "#8C5A00", "#4B3B8F")
)
_others: dict[str, Look] = {}  # of the figure that is drawn


def look(name: str) -> Look:
    """The look of a name; names not listed (kernels of other packages) get spare ones in turn."""
    return LOOKS.get(name) or _others.setdefault(name, _SPARE[len(_others) % len(_SPARE)])


def ordered(names: Any) -> list[str]:
    """The different names in `names` in the order of LOOKS, others after them by the alphabet."""
    known = list(LOOKS)
    return sorted(set(names), key=lambda name: (known.index(name) if name in LOOKS else len(known), name))


@contextmanager
def context() -> Iterator[None]:
    """Matplotlib's defaults, style.mplstyle and all spare looks, whatever the user's own settings are."""
    _others.clear()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rc_file(_STYLE, use_default_template=False)
        yield


def metadata(suffix: str) -> dict[str, Any]:
    """What savefig writes into a file of this suffix: no date, so that equal tables give equal bytes."""
    return _UNDATED[suffix]
