"""When a campaign ends: its time is up, or something has stopped it."""

import signal
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

    def left(self) -> float:
        """Seconds until then; none once the campaign is stopped."""
        return 0.0 if self.stopped else self._end - monotonic()

    def stop(self, why: str) -> None:
        """End it now; the first reason holds."""
        self.stopped = self.stopped or why

    @property
    def reason(self) -> str:
        """That of what is not measured."""
        return f"not measured: {self.stopped or 'time was up'}"

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

        before = {one: signal.signal(one, interrupt) for one in SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
