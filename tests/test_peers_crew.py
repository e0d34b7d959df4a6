"""The processes of peers end together, whatever becomes of one of them, and the shared memory with them."""

import os

import pytest

from layernorm_backward.experiments import peers_cpu
from layernorm_backward.peers_at_work import crew as crews
from layernorm_backward.peers_at_work.settings import SETTINGS

NAMES = tuple(SETTINGS)[:3]


class _Peer:
    """Stands in for a process; the first of NAMES cannot be closed."""

    def __init__(self, name, *_):
        self.name, self.closed = name, False

    def close(self):
        self.closed = True
        if self.name == NAMES[0]:
            raise OSError(f"{self.name} does not end")


def test_all_processes_are_ended_though_one_cannot_be(monkeypatch):
    monkeypatch.setattr(crews, "Peer", _Peer)
    with pytest.raises(OSError, match=r"does not end$"), crews.Crew(0, 0, 1.0) as crew:
        peers = [crew.start(name, SETTINGS[name], 1) for name in NAMES]
    assert [peer.closed for peer in peers] == [True] * len(NAMES)


def test_shared_memory_is_let_go_of_where_a_measurement_fails(monkeypatch):
    kept = []

    class Memory(peers_cpu.SharedMemory):
        def __init__(self, size):
            super().__init__(size)
            kept.append(self.descriptor)

    def fails(*_):
        raise RuntimeError("no measurement")

    monkeypatch.setattr(peers_cpu, "SharedMemory", Memory)
    monkeypatch.setattr(peers_cpu._peer_cells, "measured", fails)
    one = {
        "kernels": [NAMES[0]],
        "directions": ["forward"],
        "sizes": [[1, 8, 16]],
        "dtypes": ["float32"],
        "gamma_dtypes": ["same"],
        "threads": [1],
    }
    how = {
        "repeats": 1,
        "at_least": 1,
        "at_least_resident": 1,
        "budget_s": 0.1,
        "error_elements": 64,
        "answers_within_s": 1.0,
        "seed": 1,
    }
    limits = {"error_limit_u": {"float32": 1.0}, "sums_limit_u": {"float32": 1.0}}
    with pytest.raises(RuntimeError, match=r"^no measurement$"):
        peers_cpu.run(kernels=["compact"], sets={"one": one}, **how, **limits)
    with pytest.raises(OSError, match=r"Bad file descriptor"):
        os.fstat(kept[0])
