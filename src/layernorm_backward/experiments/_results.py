"""The results of a kernel, which may be of another package, for a problem, or why there are none."""

from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, Results, copied, run_kernel
from layernorm_backward.untrusted.checked_kernel import BrokenError, checked


def results(kernel: Kernel, problem: Problem, eps: float) -> Results | str:
    """Results for a copy of the problem, or why there are none: x of a dtype not taken, BrokenError."""
    dtype = problem.x.dtype.name
    if dtype in kernel.unsupported:
        return kernel.unsupported[dtype]
    try:
        return run_kernel(checked(kernel), copied(problem), eps)
    except BrokenError as error:
        return str(error)
