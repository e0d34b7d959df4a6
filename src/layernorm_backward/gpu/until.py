"""When a campaign ends: its time is up, or something has stopped it."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

INTERRUPTED = "interrupted"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Until:
    """The end of a campaign, `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self.stopped = ""
        self._asked = ""  # to stop, by a signal
        self._signals: socket.socket | None = None  # their numbers, written even while Python is not at work

    def left(self) -> float:
        """Seconds until then; none once the campaign is stopped."""
        return 0.0 if self.stopped else self._end - monotonic()

    def overdue(self) -> float:
        """Seconds since then, or since this found a signal that the main thread may not have come to see."""
        if self._signalled():
            self._asked, self._end = INTERRUPTED, min(self._end, monotonic())
        return monotonic() - self._end

    def stop(self, why: str) -> None:
        """End it now; the first reason holds."""
        self.stopped, self._end = self.stopped or why, min(self._end, monotonic())

    @property
    def why(self) -> str:
        """What ends it."""
        late = "time was up" if self.left() <= 0 else "its turn has not come"
        return self.stopped or self._asked or late

    @property
    def reason(self) -> str:
        """That of what is not measured."""
        return f"not measured: {self.why}"

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM raise KeyboardInterrupt inside, and stop the campaign even if that is caught.

        Once it is stopped they do nothing, so that the tables are written.
        """

        def interrupt(*_: object) -> None:
            if self.stopped:
                return
            self.stop(INTERRUPTED)
            raise KeyboardInterrupt

        with self._told_of_signals():
            before = {one: signal.signal(one, interrupt) for one in SIGNALS}
            try:
                yield
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)

    @contextmanager
    def _told_of_signals(self) -> Iterator[None]:
        """Inside, the numbers of signals are written to a socket, whatever the main thread does."""
        read, written = socket.socketpair()
        with read, written:
            read.setblocking(False)
            written.setblocking(False)
            before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
            self._signals = read
            try:
                yield
            finally:
                self._signals = None
                signal.set_wakeup_fd(before)

    def _signalled(self) -> bool:
        try:
            return self._signals is not None and any(one in SIGNALS for one in self._signals.recv(64))
        except BlockingIOError:
            return False
