"""The client side of a peer's process: starts it, sends requests, and ends it in every case."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any

from layernorm_backward.peers_at_work.protocol import Failure, Prepared, Request, Sample, Usage, Work

SET_BY_US = ("MALLOC_", "GLIBC_TUNABLES", "OMP_", "KMP_", "GOMP_", "NPROC", "XLA_FLAGS", "MKL_")
STOPS_WITHIN_S = 10


class Lost(Exception):
    """A peer's process has ended, does not answer in time, or reports that a request failed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


class Peer:
    """One peer's process; to the stopwatch, a call that times itself (`sample`)."""

    def __init__(
        self,
        name: str,
        module: str,
        option: str,
        environment: Mapping[str, str],
        memory: int,
        answers_within_s: float,
    ) -> None:
        self.name, self._answers_within_s = name, answers_within_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", "layernorm_backward.peers_at_work.worker", module, option]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(memory)],
                env=_environment(environment),
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
            )

    def prepare(self, work: Work) -> Prepared:
        """Prepare a pass; Lost where that fails."""
        return self._ask("prepare", work)

    def warm(self) -> float:
        """Run the pass until its times are steady; returns seconds per run."""
        return self._ask("warm")

    def __call__(self) -> Sample:
        return self.sample(1, 0)

    def sample(self, loops: int, lead: int) -> Sample:
        """Time `loops` runs in the peer's process, after `lead` untimed ones."""
        return self._ask("sample", loops, lead)

    def usage(self) -> Usage:
        """The usage of all samples so far."""
        return self._ask("usage")

    def release(self) -> None:
        """Make the peer free its arrays."""
        self._ask("release")

    def close(self) -> None:
        """End the process by closing its pipe; kill it if it does not end in time."""
        self._pipe.close()
        try:
            self._process.wait(STOPS_WITHIN_S if self._process.returncode is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _ask(self, what: str, *arguments: object) -> Any:
        try:
            self._pipe.send(Request(what, arguments))
            if not self._pipe.poll(self._answers_within_s):
                self._process.kill()
                raise Lost(self.name, f"no answer within {self._answers_within_s:g} s to: {what}")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Lost(self.name, self._end(what)) from None
        if isinstance(answer, Failure):
            raise Lost(self.name, answer.reason)
        return answer

    def _end(self, what: str) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOPS_WITHIN_S)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return (
            f"its process ended ({self._process.returncode}) at: {what}; {said[-1] if said else 'no message'}"
        )


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SET_BY_US)}
    return kept | dict(environment)
