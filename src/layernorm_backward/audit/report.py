"""An audit as a table for people, and as rows for programs."""

import math
import re
import textwrap
from collections.abc import Iterable
from typing import Any

from layernorm_backward.audit.advice import advice
from layernorm_backward.audit.advice_texts import WRONG
from layernorm_backward.audit.behaviour import TWO_AXES
from layernorm_backward.audit.setting import Finding, Setting
from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.kernels import Kernel

WIDTH = 100
MEANING: dict[str, str] = {
    "gradient_check": "error/tolerance, by finite differences",
    "eps_obeyed": "error on rows of variance eps",
    "long_sums": "error of dgamma, dbeta",
    "ones_counted": "dbeta where each dy is 1",
    "repeatable": "results that change on a second run",
    "undisturbed": "results that change with other calls",
    "inputs_kept": "inputs that were written to",
    "into_out": "results that differ in `out`",
    "error": "largest error",
    "slope": "power of mean/std",
    "kappa": "mean/std up to which the error is within the limit",
    "cases": "edge cases that fail",
}
_VERDICT = {True: "passed", False: "FAILED", None: "skipped"}
_HEADER = f"{'':8}{'property':20}{'value':>9}{'limit':>9}  meaning"
_INDENT = " " * 48


def text(kernel: Kernel, dtype: str, setting: Setting, found: list[Finding]) -> str:
    """One line for each finding but edge cases that passed; then the likely causes of the failures.

    Edge cases that fail because the kernel is wrong on ordinary rows, too, are only counted.
    """
    judged = _judged(found)
    failed = [finding for finding in judged if not finding.passed]
    causes = advice(found)
    counted, others = _cases_apart(causes.get(WRONG, []))
    told = {finding.property for finding in failed} - set(counted)
    shown = [finding for finding in found if not _is_case(finding.property) or finding.property in told]
    lines = _heading(kernel, dtype, setting)
    for finding in shown:
        lines += _line(finding)
    if counted:
        lines.append(f"FAILED  {_count(counted):38}  {WRONG}")
    lines.append(
        f"{len(judged) - len(failed)} of {len(judged)} passed" + (f", {len(failed)} FAILED" if failed else "")
    )
    if counted:
        causes[WRONG] = [*others, _count(counted)]
    for cause, names in causes.items():
        lines += textwrap.wrap(
            f"{', '.join(names)}: {cause}", WIDTH, initial_indent="- ", subsequent_indent="  "
        )
    return "\n".join(lines)


def so_far(kernel: Kernel, dtype: str, setting: Setting, found: list[Finding]) -> str:
    """One line for each finding of an audit that was interrupted."""
    passed = sum(bool(finding.passed) for finding in _judged(found))
    shown = [finding for finding in found if not (_is_case(finding.property) and finding.passed)]
    lines = [line for finding in shown for line in _line(finding)]
    return "\n".join(
        [*_heading(kernel, dtype, setting), *lines, f"{passed} of {len(_judged(found))} passed; incomplete"]
    )


def _judged(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.passed is not None]


def _heading(kernel: Kernel, dtype: str, setting: Setting) -> list[str]:
    beside, errors = setting.gamma_of(dtype), f"errors in u = {_u(dtype)}"
    what = dtype if beside == dtype else f"{dtype}, gamma {beside}"
    errors += "" if beside == dtype else f", of dgamma and dbeta in u = {_u(beside)}"
    sizes = f"{what}, eps {setting.eps:g}, {setting.rows} row{'s' * (setting.rows > 1)} of {setting.hidden}"
    return [f"{kernel.name}: {sizes}; {errors}", _HEADER]


def _u(dtype: str) -> str:
    return f"{unit_roundoff(dtype_of(dtype)):.2g}"


def rows(
    kernel: Kernel, dtype: str, version: str, found: Iterable[Finding], gamma_dtype: str = ""
) -> list[dict[str, Any]]:
    """The findings with the columns of the table `audit`, and gamma_dtype where it is given."""
    common = {"kernel": kernel.name, "dtype": dtype, "version": version}
    common |= {"gamma_dtype": gamma_dtype} if gamma_dtype else {}
    return [common | finding._asdict() for finding in found]


def _is_case(name: str) -> bool:
    return name.startswith("edge_") and name != "edge_cases"


def _cases_apart(names: list[str]) -> tuple[list[str], list[str]]:
    """The edge cases, if more than one, and the other names."""
    cases = [name for name in names if _is_case(name)]
    return (cases, [name for name in names if name not in cases]) if len(cases) > 1 else ([], names)


def _count(cases: list[str]) -> str:
    return f"{len(cases)} edge cases"


def _line(finding: Finding) -> list[str]:
    name = finding.property
    what = "" if finding.raised or _is_case(name) else MEANING.get(name) or MEANING[name.rpartition("_")[2]]
    low, high = finding.value_low, finding.value_high
    interval = "" if math.isnan(low) else f"95 % interval {low:.2f} to {high:.2f}"
    note = re.sub(
        r"(: |; )all results within .*", "", finding.note.removesuffix(f"; {TWO_AXES}")
    )  # the limit stands beside it
    said = "; ".join(part for part in (what, interval, note, finding.reason) if part)
    numbers = f"{_number(finding.value):>9}{_number(finding.limit):>9}"
    start = f"{_VERDICT[finding.passed]:8}{name:20}{numbers}  "
    return textwrap.wrap(said, WIDTH, initial_indent=start, subsequent_indent=_INDENT) or [start.rstrip()]


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "inf"
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e5 else f"{value:.3g}"
