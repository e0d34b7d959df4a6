"""How long compiled kernels take to compile, or to be loaded from Numba's cache: seconds of a first call.

Each measurement is a process of its own (`first_call`), for one dtype, forward and then backward.
`compilations` processes start with an empty cache, `loads` with the one that the last of those has filled,
or, without any, with the user's. No other table's times hold any of this.
"""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from tqdm import tqdm

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments._arguments import RunnableKernels, Several, Whole
from layernorm_backward.kernels import KERNELS
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing.difference import Summary


def run(
    *, kernels: RunnableKernels, dtypes: Several[DtypeName], compilations: Whole, loads: Whole
) -> pd.DataFrame:
    """One row per kernel, dtype, direction and state of the cache."""
    cells = [(name, dtype) for name in kernels for dtype in dtypes if dtype in KERNELS[name].dtypes]
    rows: list[dict[str, Any]] = []
    for name, dtype in tqdm(cells, desc="compile_time", mininterval=1):
        found = _measured(name, dtype, compilations, loads)
        for (cache, direction), seconds in found.items():
            keys = {"kernel": name, "dtype": dtype, "direction": direction, "cache": cache}
            times = Summary.of(seconds)._asdict() if seconds else {"reason": "not measured in this study"}
            rows.append(keys | times)
    return table(rows, "compile_time")


def _measured(name: str, dtype: str, compilations: int, loads: int) -> dict[tuple[str, str], list[float]]:
    """Seconds of the first calls by state of the cache and direction."""
    with TemporaryDirectory() as folder:
        empty = [_first_calls(name, dtype, f"{folder}/{number}") for number in range(compilations)]
        last = f"{folder}/{compilations - 1}" if compilations else None
        filled = [_first_calls(name, dtype, last) for _ in range(loads)]
    both = {"empty": empty, "filled": filled}
    return {
        (cache, direction): [one[direction] for one in found]
        for cache, found in both.items()
        for direction in DIRECTIONS
    }


def _first_calls(name: str, dtype: str, cache: str | None) -> dict[str, float]:
    """Seconds by direction of a new process with this cache folder; None leaves the user's.

    ValueError with the exit code, and the last that it said, where it fails.
    """
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    command = [sys.executable, "-m", "layernorm_backward.first_call", name, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        *_, said = ["no message", *done.stderr.strip().splitlines()]
        raise ValueError(f"{' '.join(command[1:])}: it ended ({done.returncode}): {said}")
    return json.loads(done.stdout)
