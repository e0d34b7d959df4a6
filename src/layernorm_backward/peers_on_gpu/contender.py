"""What a peer on a GPU is once it is ready to be timed."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.directions import Direction

Call = Callable[[], None]
Directions = Collection[Direction]


class Contender(NamedTuple):
    """A peer's passes on one set of arrays; each has run once, so that all is compiled.

    forward, backward   put one pass on the current stream, the null stream of CuPy and PyTorch; backward is
                        that of a forward pass done before; None where it was not asked for, or the package
                        has none
    results             y, dx (N, D), dgamma, dbeta (D,) of the last calls, where the inputs are: NumPy's, or
                        CuPy's over the package's own memory; None for what was not computed
    captured            makes a replay of a CUDA graph of one of the two calls; None where that cannot be done
    note                what is called, and with which setting
    synchronize         None where events on the null stream see the work; else the package has streams of its
                        own, and this waits for the last calls: time many, then this, by the host's clock
    written             the arrays that the calls write, where results may be copies of them; else None
    """

    forward: Call | None
    backward: Call | None
    results: Callable[[], tuple[Any, ...]]
    captured: Callable[[Call], Call] | None
    note: str
    synchronize: Call | None = None
    written: Callable[[], tuple[Any, ...]] | None = None


def refuse_float64(dtype: np.dtype, peer: str) -> None:
    """ValueError for float64, whose sums the peer would take in float32."""
    if dtype == np.float64:
        raise ValueError(f"{peer} computes in float32")
