"""A command in a child process, since foreign code may end its process or never return.

The child writes its current step and its findings to shared memory. The parent prints both if the child
terminates unexpectedly, if a step exceeds its time limit, and on Ctrl-C.
"""

import ctypes
import faulthandler
import mmap
import os
import signal
import sys
from collections.abc import Callable
from time import monotonic, sleep

COULD_NOT_BE_RUN = 2
INTERRUPTED = 128 + signal.SIGINT  # the exit code by which shells know Ctrl-C
LIMIT_S = 600.0  # for a step
_FIELDS = {
    "step": slice(0, 256),
    "function": slice(256, 288),
    "limit_s": slice(288, 320),
    "found": slice(320, 1 << 16),
}
ENDED = "-"  # the step of a command that has ended as it should
_POLL_S = 0.1
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_page: mmap.mmap | None = None


def update(**fields: str) -> None:
    """Write the current `step` and `function`, the time limit of a step, what was `found` so far."""
    if _page is not None:
        for name, text in fields.items():
            where = _FIELDS[name]
            size = where.stop - where.start
            _page[where] = text.encode()[:size].ljust(size, b"\0")


def watched(run: Callable[[], int]) -> int:
    """The exit code of run(), in a child; COULD_NOT_BE_RUN where that did not return, 130 on Ctrl-C."""
    global _page
    if not hasattr(os, "fork"):
        return run()
    _page = mmap.mmap(-1, _FIELDS["found"].stop)
    update(step="the start", limit_s=f"{LIMIT_S:g}")
    child = os.fork()
    if child:
        return _watch(child)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it, even if the child hangs
    faulthandler.enable()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    try:
        return run()
    finally:
        update(step=ENDED)


def _watch(child: int) -> int:
    try:
        status = _status(child)
    except KeyboardInterrupt:
        return _reported("interrupted", _killed(child, INTERRUPTED))
    if status is None:
        return _reported(f"exceeded the limit of {_read('limit_s')} s", _killed(child, COULD_NOT_BE_RUN))
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return _reported(f"the process was terminated by {signal.Signals(-code).name}", COULD_NOT_BE_RUN)
    if _read("step") != ENDED:
        return _reported(f"the process exited with code {code}", COULD_NOT_BE_RUN)
    return code


def _status(child: int) -> int | None:
    """The child's exit status; None if a step exceeded its limit."""
    at, since = b"", monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if _page[:] != at:
            at, since = _page[:], monotonic()
        elif monotonic() - since > float(_read("limit_s")):
            return None
        sleep(_POLL_S)


def _killed(child: int, code: int) -> int:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return code


def _reported(what: str, code: int) -> int:
    """Print what was found so far, then what happened and in which step."""
    if _read("found"):
        print(_read("found"), flush=True)
    step, function = _read("step"), _read("function")
    where = "at its end" if step == ENDED else "in " + ", ".join(filter(None, (step, function)))
    print(f"\nerror: {what} {where}", file=sys.stderr)
    return code


def _read(name: str) -> str:
    return _page[_FIELDS[name]].rstrip(b"\0").decode("utf-8", "replace")
