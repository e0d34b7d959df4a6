"""NVIDIA's compute-sanitizer over the passes of a kernel: memory, races, initialization, barriers."""

import re
from typing import Any

from layernorm_backward.gpu import tools
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.tools import Done, Pass, Unfinished

TOOL = "compute-sanitizer"
OPTIONS = ("--target-processes", "all", "--report-api-errors", "no")  # calls that fail are no kernel's fault
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error")
_WARNINGS = re.compile(r"RACECHECK SUMMARY: .*\(.* (\d+) warning")
_OF_A_KERNEL = re.compile(r"^=+ .*(Invalid __|Misaligned|Uninitialized __|Race reported|Barrier error)", re.M)


def check(tool: str, what: Pass, time_left: float) -> dict[str, Any]:
    """passed, value (errors found) and limit; or the reason why the tool does not work here.

    A tool that has had all its time is not tried again, as neither passed nor failed.
    """
    done = tools.over(TOOL, ["--tool", tool, *OPTIONS], what, time_left)
    if isinstance(done, Unfinished):
        return {"reason": str(done)}
    return {"reason": done} if isinstance(done, Passing) else found(done)


def found(done: Done) -> dict[str, Any]:
    """What the tool's output says.

    No errors count only where the pass came to its end; where it did not, errors do if they are a kernel's.
    """
    errors = [int(one or other) for one, other in _ERRORS.findall(done.output)]
    if not errors or (done.fault and not (any(errors) and _OF_A_KERNEL.search(done.output))):
        return {"reason": Passing(f"{TOOL} did not finish: {done.fault or 'no summary in its output'}")}
    warned = sum(map(int, _WARNINGS.findall(done.output)))
    reason = {"reason": f"{TOOL} warns: {warned}"} if warned else {}
    return {"passed": not any(errors), "value": float(sum(errors)), "limit": 0.0} | reason
