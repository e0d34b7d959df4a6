"""NVIDIA's compute-sanitizer over the passes of a kernel: memory, races, initialization, barriers."""

import re
from typing import Any

from layernorm_backward.gpu import tools
from layernorm_backward.gpu.reasons import Transient
from layernorm_backward.gpu.tools import Done, Pass, Unfinished

TOOL = "compute-sanitizer"
OPTIONS = (
    "--target-processes",
    "all",
    "--report-api-errors",
    "no",
)  # a failing API call is no fault of a kernel
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error")
_WARNINGS = re.compile(r"RACECHECK SUMMARY: .*\(.* (\d+) warning")
_OF_A_KERNEL = re.compile(r"^=+ .*(Invalid __|Misaligned|Uninitialized __|Race reported|Barrier error)", re.M)


def check(tool: str, what: Pass, time_left: float) -> dict[str, Any]:
    """The columns passed, value (errors found) and limit; or the reason why the tool does not work here.

    If the tool has used all of its time, the check neither passes nor fails, and is not tried again.
    """
    done = tools.over(TOOL, ["--tool", tool, *OPTIONS], what, time_left)
    if isinstance(done, Unfinished):
        return {"reason": str(done)}
    return {"reason": done} if isinstance(done, Transient) else found(done)


def found(done: Done) -> dict[str, Any]:
    """The verdict of the tool's output.

    A pass that did not finish cannot count as free of errors; its errors count if they are of a kernel.
    """
    errors = [int(one or other) for one, other in _ERRORS.findall(done.output)]
    if not errors or (done.fault and not (any(errors) and _OF_A_KERNEL.search(done.output))):
        return {"reason": Transient(f"{TOOL} did not finish: {done.fault or 'no summary in its output'}")}
    warned = sum(map(int, _WARNINGS.findall(done.output)))
    reason = {"reason": f"{TOOL} warns: {warned}"} if warned else {}
    return {"passed": not any(errors), "value": float(sum(errors)), "limit": 0.0} | reason
