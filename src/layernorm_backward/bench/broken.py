"""What is said in one line where a kernel raises, or returns what cannot be taken apart."""

from layernorm_backward.audit.fitting import MisfitError
from layernorm_backward.audit.setting import told
from layernorm_backward.kernels import Kernel

_OURS = f"{__name__.partition('.')[0]}."


def broken(kernel: Kernel, role: str, error: BaseException) -> ValueError:
    """Kernel, function, exception, file and line; what a kernel of ours refuses stays as it is.

    `role` is the function that raised: forward or backward.
    """
    if isinstance(error, MisfitError):
        return MisfitError(f"{kernel.name}: {error}")
    if isinstance(error, ValueError) and _is_ours(kernel, role):
        return error
    return ValueError(f"{kernel.name}: {role} {told(error)}")


def _is_ours(kernel: Kernel, role: str) -> bool:
    return (getattr(getattr(kernel, role), "__module__", "") or "").startswith(_OURS)
