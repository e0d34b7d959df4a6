"""What goes over the pipe between the measuring process and a peer's: plain records, pickled."""

from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from layernorm_backward.directions import AnyDirection

QUANTITIES: dict[AnyDirection, tuple[str, ...]] = {
    "forward": ("y",),
    "backward": ("dx", "dgamma", "dbeta"),
    "both": ("y", "dx", "dgamma", "dbeta"),
}


class Work(NamedTuple):
    """One pass over x, dy (N, D), which lie one after the other in shared memory, `apart` bytes apart.

    gamma, beta (D,) come with it. `looked_at` are the rows of y and dx that are sent back to be checked.
    """

    direction: AnyDirection
    dtype: str
    shape: tuple[int, int]
    apart: int
    gamma: NDArray
    beta: NDArray
    eps: float
    threads: int
    looked_at: NDArray


class Prepared(NamedTuple):
    """Results by name (of y and dx the rows looked at), and the package's version."""

    results: dict[str, NDArray]
    version: str


class Sample(NamedTuple):
    """Seconds a run, runs, seconds in the run queue: what `clock.sample` gives."""

    seconds: float
    runs: int
    wait_s: float


class Usage(NamedTuple):
    """Of all samples together: processor seconds a second, page faults a run; and, between samples, processor
    seconds a second."""

    cores_busy: float
    page_faults: float
    idle_share: float


class Request(NamedTuple):
    """What the other side is to do: prepare (a Work), warm, sample (runs, untimed runs before),
    usage, release."""

    what: Literal["prepare", "warm", "sample", "usage", "release"]
    arguments: tuple[Any, ...] = ()


class Failure(NamedTuple):
    """The answer to a request that raised: what it said."""

    reason: str
