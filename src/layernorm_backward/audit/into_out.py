"""Whether results written to `out` equal those without it, and nothing is written outside `out`."""

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.audit.setting import Finding, Setting
from layernorm_backward.audit.sweep import posed
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, Results, copied, run_kernel
from layernorm_backward.untrusted.fitting import takes_out
from layernorm_backward.untrusted.guarded import Guarded, guarded


def into_out(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """How many of y, dx, dgamma, dbeta differ in `out`, which held NaN before, from those without it.

    The note names them, and those outside which something was written. Skipped if no function takes `out`.
    """
    forward, backward = takes_out(kernel.forward), takes_out(kernel.backward)
    if not (forward or backward):
        return Finding("into_out", np.nan, 0.0, None, reason="takes no `out`")
    problem, _ = posed(dtype, 1.0, setting)
    alone = Results(*map(np.copy, run_kernel(kernel, copied(problem), setting.eps)))
    outs, given = _outs(problem), copied(problem)
    y_out, *gradients_out = [out.array for out in outs]
    to_y, to_gradients = {"out": y_out} if forward else {}, {"out": tuple(gradients_out)} if backward else {}
    y, saved = kernel.forward(*given[:3], setting.eps, **to_y)
    returned = y, *kernel.backward(given.dy, saved, **to_gradients)
    taken = forward, backward, backward, backward
    faults = map(_fault, Results._fields, outs, returned, alone, taken)
    names = [fault for fault in faults if fault]
    return Finding("into_out", float(len(names)), 0.0, not names, note=", ".join(names))


def _fault(name: str, out: Guarded, returned: NDArray, alone: NDArray, taken: bool) -> str:
    """Where something was written outside a result, or its name if it differs; "" for neither."""
    if beside := out.overrun():
        return f"{beside} {name}"
    found = (returned, out.array) if taken else (returned,)
    return "" if all(part.tobytes() == alone.tobytes() for part in found) else name


def _outs(problem: Problem) -> list[Guarded]:
    """Room for y, dx, dgamma and dbeta that holds NaN."""
    like = problem.x, problem.dy, problem.gamma, problem.beta
    outs = [guarded(array.shape, array.dtype) for array in like]
    for out in outs:
        out.array.fill(np.nan)
    return outs
