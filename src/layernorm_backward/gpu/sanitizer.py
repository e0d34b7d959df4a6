"""NVIDIA's compute-sanitizer over the passes of a kernel: memory, races, initialization, barriers."""

import re
from typing import Any

from layernorm_backward.gpu import tools
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.tools import Done, Pass

TOOL = "compute-sanitizer"
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")


def check(tool: str, what: Pass, time_left: float) -> dict[str, Any]:
    """passed, value (errors found) and limit; or the reason why the tool does not work here."""
    done = tools.over(TOOL, ["--tool", tool, "--target-processes", "all"], what, time_left)
    return {"reason": done} if isinstance(done, Passing) else found(done)


def found(done: Done) -> dict[str, Any]:
    """What the tool's output says. No errors count only where the pass came to its end."""
    counted = [int(first or second) for first, second in _SUMMARY.findall(done.output)]
    if not any(counted) and (done.fault or not counted):
        return {"reason": Passing(f"{TOOL} did not finish: {done.fault or 'no summary in its output'}")}
    return {"passed": not any(counted), "value": float(sum(counted)), "limit": 0.0}
