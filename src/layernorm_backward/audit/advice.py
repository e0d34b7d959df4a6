"""The likely causes of the findings that failed, each stated once for all findings that share it."""

import re
from collections.abc import Iterable

from layernorm_backward.audit.advice_texts import (
    ADVICE,
    CHUNKS,
    FAR_MEAN,
    FEW,
    FLAT,
    FORMULA,
    LEVEL,
    OVERWRITTEN,
    RANGE,
    READ_ONLY,
    SQUARE,
    SWEEP,
    UNLIKE,
    WRONG,
)
from layernorm_backward.audit.behaviour import TWO_AXES, WRONG_ARE
from layernorm_backward.audit.calls import Y_BY_BACKWARD
from layernorm_backward.audit.setting import Finding
from layernorm_backward.audit.sweep import FLOOR, QUANTITIES

REFUSABLE = tuple(  # cases whose arrays or sizes a kernel may have refused on purpose
    f"edge_{name}"
    for name in (
        "leading_axes",
        "one_axis",
        "four_axes",
        "width_1",
        "no_rows",
        "non_contiguous",
        "read_only",
        "dy_transposed",
        "dy_expanded",
    )
)
NEEDS = {"eps_obeyed": QUANTITIES, "long_sums": QUANTITIES, "ones_counted": ("dbeta",)}
SUMS = {"long_sums": {"dgamma", "dbeta"}, "ones_counted": {"dbeta"}}
FAR = ("edge_tiny_variance", "edge_offset_1e8", "edge_widths_far")


def advice(found: list[Finding]) -> dict[str, list[str]]:
    """Each likely cause with the properties that failed by it, as they were measured; WRONG comes last."""
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
    if text := _of_calls(finding, by_name):
        return text
    if _wrong_everywhere(name, by_name):
        return WRONG
    if name == "long_sums" and WRONG_ARE in finding.note:
        return CHUNKS
    if any(_grows(quantity, by_name) for quantity in QUANTITIES):
        if name == "edge_constant_rows":
            return FLAT
        if name in FAR:
            return FAR_MEAN
    if name == "gradient_check":
        return FORMULA
    if name == "edge_rows_1031":
        return _of_sums(by_name) or ADVICE[name]
    if name in ADVICE:
        return ADVICE[name]
    if name.startswith("edge_"):
        return RANGE if name.startswith("edge_scale") else "error over the limit"
    return _of_sweep(name.rpartition("_")[0], by_name)


def _of_raised(finding: Finding, by_name: dict[str, Finding]) -> str:
    given = finding.property == "gradient_check" or finding.property.startswith("edge_")
    if given and re.search("read-?only", finding.note, re.IGNORECASE):
        return READ_ONLY
    asked = finding.property in REFUSABLE and not by_name["y_error"].raised
    if asked or [name for name, other in by_name.items() if other.raised] == ["undisturbed"]:
        return ADVICE[finding.property]
    return "could not be run, for the reason above"


def _of_calls(finding: Finding, by_name: dict[str, Finding]) -> str:
    """The advice where all results that a property names change from call to call; "" where not."""
    names = _named(finding)
    if names and Y_BY_BACKWARD in by_name["undisturbed"].note and names <= {"y", Y_BY_BACKWARD}:
        return OVERWRITTEN
    return UNLIKE if names and names <= _unlike(by_name) else ""


def _named(finding: Finding) -> set[str]:
    """The results that a property names, if it names any."""
    name, wrong = finding.property, finding.note.partition(WRONG_ARE)[2]
    if name in ("undisturbed", "into_out"):
        return set(finding.note.split(", "))
    if wrong:
        return set(wrong.split(", "))
    quantity = name.rpartition("_")[0]
    return {quantity} if quantity in QUANTITIES else SUMS.get(name, set())


def _unlike(by_name: dict[str, Finding]) -> set[str]:
    twice = by_name["repeatable"]
    return set() if twice.passed else set(twice.note.split(", "))


def _of_sums(by_name: dict[str, Finding]) -> str:
    """The advice about sums over many rows, where they failed too; "" where they did not."""
    for other in (by_name["long_sums"], by_name["ones_counted"]):
        if not other.passed and not other.raised:
            return _about(other, by_name)
    return UNLIKE if _unlike(by_name) & {"dgamma", "dbeta"} else ""


def _wrong_everywhere(name: str, by_name: dict[str, Finding]) -> bool:
    """Whether a result that this property rests on is wrong on ordinary rows too, or eps is."""
    if name == "long_sums" and not by_name["eps_obeyed"].passed and _wrong("y", by_name):
        return True
    if name == "long_sums" and WRONG_ARE in by_name[name].note:
        return _any_wrong(_named(by_name[name]), by_name)
    if name == "eps_obeyed" and by_name[name].value <= FLOOR * _worst(by_name):
        return _any_wrong(QUANTITIES, by_name)
    if name in NEEDS:
        return not by_name["gradient_check"].passed and _any_wrong(NEEDS[name], by_name)
    return name.startswith("edge_") and _any_wrong(QUANTITIES, by_name)


def _worst(by_name: dict[str, Finding]) -> float:
    return max(by_name[f"{quantity}_error"].value for quantity in QUANTITIES)


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
