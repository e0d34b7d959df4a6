"""The dtype in which the formula is checked: float64 if the functions really compute in it."""

from collections.abc import Collection

import numpy as np

from layernorm_backward import inputs
from layernorm_backward.audit.setting import Setting
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, draw, run_kernel
from layernorm_backward.untrusted.raised import FAILURES

SHAPE = (4, 16)
STEP = 2.0**-30  # below the resolution of float32, 2**22 times that of float64
BENT = 2.0**-7  # the largest deviation from a straight line, beside the step along it


def formula_dtype(kernel: Kernel, asked: Collection[DtypeName], setting: Setting) -> DtypeName:
    """float64 where it was asked for or the kernel computes in it, else the widest that was asked for."""
    if "float64" in kernel.dtypes and ("float64" in asked or computes_in_float64(kernel, setting)):
        return "float64"
    return min(set(asked).intersection(kernel.dtypes), key=DTYPE_NAMES.index)


def computes_in_float64(kernel: Kernel, setting: Setting) -> bool:
    """Whether changes of float64 inputs by STEP and by twice that change every result in proportion.

    A narrower intermediate does not change, or jumps. No reference is needed: the formula may be wrong.
    """
    rng = inputs.generator(setting.seed)
    problem, along = (draw(rng, rng.standard_normal(SHAPE), "shifted", "random") for _ in range(2))
    try:
        runs = [_run(kernel, _moved(problem, along, steps * STEP), setting.eps) for steps in range(3)]
    except KeyboardInterrupt:
        raise
    except FAILURES:
        return False
    return all(_straight(*parts) for parts in zip(*runs, strict=True))


def _run(kernel: Kernel, problem: Problem, eps: float) -> list[np.ndarray]:
    return [np.copy(part) for part in run_kernel(kernel, problem, eps)]


def _moved(problem: Problem, along: Problem, step: float) -> Problem:
    return Problem(*(array + step * direction for array, direction in zip(problem, along, strict=True)))


def _straight(start: np.ndarray, once: np.ndarray, twice: np.ndarray) -> bool:
    moved = np.linalg.norm(once - start)
    return bool(moved > 0 and np.linalg.norm(twice - once - (once - start)) <= BENT * moved)
