"""The messages between the measuring process and a peer's process: plain records, pickled over a pipe."""

from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from layernorm_backward.directions import AnyDirection

QUANTITIES: dict[AnyDirection, tuple[str, ...]] = {
    "forward": ("y",),
    "backward": ("dx", "dgamma", "dbeta"),
    "both": ("y", "dx", "dgamma", "dbeta"),
}


class Work(NamedTuple):
    """One pass over x, dy (N, D) in shared memory, where x begins at byte 0 and dy at byte `dy_offset`.

    gamma, beta (D,) are part of the message. `looked_at` are the rows of y and dx that are returned for
    checks.
    """

    direction: AnyDirection
    dtype: str
    shape: tuple[int, int]
    dy_offset: int
    gamma: NDArray
    beta: NDArray
    eps: float
    threads: int
    looked_at: NDArray


class Prepared(NamedTuple):
    """Results by name (only the rows `looked_at` of y and dx), and the package's version."""

    results: dict[str, NDArray]
    version: str


class Sample(NamedTuple):
    """Seconds per run, number of runs, seconds in the run queue: what `clock.sample` returns."""

    seconds: float
    runs: int
    wait_s: float


class Usage(NamedTuple):
    """CPU seconds per second and page faults per run, of all samples; CPU seconds per second in between."""

    cores_busy: float
    page_faults: float
    idle_share: float


class Request(NamedTuple):
    """A request to the worker: prepare (a Work), warm, sample (runs, untimed runs before), usage, release."""

    what: Literal["prepare", "warm", "sample", "usage", "release"]
    arguments: tuple[Any, ...] = ()


class Failure(NamedTuple):
    """The answer to a request that raised an exception: its message."""

    reason: str
