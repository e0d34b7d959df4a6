"""How long a kernel's first calls take in a process: `python -m layernorm_backward.first_call KERNEL DTYPE`.

A Numba kernel is compiled in this call, or loaded from Numba's cache (NUMBA_CACHE_DIR). Prints as JSON the
seconds of the first forward and the first backward call on one row of COLUMNS elements, without the import of
its module.
"""

import json
import sys
from time import perf_counter

import numpy as np

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import KERNELS

COLUMNS = 64  # whole cache lines in each dtype, as most rows have


def seconds(name: str, dtype: str) -> dict[str, float]:
    """Seconds of the first call, by direction."""
    kernel = KERNELS[name]
    row, vector = np.ones((1, COLUMNS), dtype_of(dtype)), np.ones(COLUMNS, dtype_of(dtype))
    started = perf_counter()
    _, saved = kernel.forward(row, vector, vector, kernel.default_eps)
    between = perf_counter()
    kernel.backward(row, saved)
    return {"forward": between - started, "backward": perf_counter() - between}


if __name__ == "__main__":
    print(json.dumps(seconds(*sys.argv[1:])))
