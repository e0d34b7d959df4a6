"""One cell of `peers_cpu`: our kernel, the roof and every peer timed in turn, and the rows that it gives."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.experiments import _columns, _peers
from layernorm_backward.experiments._peers import Limits, Ready
from layernorm_backward.kernels import Kernel
from layernorm_backward.peers_at_work.client import Lost, Peer
from layernorm_backward.peers_at_work.crew import Crew
from layernorm_backward.peers_at_work.meter import Meter
from layernorm_backward.peers_at_work.protocol import Usage
from layernorm_backward.peers_at_work.settings import SETTINGS
from layernorm_backward.timing import cell_roof
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.prepared import Prepared, prepare
from layernorm_backward.timing.timed import too_many

AS_IT_COMES = "default"  # the setting of a package; of our kernel, which writes into given arrays, too
ALLOCATING = "allocating"  # our kernel where it allocates its results, as packages at their best do
RUN_UP_S = 0.02  # of a sample that is not beyond the cache: threads that rested need part of a millisecond

Rows = list[dict[str, Any]]


class Timed(NamedTuple):
    """The samples of a cell, and what each call used."""

    samples: pd.DataFrame
    usage: dict[str, Usage]


def measured(
    cell: dict[str, Any],
    ours: Kernel,
    names: list[str],
    arrays: Buffers,
    crew: Crew,
    limits: Limits,
    how: dict[str, Any],
) -> tuple[Rows, pd.DataFrame]:
    """Rows and samples of one cell, which `cell` holds the columns of."""
    named = {name: {"kernel": SETTINGS[name].kernel, "setting": SETTINGS[name].setting} for name in names}
    also = any(it["setting"] == AS_IT_COMES for it in named.values())
    own = {ours.name: ours} | ({f"{ours.name}_{ALLOCATING}": _allocating(ours)} if also else {})
    settings = zip(own, (AS_IT_COMES, ALLOCATING), strict=False)
    named = {name: {"kernel": ours.name, "setting": setting} for name, setting in settings} | named
    nothing = pd.DataFrame(columns=["name", "repeat"])
    if too_many(cell["threads"]):
        return [cell | key | {"reason": too_many(cell["threads"])} for key in named.values()], nothing
    direction, looked_at = cell["direction"], limits.rows(cell["hidden"])
    kernels, refused = prepare(own, direction, arrays, looked_at, limits.error_u[cell["dtype"]])
    peers, missing = _peers.prepare(names, cell, arrays, crew, ours.default_eps, limits)
    timed, lost = _timed(cell, arrays, kernels, peers, crew, how)
    found = {name: _found(item, name, timed) for name, item in (kernels | peers).items() if name not in lost}
    rows = [
        cell | named[name] | _row(name, ours.name, cell, timed.samples) | more for name, more in found.items()
    ]
    reasons = refused | missing | lost
    rows += [cell | named[name] | {"reason": reason} for name, reason in reasons.items()]
    return rows, _columns.with_keys(timed.samples, cell)


def _allocating(kernel: Kernel) -> Kernel:
    """The same kernel, which takes no arrays for its results."""
    return replace(
        kernel,
        forward=lambda x, gamma, beta, eps: kernel.forward(x, gamma, beta, eps),
        backward=lambda dy, saved: kernel.backward(dy, saved),
    )


def _timed(
    cell: Mapping[str, Any],
    arrays: Buffers,
    kernels: Mapping[str, Prepared],
    peers: Mapping[str, Ready],
    crew: Crew,
    how: dict[str, Any],
) -> tuple[Timed, dict[str, str]]:
    """The samples, and why peers were lost meanwhile: then all others are timed anew."""
    streams = cell_roof.with_noise(cell_roof.streams(cell["direction"], arrays), cell["residency"])
    here = {name: Meter(call) for name, call in streams.items()}
    here |= {name: Meter(kernel.call) for name, kernel in kernels.items()}
    known_s = {name: kernel.run_s for name, kernel in kernels.items()}
    known_s |= {name: peer.seconds for name, peer in peers.items()}
    calls, lost = here | {name: peer.peer for name, peer in peers.items()}, {}
    how = how | {"minimum_s": 0.0 if cell["residency"] == "memory" else RUN_UP_S}
    while True:
        try:
            with stopwatch.threads(cell["threads"]):
                samples = stopwatch.compare(calls, known_s=known_s, **how)
            usage = {name: call.usage() for name, call in calls.items()}
        except Lost as error:
            crew.end(error.name, cell["threads"])
            lost[error.name] = str(error)
            del calls[error.name]
        else:
            _release([peer.peer for name, peer in peers.items() if name in calls], crew, cell["threads"])
            return Timed(samples, usage), lost


def _release(timed: Iterable[Peer], crew: Crew, threads: int) -> None:
    """Let peers free their arrays; one that does not is started anew for the next cell."""
    for peer in timed:
        try:
            peer.release()
        except Lost as error:
            crew.end(error.name, threads)


def _found(item: Prepared | Ready, name: str, timed: Timed) -> dict[str, Any]:
    columns = {"error_u_max": item.error_u_max} | timed.usage[name]._asdict()
    if isinstance(item, Prepared):
        return columns | {"idle_share": float("nan")}
    return columns | {"version": item.version, "sums_difference_u": item.sums_difference_u}


def _row(name: str, ours: str, cell: Mapping[str, Any], samples: pd.DataFrame) -> dict[str, Any]:
    row = _columns.of_call(cell, samples, name)
    if ours not in set(samples["name"]):
        return row | {"reason": f"compared with nothing: {ours} was not timed"}
    return row | stopwatch.ratio(samples, name, ours).columns("ours_ratio")
