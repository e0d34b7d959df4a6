"""What to think of the findings that failed, said once for all that have the same cause."""

import re
from collections.abc import Iterable

from layernorm_backward.audit.behaviour import LOST_ROWS, TWO_AXES
from layernorm_backward.audit.setting import Finding
from layernorm_backward.audit.sweep import QUANTITIES

FORMULA = "backward is not the derivative of forward, or forward is too rough to tell"
WRONG = "as wrong as everywhere: mend that first"
READ_ONLY = "read-only arrays, as the gradient check passes them too, are refused or written to"
UNLIKE = "no two runs agree, other calls or none: make them repeatable first"
ADVICE: dict[str, str] = {
    "eps_obeyed": "eps is not the one given, or not inside of the root",
    "long_sums": "keep sums over rows in float32 or wider",
    "ones_counted": "dbeta is summed in a dtype that stands still",
    "repeatable": "a sum without a fixed order, or backward writes to `saved`",
    "undisturbed": "calls share a buffer: what is saved or returned is overwritten by the next call",
    "inputs_kept": "the caller's arrays are overwritten",
    "into_out": "write each result into all of its `out`, whatever that held, and nothing beside it",
    "edge_leading_axes": "normalize over the last axis, sum dgamma and dbeta over all others",
    "edge_width_1": "for D = 1 dx and dgamma are to be exactly 0",
    "edge_no_rows": "for no rows dgamma and dbeta are 0",
    "edge_nan_row": "a NaN stays in its row of y and dx",
    "edge_x_deleted": "backward reads x, which was not saved",
    "edge_non_contiguous": "arrays need not be contiguous: read them by their strides, or copy them",
    "edge_read_only": READ_ONLY,
    "edge_dy_sparse": "where dy is 0, dx is not",
    "edge_gamma_zeros": "x_hat cannot be had from y where gamma is 0; gamma may be negative",
    "edge_gamma_uniform": "gamma may be the same throughout and not 1",
} | dict.fromkeys(("edge_dy_transposed", "edge_dy_expanded"), "dy may lie in memory unlike x")
ADVICE |= dict.fromkeys(
    ("edge_widths", "edge_widths_far", "edge_width_4099", "edge_rows_1031"),
    "what is left over after whole blocks is lost",
)
ASKED = tuple(  # of the arrays or sizes that these give it, a kernel may have refused too much
    f"edge_{name}"
    for name in (
        "leading_axes",
        "width_1",
        "no_rows",
        "non_contiguous",
        "read_only",
        "dy_transposed",
        "dy_expanded",
    )
)
NEEDS = {"eps_obeyed": QUANTITIES, "long_sums": QUANTITIES, "ones_counted": ("dbeta",)}
CHUNKS = "rows of y or dx are wrong where there are many: look at the borders between chunks of rows"
FAR = ("edge_tiny_variance", "edge_offset_1e8", "edge_widths_far")
FLAT = (
    "the std is 0, and what the mean is rounded by is all that is left: mend what grows with mean/std first"
)
RANGE = "a square or a product overflows or underflows, or eps is not the one given"
LEVEL = "too large at every mean/std: the formula, eps or a dtype is wrong, or rows are added up one by one"
FEW = "too large from a mean/std on, by no clear power of it"
SWEEP = "grows with mean/std: keep that below the value of _kappa, or centre the row twice"
SQUARE = "grows with the square of mean/std: do not use E[x^2] - E[x]^2, and centre the row twice"


def advice(found: list[Finding]) -> dict[str, list[str]]:
    """What to think, and of which properties that failed; as they were measured, but WRONG comes last."""
    by_name = {finding.property: finding for finding in found}
    said: dict[str, list[str]] = {}
    for finding in found:
        if finding.passed is False and finding.property != "edge_cases":
            said.setdefault(_about(finding, by_name), []).append(finding.property)
    return said | {WRONG: said.pop(WRONG)} if WRONG in said else said


def _about(finding: Finding, by_name: dict[str, Finding]) -> str:
    name = finding.property
    if finding.note.endswith(TWO_AXES):
        return TWO_AXES
    if finding.raised:
        return _of_raised(finding, by_name)
    if _wrong_everywhere(name, by_name):
        return WRONG
    if LOST_ROWS in finding.note:
        return CHUNKS
    if any(_grows(quantity, by_name) for quantity in QUANTITIES):
        if name == "edge_constant_rows":
            return FLAT
        if name in FAR:
            return "the mean is large beside the std: mend what grows with mean/std first"
    if name == "gradient_check":
        return FORMULA
    if name in ("undisturbed", "into_out", "edge_rows_1031"):
        return _of_another(finding, by_name) or ADVICE[name]
    if name in ADVICE:
        return ADVICE[name]
    if name.startswith("edge_"):
        return RANGE if name.startswith("edge_scale") else "not within the limit of the exact result"
    return _of_sweep(name.rpartition("_")[0], by_name)


def _of_raised(finding: Finding, by_name: dict[str, Finding]) -> str:
    if finding.property == "gradient_check" and re.search("read-?only", finding.note, re.IGNORECASE):
        return READ_ONLY
    if finding.property in ASKED and not by_name["y_error"].raised:
        return ADVICE[finding.property]
    return "could not be run; the reason stands above"


def _of_another(finding: Finding, by_name: dict[str, Finding]) -> str:
    """The advice about a property that failed too and is the reason; "" where there is none."""
    twice = by_name["repeatable"]
    unlike = set() if twice.passed else set(twice.note.split(", "))
    if finding.property != "edge_rows_1031":
        return UNLIKE if set(finding.note.split(", ")) <= unlike else ""
    for other in (by_name["long_sums"], by_name["ones_counted"]):
        if not other.passed and not other.raised:
            return _about(other, by_name)
    return UNLIKE if unlike & {"dgamma", "dbeta"} else ""


def _wrong_everywhere(name: str, by_name: dict[str, Finding]) -> bool:
    """Whether a result that this property rests on is wrong on ordinary rows too, or eps is."""
    if name == "long_sums" and not by_name["eps_obeyed"].passed and _wrong("y", by_name):
        return True
    if name == "long_sums" and LOST_ROWS in by_name[name].note:
        return _any_wrong(by_name[name].note.partition(LOST_ROWS)[2].split(", "), by_name)
    if name in NEEDS:
        return not by_name["gradient_check"].passed and _any_wrong(NEEDS[name], by_name)
    return name.startswith("edge_") and _any_wrong(QUANTITIES, by_name)


def _any_wrong(quantities: Iterable[str], by_name: dict[str, Finding]) -> bool:
    return any(_wrong(quantity, by_name) for quantity in quantities)


def _of_sweep(quantity: str, by_name: dict[str, Finding]) -> str:
    if _wrong(quantity, by_name):
        return LEVEL
    if not _grows(quantity, by_name):
        return FEW
    return SQUARE if by_name[f"{quantity}_slope"].value > 1.5 else SWEEP


def _wrong(quantity: str, by_name: dict[str, Finding]) -> bool:
    """Whether a result is wrong at the smallest kappa already."""
    reached = by_name.get(f"{quantity}_kappa")
    return reached is None or reached.value == 0


def _grows(quantity: str, by_name: dict[str, Finding]) -> bool:
    slope = by_name.get(f"{quantity}_slope")
    return slope is not None and not slope.passed
