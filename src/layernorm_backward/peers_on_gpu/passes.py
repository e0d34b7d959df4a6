"""A contender made of functions on PyTorch's tensors, whichever package they are from.

On a GPU a pass can be captured as a CUDA graph. Its kernels then lie in the graph with the memory of their
results, and a replay costs the host one launch. What a pass needs of an earlier one must be recorded on the
stream of the capture: autograd runs a backward pass on the stream of its forward pass.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.peers_on_gpu.bridge import from_tensor
from layernorm_backward.peers_on_gpu.contender import Call, Contender

Pass = Callable[[], tuple[Any, ...]]
Record = Callable[[], object]
WARM = 3  # runs on the stream of the capture before it


class _Passes:
    """Two passes that keep the tensors that they last returned: (y,) and (dx, dgamma, dbeta)."""

    def __init__(self, forward: Pass, backward: Pass | None, record: Record | None, sums: np.dtype) -> None:
        self._passes = {"forward": forward, "backward": backward}
        self._kept: dict[str, tuple[Any, ...]] = {}
        self._record, self._sums = record, sums

    def forward(self) -> None:
        self._run("forward")

    def backward(self) -> None:
        self._run("backward")

    def results(self) -> tuple[NDArray | None, ...]:
        """y, dx, and dgamma, dbeta in the dtype of gamma."""
        found = (*self._kept["forward"], *self._kept.get("backward", (None, None, None)))
        y, dx, *sums = (None if one is None else from_tensor(one) for one in found)
        return y, dx, *(None if one is None else one.astype(self._sums, copy=False) for one in sums)

    def captured(self, call: Call) -> Call:
        """A replay of a graph of `forward` or `backward`; results are those of the replay then."""
        import torch

        which = {self.forward: "forward", self.backward: "backward"}[call]
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            recorded = self._record() if self._record else None
            for _ in range(WARM):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph, stream=stream):
            call()
        used = recorded, self._kept[which]  # memory that the graph reads and writes

        def replay() -> None:
            graph.replay()
            self._kept[which] = used[1]

        return replay

    def _run(self, which: str) -> None:
        self._kept.pop(which, None)  # its memory is taken again
        self._kept[which] = self._passes[which]()


def contender(
    forward: Pass,
    backward: Pass | None,
    note: str,
    gamma: Any,
    *,
    record: Record | None = None,
    cuda: bool,
) -> Contender:
    """A contender of passes that return (y,) and (dx, dgamma, dbeta); both are run once.

    dgamma and dbeta are given in gamma's dtype. `record` is run before a capture, on its stream; it returns
    what must live as long as the graph.
    """
    passes = _Passes(forward, backward, record, gamma.dtype)
    passes.forward()
    if backward:
        passes.backward()
    return Contender(
        passes.forward,
        passes.backward if backward else None,
        passes.results,
        passes.captured if cuda else None,
        note if cuda else f"{note}; on a CPU there is no CUDA graph",
    )
