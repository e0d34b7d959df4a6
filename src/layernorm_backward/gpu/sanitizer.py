"""NVIDIA's compute-sanitizer over one pass of a kernel: memory, races, initialization, barriers."""

import re
import shutil
import subprocess
import sys
from typing import Any

TOOL = "compute-sanitizer"
LIMIT_S = 120
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")


def check(tool: str, kernel: str, dtype: str, rows: int, hidden: int) -> dict[str, Any]:
    """passed, value (errors found) and limit; or the reason why the tool does not work here."""
    if shutil.which(TOOL) is None:
        return {"reason": f"{TOOL} is not installed"}
    passing = ["-m", "layernorm_backward.gpu.one_pass", kernel, "backward", dtype, str(rows), str(hidden)]
    command = [TOOL, "--tool", tool, sys.executable, *passing]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"reason": f"{TOOL} took more than {LIMIT_S} s"}
    return found(done.stdout + done.stderr)


def found(output: str) -> dict[str, Any]:
    """What the tool's output says."""
    counted = _SUMMARY.search(output)
    if counted is None:
        last = output.strip().splitlines()[-1:] or ["no output"]
        return {"reason": f"{TOOL} did not finish: {last[0][:200]}"}
    errors = int(counted[1] or counted[2])
    return {"passed": errors == 0, "value": float(errors), "limit": 0.0}
