"""One cell of `peers_cpu`: times our kernel, the roof and every peer interleaved, and makes its rows."""

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

DEFAULT = "default"  # the setting of a package; also of our kernel, writing into given arrays
ALLOCATING = "allocating"  # our kernel allocating its results, as packages do in their default setting
RUN_UP_S = 0.02  # least duration of a sample in the cache: idle threads need part of a millisecond to wake

Rows = list[dict[str, Any]]


class Timed(NamedTuple):
    """The samples of a cell, and the usage of each call."""

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
    """Rows and samples of one cell, whose columns are in `cell`; our kernel is first, then the peers `names`.

    Our kernel is also timed ALLOCATING where some peer is timed in its DEFAULT setting.
    """
    keys = {ours.name: {"kernel": ours.name, "setting": DEFAULT}}
    our_kernels = {ours.name: ours}
    if any(SETTINGS[name].setting == DEFAULT for name in names):
        allocating = f"{ours.name}_{ALLOCATING}"
        keys[allocating] = {"kernel": ours.name, "setting": ALLOCATING}
        our_kernels[allocating] = _allocating(ours)
    keys |= {name: {"kernel": SETTINGS[name].kernel, "setting": SETTINGS[name].setting} for name in names}
    if reason := too_many(cell["threads"]):
        no_samples = pd.DataFrame(columns=["name", "repeat"])
        return [cell | key | {"reason": reason} for key in keys.values()], no_samples
    error_rows, limit_u = limits.rows(cell["hidden"]), limits.error_u[cell["dtype"]]
    kernels, refused = prepare(our_kernels, cell["direction"], arrays, error_rows, limit_u)
    peers, missing = _peers.prepare(names, cell, arrays, crew, ours.default_eps, limits)
    timed, lost = _timed(cell, arrays, kernels, peers, crew, how)
    rows = [
        cell | keys[name] | _times(name, ours.name, cell, timed.samples) | _checks(item, timed.usage[name])
        for name, item in (kernels | peers).items()
        if name not in lost
    ]
    reasons = refused | missing | lost
    rows += [cell | keys[name] | {"reason": reason} for name, reason in reasons.items()]
    return rows, _columns.with_keys(timed.samples, cell)


def _allocating(kernel: Kernel) -> Kernel:
    """The kernel without `out`, so that it allocates its results."""
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
    """The samples and usage, and why peers were lost; if one is, all others are timed anew."""
    streams = cell_roof.with_noise(cell_roof.streams(cell["direction"], arrays), cell["residency"])
    meters = {name: Meter(call) for name, call in streams.items()}
    meters |= {name: Meter(kernel.call) for name, kernel in kernels.items()}
    known_s = {name: kernel.run_s for name, kernel in kernels.items()}
    known_s |= {name: peer.seconds for name, peer in peers.items()}
    cell_roof.load(cell["direction"], arrays)
    known_s = dict.fromkeys(streams, min(known_s.values(), default=0.0)) | known_s
    calls, lost = meters | {name: peer.peer for name, peer in peers.items()}, {}
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
    """Make peers free their arrays; a peer that fails to is restarted for the next cell."""
    for peer in timed:
        try:
            peer.release()
        except Lost as error:
            crew.end(error.name, threads)


def _checks(item: Prepared | Ready, usage: Usage) -> dict[str, Any]:
    """The columns of errors and usage; of a peer also its version."""
    columns = {"error_u_max": item.error_u_max} | usage._asdict()
    if isinstance(item, Prepared):
        return columns | {"idle_share": float("nan")}
    return columns | {"version": item.version, "sums_difference_u": item.sums_difference_u}


def _times(name: str, ours: str, cell: Mapping[str, Any], samples: pd.DataFrame) -> dict[str, Any]:
    """The columns of times, with the ratio to our kernel; a reason where that was not timed."""
    row = _columns.of_call(cell, samples, name)
    if ours not in set(samples["name"]):
        return row | {"reason": f"compared with nothing: {ours} was not timed"}
    return row | stopwatch.ratio(samples, name, ours).columns("ours_ratio")
