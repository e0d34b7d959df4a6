"""One-line messages for a foreign kernel that raises, or returns results that do not fit."""

import sysconfig
import traceback
from pathlib import Path

from layernorm_backward.kernels import Kernel
from layernorm_backward.one_line import one_line
from layernorm_backward.untrusted.fitting import MisfitError

RAISED = "raised"
FAILURES = BaseException  # what somebody's function may raise: SystemExit, or the panics of Rust
_PACKAGE = __name__.partition(".")[0]
_NOT_THEIRS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "site-packages", "<frozen")


def broken(kernel: Kernel, role: str, error: BaseException) -> ValueError:
    """Kernel, function, exception, file and line; what a kernel of ours refuses stays as it is.

    `role` is the function that raised: forward or backward.
    """
    if isinstance(error, MisfitError):
        return MisfitError(f"{kernel.name}: {error}")
    if isinstance(error, ValueError) and is_ours(kernel, role):
        return error
    return ValueError(f"{kernel.name}: {role} {told(error)}")


def is_ours(kernel: Kernel, role: str) -> bool:
    """Whether the function of this role, forward or backward, is one of this package."""
    return (getattr(getattr(kernel, role), "__module__", "") or "").startswith(f"{_PACKAGE}.")


def told(error: BaseException) -> str:
    """An exception in one line: type, message, and the file and line of the foreign code that raised it.

    KeyboardInterrupt passes.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, MisfitError):
        return f"{RAISED}: {error}"
    line = f"{RAISED} {one_line(error, None)}"
    return f"{line} ({place(error)})" if place(error) else line


def place(error: BaseException) -> str:
    """The deepest file:line that is neither ours nor an installed package's; "" where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not any(part in frame.filename for part in _NOT_THEIRS)]
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}" if theirs else ""
