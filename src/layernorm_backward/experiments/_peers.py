"""Prepares peers for timing: checks their y and dx against the oracle, their dgamma and dbeta against ours.

As for kernels (`timing.prepared`), a peer whose error is over the limit is not timed. dgamma and dbeta are
sums over all rows, for which the oracle would take minutes; our kernel, whose error is known, is the
reference instead.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.peers_at_work.client import Lost, Peer
from layernorm_backward.peers_at_work.crew import Crew
from layernorm_backward.peers_at_work.protocol import Prepared, Work
from layernorm_backward.peers_at_work.settings import SETTINGS
from layernorm_backward.portable import norm
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.prepared import error_u_max, evenly, rows_looked_at

SUMS = ("dgamma", "dbeta")


class Limits(NamedTuple):
    """How many elements are checked, and the largest errors allowed, by the dtype of x and in its u: of y and
    dx, and of dgamma and dbeta as a difference from ours."""

    elements: int
    error_u: Mapping[str, float]
    sums_u: Mapping[str, float]

    def rows(self, hidden: int) -> int:
        """How many rows are checked."""
        return rows_looked_at(self.elements, hidden)


class Ready(NamedTuple):
    """A peer that can be timed: seconds per run, version and errors."""

    peer: Peer
    seconds: float
    version: str
    error_u_max: float
    sums_difference_u: float


def prepare(
    names: Iterable[str],
    cell: Mapping[str, Any],
    arrays: Buffers,
    crew: Crew,
    eps: float,
    limits: Limits,
) -> tuple[dict[str, Ready], dict[str, str]]:
    """The peers that can be timed, and for each other peer the reason why not."""
    missing = {name: SETTINGS[name].missing() for name in names}
    here = [name for name, reason in missing.items() if not reason]
    refused = {name: reason for name, reason in missing.items() if reason}
    work = _work(cell, arrays, crew.dy_offset, eps, limits.rows(cell["hidden"]))
    for name in here:
        crew.start(name, SETTINGS[name], work.threads)  # they load their packages in parallel
    ready = {}
    for name in here:
        try:
            found = _checked(*crew.prepare(name, SETTINGS[name], work), work, arrays, limits)
            ready[name] = found._replace(seconds=found.peer.warm())
        except Lost as lost:
            crew.end(name, work.threads)
            refused[name] = str(lost)
    return ready, refused


def _work(cell: Mapping[str, Any], arrays: Buffers, dy_offset: int, eps: float, rows: int) -> Work:
    what = cell["direction"], cell["dtype"], (cell["rows"], cell["hidden"]), dy_offset
    return Work(*what, arrays.gamma, arrays.beta, eps, cell["threads"], evenly(rows, cell["rows"]))


def _errors(prepared: Prepared, work: Work, arrays: Buffers) -> tuple[float, float]:
    """Largest error of the checked rows, and largest difference of dgamma and dbeta from ours, both in u."""
    x, dy = (array.reshape(work.shape)[work.looked_at] for array in (arrays.x, arrays.dy))
    found = {"dx": x, "y": x} | prepared.results
    rows = arrays._replace(x=x, dy=dy, out=found["dx"], y=found["y"])
    error = error_u_max(work.direction, rows, len(x), work.eps)
    ours = {name: getattr(arrays, name) for name in SUMS if name in prepared.results}
    u = unit_roundoff(x.dtype)
    differences = [_difference(found[name], values) / u for name, values in ours.items()]
    return error, max(differences, default=float("nan"))


def _difference(theirs: NDArray, ours: NDArray) -> float:
    """The relative difference in the 2-norm."""
    a, b = theirs.astype(np.float64), ours.astype(np.float64)
    return float(norm(a - b) / norm(b))


def _checked(peer: Peer, prepared: Prepared, work: Work, arrays: Buffers, limits: Limits) -> Ready:
    """The peer with its errors; raises Lost where its results are wrong."""
    error, difference = _errors(prepared, work, arrays)
    most, sums_most = limits.error_u[work.dtype], limits.sums_u[work.dtype]
    if not error <= most:
        raise Lost(peer.name, f"wrong: an error of {error:.3g} u, over {most:g} u")
    if work.direction != "forward" and not difference <= sums_most:
        far = f"wrong: dgamma or dbeta is {difference:.3g} u from ours, over {sums_most:g} u"
        raise Lost(peer.name, far)
    return Ready(peer, float("nan"), prepared.version, error, difference)
