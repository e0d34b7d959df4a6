"""What a peer on a GPU is once it is ready to be timed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], None]


class Contender(NamedTuple):
    """A peer's two passes on one set of arrays; each has run once, so that all is compiled.

    forward, backward   put one pass on the current stream, the null stream of CuPy and PyTorch; backward is
                        that of a forward pass done before, and None where the package has none
    results             y, dx (N, D), dgamma, dbeta (D,) of the last calls, on the host; None for what the
                        package cannot compute
    captured            makes a replay of a CUDA graph of one of the two calls; None where that cannot be done
    note                what is called, and with which setting
    synchronize         None where events on the null stream see the work; else the package has streams of its
                        own, and this waits for the last calls: time many, then this, by the host's clock
    """

    forward: Call
    backward: Call | None
    results: Callable[[], tuple[NDArray | None, ...]]
    captured: Callable[[Call], Call] | None
    note: str
    synchronize: Call | None = None


def refuse_float64(dtype: np.dtype, peer: str) -> None:
    """ValueError for float64, whose sums the peer would take in float32."""
    if dtype == np.float64:
        raise ValueError(f"{peer} computes in float32")
