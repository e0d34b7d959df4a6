"""A contender made from functions on PyTorch tensors, of any package.

On a GPU a pass can be captured as a CUDA graph, which holds its kernels and the memory of their results; a
replay costs the host one launch. What a pass needs from an earlier one must be recorded on the stream of the
capture: autograd runs a backward pass on the stream of its forward pass.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from layernorm_backward.peers_on_gpu.bridge import from_tensor
from layernorm_backward.peers_on_gpu.contender import Call, Contender, Directions

Pass = Callable[[], tuple[Any, ...]]
Record = Callable[[], object]
WARM = 3  # runs before the capture, on its stream
_FAILED: list[Any] = []  # graphs that could not be captured, to which PyTorch's allocator still refers


class _Passes:
    """Passes that hold the tensors last returned: (y,) and (dx, dgamma, dbeta)."""

    def __init__(self, passes: dict[str, Pass], record: Record | None, sums: np.dtype) -> None:
        self._passes = passes
        self._kept: dict[str, tuple[Any, ...]] = {}
        self._record, self._sums = record, sums
        self.calls: dict[str, Call] = {which: self._caller(which) for which in passes}

    def results(self) -> tuple[Any, ...]:
        """y, dx, and dgamma, dbeta in the dtype of gamma."""
        import torch

        y, dx, *sums = self._tensors()
        sums = [one if one is None else one.to(getattr(torch, self._sums.name)) for one in sums]
        return tuple(one if one is None else from_tensor(one) for one in (y, dx, *sums))

    def written(self) -> tuple[Any, ...]:
        """The tensors that the passes write; results in another dtype are copies of them."""
        return tuple(one if one is None else from_tensor(one) for one in self._tensors())

    def captured(self, call: Call) -> Call:
        """Capture one of `calls` as a graph; after its replay, `results` are those of the replay."""
        import torch

        which = next(name for name, one in self.calls.items() if one is call)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            recorded = self._record() if self._record else None
            for _ in range(WARM):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = _graph(call, stream)
        used = recorded, self._kept[which]  # memory that the graph reads and writes

        def replay() -> None:
            graph.replay()
            self._kept[which] = used[1]

        return replay

    def _tensors(self) -> tuple[Any, ...]:
        return *self._kept.get("forward", [None]), *self._kept.get("backward", [None] * 3)

    def _caller(self, which: str) -> Call:
        def call() -> None:
            self._kept.pop(which, None)  # frees its memory for reuse
            self._kept[which] = self._passes[which]()

        return call


def _graph(call: Call, stream: Any) -> Any:
    """A graph of what a call enqueues on a stream; if the capture fails, the current stream is restored."""
    import torch

    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # JAX has threads
            call()
    except BaseException:
        _FAILED.append(graph)
        torch.cuda.set_stream(before)  # torch.cuda.graph does so only after a successful capture
        raise
    return graph


def contender(
    forward: Pass | None,
    backward: Pass | None,
    note: str,
    gamma: Any,
    directions: Directions,
    *,
    record: Record | None = None,
    cuda: bool,
) -> Contender:
    """A contender of passes that return (y,) and (dx, dgamma, dbeta); those of `directions` are run once.

    Results have dgamma and dbeta in gamma's dtype. `record` is run before a capture, on its stream; it
    returns what must live as long as the graph.
    """
    wanted = {"forward": forward, "backward": backward}
    wanted = {which: one for which, one in wanted.items() if one and which in directions}
    passes = _Passes(wanted, record, gamma.dtype)
    for call in passes.calls.values():
        call()
    return Contender(
        passes.calls.get("forward"),
        passes.calls.get("backward"),
        passes.results,
        passes.captured if cuda else None,
        note if cuda else f"{note}; on a CPU there is no CUDA graph",
        written=passes.written,
    )
