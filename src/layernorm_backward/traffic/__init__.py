"""A model of the operations and memory accesses of each kernel: the list of its steps, in execution order.

A step counts, per element of x, its accesses to tensors of x's size (reads, writes) and its arithmetic
operations (each addition, multiplication or division is one; a sum over n numbers is n). Statistics per row
and vectors of length D are not counted: they grow with N or D alone, or are cache-resident. `cached` are
reads that hit the cache, since an earlier step has just read the row or block; `kept` are writes that never
leave the cache, since they are overwritten or no longer needed before. `row_sums` are sums over D.

In a NumPy kernel a step is one pass of a ufunc or a reduction. `separate` and `fused` are not kernels of this
package: they are the textbook equations with one GPU or CPU kernel per equation, and per direction.
The totals are compared with counts from running each of them (`traffic.counts`).
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from layernorm_backward.directions import Direction

Stores = Literal["ordinary", "non-temporal"]


class Step(NamedTuple):
    """One pass; numbers are per element of x, except row_sums, the number of sums over D."""

    name: str
    reads: float
    writes: float
    operations: float
    row_sums: int = 0
    cached: float = 0
    kept: float = 0


class Totals(NamedTuple):
    """Sums over the steps; memory_reads and memory_writes are those that reach memory."""

    reads: float
    memory_reads: float
    writes: float
    memory_writes: float
    operations: float
    row_sums: float

    @property
    def accesses(self) -> float:
        return self.reads + self.writes

    def memory_accesses(self, stores: Stores) -> float:
        """Reads and writes that reach memory; an ordinary store reads its cache line first."""
        return self.memory_reads + (2 if stores == "ordinary" else 1) * self.memory_writes


def totals(steps: Iterable[Step]) -> Totals:
    """The totals of a model."""
    steps = tuple(steps)
    reads, writes, operations, row_sums, cached, kept = (
        sum(getattr(step, name) for step in steps)
        for name in ("reads", "writes", "operations", "row_sums", "cached", "kept")
    )
    return Totals(reads, reads - cached, writes, writes - kept, operations, row_sums)


_CENTRED_VARIANCE = (
    Step("mean(x)", 1, 0, 1, row_sums=1),
    Step("x - mean", 1, 1, 1),
    Step("square", 1, 1, 1),
    Step("mean of squares", 1, 0, 1, row_sums=1),
)
_SCALE_SHIFT = (Step("gamma * x_hat", 1, 1, 1), Step("+ beta", 1, 1, 1))
_ROUND = (Step("round", 1, 1, 0), Step("store", 1, 1, 0))
_G = (
    Step("g = gamma * dy", 1, 1, 1),
    Step("mean(g)", 1, 0, 1, row_sums=1),
    Step("g * x_hat", 2, 1, 1),
    Step("mean(g * x_hat)", 1, 0, 1, row_sums=1),
    Step("g - mean(g)", 1, 1, 1),
    Step("x_hat * mean(g * x_hat)", 1, 1, 1),
    Step("difference", 2, 1, 1),
    Step("dx = rstd * difference", 1, 1, 1),
)
_PARAMETERS = (
    Step("dy * x_hat", 2, 1, 1),
    Step("dgamma, sum over rows", 1, 0, 1),
    Step("dbeta, sum over rows", 1, 0, 1),
)
_RECENTRE = (
    Step("x - mean", 1, 1, 1),
    Step("mean of it", 1, 0, 1, row_sums=1),
    Step("z -= mean of it", 1, 1, 1),
)

_IN_CACHE = (1, 1, 1, 0, 1, 1)  # one pass over a cache-resident block, into cache-resident scratch

MODELS: dict[str, dict[Direction, tuple[Step, ...]]] = {
    "reference": {
        "forward": (
            Step("mean(x)", 1, 0, 1, row_sums=1),
            Step("x - mean", 1, 1, 1),
            Step("x - mean, again", 1, 1, 1),
            Step("product", 2, 1, 1),
            Step("mean of squares", 1, 0, 1, row_sums=1),
            Step("x - mean, again", 1, 1, 1),
            Step("x_hat", 1, 1, 1),
            *_SCALE_SHIFT,
            *_ROUND,
        ),
        "backward": (*_G, *_PARAMETERS, *_ROUND),
    },
    "compact": {
        "forward": (*_CENTRED_VARIANCE, Step("x_hat", 1, 1, 1), *_SCALE_SHIFT),
        "backward": (*_G, *_PARAMETERS),
    },
    "overcached": {
        "forward": (*_CENTRED_VARIANCE, Step("x_norm", 1, 1, 1), *_SCALE_SHIFT),
        "backward": (
            *_PARAMETERS,
            Step("dz = dy * gamma", 1, 1, 1),
            Step("sum(dz)", 1, 0, 1, row_sums=1),
            Step("dz * x_norm", 2, 1, 1),
            Step("sum(dz * x_norm)", 1, 0, 1, row_sums=1),
            Step("dz - sum(dz)/D", 1, 1, 1),
            Step("x_norm * sum(dz * x_norm)", 1, 1, 1),
            Step("/ D", 1, 1, 1),
            Step("difference", 2, 1, 1),
            Step("dx = difference / std", 1, 1, 1),
        ),
    },
    "recentred": {
        "forward": (
            Step("mean(x)", 1, 0, 1, row_sums=1),
            *_RECENTRE,
            Step("square", 1, 1, 1),
            Step("mean of squares", 1, 0, 1, row_sums=1),
            Step("x_hat", 1, 1, 1),
            *_SCALE_SHIFT,
        ),
        "backward": (*_RECENTRE, Step("x_hat", 1, 1, 1), *_G, *_PARAMETERS),
    },
    "numpy_blocked": {
        "forward": (
            Step("mean(x)", 1, 0, 1, row_sums=1),
            Step("x - mean", 1, 1, 1, cached=1, kept=1),
            Step("mean of it", 1, 0, 1, row_sums=1, cached=1),
            Step("z -= mean of it", *_IN_CACHE),
            Step("square", *_IN_CACHE),
            Step("mean of squares", 1, 0, 1, row_sums=1, cached=1),
            Step("x_hat", *_IN_CACHE),
            Step("gamma * x_hat", *_IN_CACHE),
            Step("+ beta", 1, 1, 1, cached=1),
        ),
        "backward": (
            Step("x - mean", 1, 1, 1, kept=1),
            Step("- shift", *_IN_CACHE),
            Step("x_hat", *_IN_CACHE),
            Step("dy * x_hat", 2, 1, 1, cached=1, kept=1),
            Step("dgamma, sum over rows", 1, 0, 1, cached=1),
            Step("dbeta, sum over rows", 1, 0, 1, cached=1),
            Step("g * x_hat", *_IN_CACHE),
            Step("mean(g * x_hat)", 1, 0, 1, row_sums=1, cached=1),
            Step("g = gamma * dy", *_IN_CACHE),
            Step("mean(g)", 1, 0, 1, row_sums=1, cached=1),
            Step("g - mean(g)", *_IN_CACHE),
            Step("x_hat * mean(g * x_hat)", *_IN_CACHE),
            Step("difference", 2, 1, 1, cached=2, kept=1),
            Step("dx = rstd * difference", 1, 1, 1, cached=1),
        ),
    },
    "numba_fused": {
        "forward": (
            Step("sums of z, z^2", 1, 0, 4, row_sums=2),
            Step("y", 1, 1, 5, cached=1),
        ),
        "backward": (
            Step("sums of z, g, g*z", 2, 0, 6, row_sums=3),
            Step("dx, dgamma, dbeta", 2, 1, 11, cached=2),
        ),
    },
    "separate": {
        "forward": (
            Step("mean", 1, 0, 1, row_sums=1),
            Step("var", 1, 0, 3, row_sums=1),
            Step("x_hat", 1, 1, 2),
            Step("y", 1, 1, 2),
        ),
        "backward": (
            Step("g", 1, 1, 1),
            Step("c1", 1, 0, 1, row_sums=1),
            Step("c2", 2, 0, 2, row_sums=1),
            Step("dx", 2, 1, 4),
            Step("dgamma", 2, 0, 2),
            Step("dbeta", 1, 0, 1),
        ),
    },
    "fused": {
        "forward": (
            Step("mean", 1, 0, 1, row_sums=1),
            Step("var", 1, 0, 3, row_sums=1, cached=1),
            Step("y", 1, 1, 4, cached=1),
        ),
        "backward": (
            Step("c1, c2", 2, 0, 6, row_sums=2),
            Step("dx, dgamma, dbeta", 2, 1, 10, cached=2),
        ),
    },
}
