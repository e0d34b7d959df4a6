"""The deadline of a campaign: when its time is up, or something stops it before."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

INTERRUPTED = "interrupted"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Deadline:
    """A deadline `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self.stopped = ""
        self._interrupted = ""  # INTERRUPTED once a signal is seen
        self._signals: socket.socket | None = None  # signal numbers, written even while the main thread hangs

    def left(self) -> float:
        """Seconds until the deadline; 0 once the campaign is stopped."""
        return 0.0 if self.stopped else self._end - monotonic()

    def overdue(self) -> float:
        """Seconds since the deadline, or since this saw a signal, which a main thread that hangs does not."""
        if self._signalled():
            self._interrupted, self._end = INTERRUPTED, min(self._end, monotonic())
        return monotonic() - self._end

    def stop(self, why: str) -> None:
        """End the campaign now; the first reason given is kept."""
        self.stopped, self._end = self.stopped or why, min(self._end, monotonic())

    @property
    def why(self) -> str:
        """What ends the campaign."""
        late = "time was up" if self.left() <= 0 else "its turn has not come"
        return self.stopped or self._interrupted or late

    @property
    def reason(self) -> str:
        """The reason in rows that were not measured."""
        return f"not measured: {self.why}"

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, Ctrl-C and SIGTERM raise KeyboardInterrupt, and stop the campaign even if that is caught.

        Once the campaign is stopped they are ignored, so that the tables get written.
        """

        def interrupt(*_: object) -> None:
            if self.stopped:
                return
            self.stop(INTERRUPTED)
            raise KeyboardInterrupt

        with self._recording_signals():
            before = {one: signal.signal(one, interrupt) for one in SIGNALS}
            try:
                yield
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)

    @contextmanager
    def _recording_signals(self) -> Iterator[None]:
        """Inside, signal numbers are written to a socket, whatever the main thread does."""
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
