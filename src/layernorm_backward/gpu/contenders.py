"""Contenders: our kernels and peers made ready to be timed on a GPU, as CUDA graphs where possible.

A graph's replay leaves out the cost of launching from Python and of a framework's autograd.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import kernels, peers_on_gpu
from layernorm_backward.directions import DIRECTIONS, Direction
from layernorm_backward.gpu import variants
from layernorm_backward.gpu.board import Board, Call, unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.reasons import Refusal
from layernorm_backward.gpu.rows import Arrays
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.gpu.variants import Passes
from layernorm_backward.kernels.saved import saved_bytes
from layernorm_backward.one_line import one_line
from layernorm_backward.peers_on_gpu.contender import Directions


class Contender(NamedTuple):
    """One implementation on one set of arrays: its two passes, their results, and facts about it."""

    passes: dict[str, Timed]
    results: Callable[[], Results]
    capture: Callable[[Call], Call] | None
    version: str
    note: str
    saved_bytes: int | None = None
    saved_extra_bytes: int | None = None
    written: Callable[[], Iterable[Any]] | None = (
        None  # the arrays written, where results may be copies of them
    )


def missing(name: str) -> str:
    """Why a kernel or peer is not available; "" where it is."""
    return peers_on_gpu.missing(name) if name in peers_on_gpu.PEERS else ""


def version(name: str) -> str:
    """The installed versions of the packages of a kernel or peer; "" for a stream, which has none."""
    if name in peers_on_gpu.PEERS:
        return peers_on_gpu.version(name)
    return kernels.version(variants.kernel_of(name)) if variants.ours(name) else ""


def prepare(
    board: Board, name: str, given: Arrays, eps: float, directions: Directions = DIRECTIONS
) -> Contender:
    """One of our kernels, or a peer with the passes of `directions`; they have run once.

    ValueError where it does not support these arrays.
    """
    if name in peers_on_gpu.PEERS:
        return _peer(name, given, eps, directions)
    kernel = variants.kernel_of(name)
    if given.x.dtype.name in kernel.unsupported:
        raise Refusal(kernel.unsupported[given.x.dtype.name])
    passes = variants.passes(name, board.machine)
    return of_passes(board, passes, given, eps, version(name), results_for(board, given))


def results_for(board: Board, given: Arrays) -> Results:
    """New arrays for y, dx, dgamma and dbeta."""
    like = (given.x, given.x, given.gamma, given.gamma)
    return Results(*(board.xp.empty(one.shape, one.dtype) for one in like))


def of_passes(
    board: Board, passes: Passes, given: Arrays, eps: float, version: str, results: Results
) -> Contender:
    """The two passes of one of our kernels, which have run once; the contents of `results` are lost."""
    run_forward, run_backward = passes
    y, *gradients = (poisoned(result) for result in results)
    _, saved = run_forward(given.x, given.gamma, given.beta, eps, out=y)
    timed = {
        "forward": Timed(lambda: _none(run_forward(given.x, given.gamma, given.beta, eps, out=y))),
        "backward": Timed(lambda: _none(run_backward(given.dy, saved, out=tuple(gradients)))),
    }
    timed["backward"].call()
    return Contender(
        timed,
        lambda: results,
        board.captured,
        version,
        "",
        saved_bytes(saved),
        saved_bytes(saved, given.x, given.gamma),
    )


def replayed(contender: Contender, direction: Direction) -> tuple[Timed, str]:
    """A pass as a graph, or the pass itself and why it cannot be captured.

    The graph has run once, on results filled with NaN before, so that they show the graph's own work.
    """
    timed = contender.passes[direction]
    if contender.capture is None:
        return timed, ""
    try:
        graph = Timed(contender.capture(timed.call), timed.wait)
    except Exception as error:  # whatever a framework raises, its pass can still be timed as it is
        timed.call()  # its results are lost
        return timed, f"not captured: {one_line(error)}"
    for result in (contender.written or contender.results)():
        if result is not None:
            poisoned(result)
    graph.call()
    return graph, "graph"


def _peer(name: str, given: Arrays, eps: float, directions: Directions) -> Contender:
    found = peers_on_gpu.prepare(name, *given, eps, directions)
    calls = {"forward": found.forward, "backward": found.backward}
    passes = {which: Timed(call, found.synchronize) for which, call in calls.items() if call}
    facts = (found.captured, version(name), found.note)
    return Contender(passes, lambda: Results(*found.results()), *facts, written=found.written)


def poisoned(array: Any) -> Any:
    """Fill an array with NaN."""
    array.view(unsigned(array.dtype))[...] = np.iinfo(unsigned(array.dtype)).max
    return array


def _none(_: object) -> None:
    return None
