"""The peers' processes of one measurement: started when first needed, ended together."""

from contextlib import ExitStack
from types import TracebackType

from layernorm_backward.peers_at_work.client import Peer
from layernorm_backward.peers_at_work.protocol import Prepared, Work
from layernorm_backward.peers_at_work.settings import Setting


class Crew:
    """Processes by setting and number of threads; a context manager.

    `memory` is the descriptor of the shared memory, in which dy begins `dy_offset` bytes after x.
    """

    def __init__(self, memory: int, dy_offset: int, answers_within_s: float) -> None:
        self.dy_offset = dy_offset
        self._memory, self._answers_within_s = memory, answers_within_s
        self._peers: dict[tuple[str, int], Peer] = {}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as ended:
            for peer in self._peers.values():
                ended.callback(peer.close)

    def start(self, name: str, setting: Setting, threads: int) -> Peer:
        """The process of a setting with this number of threads; it may still be loading its package."""
        key = name, threads
        if key not in self._peers:
            at_work = setting.module, setting.setting, setting.variables(threads)
            self._peers[key] = Peer(name, *at_work, self._memory, self._answers_within_s)
        return self._peers[key]

    def prepare(self, name: str, setting: Setting, work: Work) -> tuple[Peer, Prepared]:
        """A peer and its prepared pass; Lost where it cannot be prepared."""
        peer = self.start(name, setting, work.threads)
        return peer, peer.prepare(work)

    def end(self, name: str, threads: int) -> None:
        """End one process; the next use starts another."""
        self._peers.pop((name, threads)).close()
