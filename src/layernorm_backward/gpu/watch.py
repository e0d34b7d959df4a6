"""A watchdog over the cells of a campaign: if a kernel hangs, it writes all tables and ends the process.

A hanging kernel keeps the main thread in the driver for ever, where Python runs no signal handlers. Other
threads go on, since the driver is called without the global interpreter lock; the watchdog is one of them.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Self

from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.one_line import one_line
from layernorm_backward.untrusted import watch as untrusted

LIMIT_S = 150.0  # of a cell, since it last asked for the time left; more than `tools.LIMIT_S`
PEER_S = 60.0  # added for each of its peers, which may have to be imported and compiled
GRACE_S = 10.0  # for the cell that is being measured when the campaign ends
TICK_S = 1.0


class Watch:
    """Inside, a cell that hangs, or runs past the deadline, ends the process after a call of `write`.

    Prints `advice`; the exit code is `status`, or 1 where `write` fails.
    """

    def __init__(self, deadline: Deadline, write: Callable[[], None], advice: str, status: int = 1) -> None:
        self._deadline, self._write = deadline, write
        self._advice, self._status = advice, status
        self._hung: Callable[[str], str] | None = None
        self._mark: Path | None = None
        self._limit, self._heard = inf, monotonic()  # of the cell, and when it last showed a sign of life
        self._cell = Lock()  # held while the cell is changed, and for good once the process ends
        self._closed = Event()
        self._thread = Thread(target=self._watch, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    @contextmanager
    def over(self, hung: Callable[[str], str], peers: int, mark: Path | None = None) -> Iterator[None]:
        """Watch a cell. If it hangs, `hung` is given the reason, and returns why the campaign ends.

        The cell's mark is removed before the watchdog ends the process, which is no fault of the cell. The
        mark stays where the campaign ends before the cell's limit but the cell has been silent for LIMIT_S:
        otherwise a hanging peer would use up every campaign that is shorter than its limit.
        """
        self._limit = LIMIT_S + PEER_S * peers
        self.time_left()
        self._hung, self._mark = hung, mark
        try:
            yield
        finally:
            with self._cell:
                self._hung = None

    def time_left(self) -> float:
        """Seconds left of the campaign. A cell that asks is alive, so its limit starts anew."""
        self._heard = monotonic()
        return self._deadline.left()

    def _silent_for(self, seconds: float) -> bool:
        return monotonic() - self._heard > seconds

    def _watch(self) -> None:
        while not self._closed.wait(TICK_S):
            with self._cell:
                if self._hung is None:
                    continue
                if self._silent_for(self._limit):
                    self._end(self._hung)
                if self._deadline.overdue() > GRACE_S:
                    self._end(None)

    def _end(self, hung: Callable[[str], str] | None) -> None:
        """End the process, since the main thread cannot be recovered."""
        status = 1
        try:
            why = hung(f"hung: the device did not answer within {self._limit:.0f} s") if hung else ""
            self._deadline.stop(why or self._deadline.why)
            if self._mark and (hung or not self._silent_for(LIMIT_S)):
                self._mark.unlink(missing_ok=True)
            self._write()
            print(f"stopped: {self._deadline.why}; {self._advice}", file=sys.stderr, flush=True)
            status = self._status
            if status == 0:
                untrusted.update(step=untrusted.ENDED)
        except Exception as error:
            print(f"error: {one_line(error)}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
