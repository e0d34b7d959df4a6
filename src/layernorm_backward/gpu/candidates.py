"""Candidate mappings of threads to rows of one length, beside that of `kernels/cuda/maps.py`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from layernorm_backward.directions import Direction
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.maps import CHUNK, Map
from layernorm_backward.kernels.cuda.plan import Rest

REGISTERS, WORD = 65536, 4  # registers of a multiprocessor; bytes of a register
ASIDE = {"forward": 20, "backward": 24}  # registers of a thread that hold no element of a row or a vector
KEPT = {
    "forward": 2,
    "backward": 3,
}  # values of a column in registers: gamma; beta, both as stored, or two sums
LANES = (1, 2, 4, 8, 16, 32)  # lanes of a warp that share a row
CROWDED = 1024  # threads of a multiprocessor that saturate memory with one row at a time, one block per row
SHARED_BLOCK = 128  # threads of the smallest block that several rows share


class Candidate(NamedTuple):
    """A map, and the share of rows that the resident clusters leave to later ones."""

    map: Map
    rest: Rest

    @property
    def text(self) -> str:
        """Its name in a table."""
        one, rest = self
        laid = f"{one.threads}x{one.blocks} cluster {one.cluster} team {one.team} chunks {one.chunks}"
        return f"{laid} {'ring' if one.ring else f'rows {one.rows}'} rest {rest.share:g}/{rest.rounds}"

    @property
    def columns(self) -> dict[str, Any]:
        """Its parameters as columns of a table."""
        one, rest = self
        return {
            "threads": one.threads,
            "blocks": one.blocks,
            "cluster": one.cluster,
            "team": one.team,
            "chunks": one.chunks,
            "rows_at_once": one.rows,
            "ring": one.ring,
            "rest_share": rest.share,
            "rest_rounds": rest.rounds,
        }


class Space(NamedTuple):
    """The search space: threads per block; threads per multiprocessor, by direction; chunks per thread; rows
    that a team loads at once; blocks per cluster; (share, rounds) of rests beside the plan's own, by
    direction; and the least fraction of a team's chunks that a row must fill.
    """

    threads: Sequence[int]
    resident: Mapping[str, Sequence[int]]
    chunks: Sequence[int]
    rows_at_once: Sequence[int]
    clusters: Sequence[int]
    rests: Mapping[str, Sequence[tuple[float, int]]]
    filled: float


def candidates(direction: Direction, hidden: int, itemsize: int, space: Space) -> list[Candidate]:
    """Those for which a row fills enough of a team, a thread has enough registers, and that compile."""
    needed = plan.chunks(hidden, itemsize)
    found = dict.fromkeys(
        one
        for one in _maps(space, space.resident[direction], needed)
        if space.filled * one.most <= needed <= one.most
        and _fits(one, direction, itemsize)
        and not plan.refused(direction, one, itemsize)
    )
    return [Candidate(one, rest) for one in found for rest in _rests(one, direction, needed, itemsize, space)]


def _rests(one: Map, direction: Direction, needed: int, itemsize: int, space: Space) -> Iterator[Rest]:
    """The rests of a map; a ring takes no single rows, since these leave it nothing to prefetch."""
    own = plan.rest_of(direction, one, needed, itemsize)
    for rest in dict.fromkeys((own, *(Rest(*other) for other in space.rests[direction]))):
        if not (one.ring and rest.share) or rest.rounds > plan.MIN_STAGES:
            yield rest


def _maps(space: Space, all_resident: Sequence[int], needed: int) -> Iterator[Map]:
    for threads, resident, chunks in product(space.threads, all_resident, space.chunks):
        blocks = resident // threads
        if not blocks:
            continue
        if resident >= CROWDED:
            yield Map(threads, blocks, 1, threads, chunks, 1, ring=False)
            continue
        teams = {*LANES, threads} if threads >= SHARED_BLOCK else {threads}
        for team, rows in product(teams, space.rows_at_once):
            yield Map(threads, blocks, 1, team, chunks, rows, ring=False)
        half = threads * max(space.chunks) / 2  # of what a block holds
        for cluster in space.clusters:
            if cluster == 1 or needed > half:
                yield Map(threads, blocks, cluster, threads, chunks, rows=1, ring=True)


def _fits(one: Map, direction: Direction, itemsize: int) -> bool:
    """Whether a thread has, by estimate, enough registers for what it keeps."""
    stored = CHUNK // WORD if direction == "forward" else CHUNK // itemsize * max(itemsize // WORD, 1)
    kept = KEPT[direction] * one.chunks * stored
    held = 0 if one.ring else plan.READ[direction] * one.rows * one.chunks * (CHUNK // WORD)
    return kept + held + ASIDE[direction] <= REGISTERS // (one.threads * one.blocks)
