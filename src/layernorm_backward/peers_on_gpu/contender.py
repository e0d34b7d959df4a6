"""A peer on a GPU that is prepared to be timed."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.directions import Direction

Call = Callable[[], None]
Directions = Collection[Direction]


class Contender(NamedTuple):
    """A peer's passes on one set of arrays; each has run once, so that everything is compiled.

    forward, backward   enqueue one pass on the current stream, the null stream of CuPy and PyTorch; backward
                        belongs to a forward pass done before; None where the pass was not requested, or the
                        package has none
    results             y, dx (N, D), dgamma, dbeta (D,) of the last calls, on the device of the inputs: NumPy
                        arrays, or CuPy arrays over the package's own memory; None for what was not computed
    captured            captures one of the two calls as a CUDA graph and returns its replay; None where that
                        is impossible
    note                which functions are called, and with which settings
    synchronize         None where events on the null stream time the work. Else the package has its own
                        streams, and this waits for the last calls: time many calls, then this, by the host's
                        clock
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
    """ValueError for float64, which the peer would sum in float32."""
    if dtype == np.float64:
        raise ValueError(f"{peer} computes in float32")
