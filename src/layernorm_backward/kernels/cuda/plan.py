"""Which threads work on which rows: the one table behind every launch of `cuda_fused`, and what follows from
it.

A row of D elements has chunks of 16 bytes. `MAPS` says, for rows of at most so many chunks, how a team of
threads shares a row; `choose` adds what depends on the device and on N. See `map.cuh` and `ring.cuh`.
"""

from collections.abc import Iterator
from itertools import product
from math import lcm
from typing import Literal, NamedTuple

import numpy as np

from layernorm_backward.sums import tree_depth

CHUNK = 16  # bytes
GATE = 8  # bytes
STAGES = 4  # rows in a ring, at most; below MIN_STAGES a ring does not pay:
MIN_STAGES = 3  # one row is summed, the one before is written, the others come
ROWS_A_TEAM = {False: 1, True: 2}  # without and with a ring: fewer are not worth another block's partial sums
ROWS_A_WAVE = 8  # whose time a cluster takes to begin and to end: about, and at most
RESERVED = 1024 + 3072  # bytes of shared memory a block: the driver's, and the sums'

MOST_RAGGED = 24  # elements of a thread, backward, of a ragged row or without a ring: with more it spills

# How rows lie: all at multiples of 16 bytes, and as long as the map takes them; all at multiples of 16 bytes;
# not so, but x, dy and the result alike; each array otherwise.
FULL, ALIKE, RAGGED, APART = range(-1, 3)


class Map(NamedTuple):
    """How teams share rows; as `struct Map` in map.cuh, whose template arguments these are, in this order."""

    threads: int
    blocks: int
    cluster: int
    team: int
    chunks: int
    rows: int
    ring: bool
    lie: int = ALIKE

    @property
    def most(self) -> int:
        """Chunks that a row may have."""
        return self.cluster * self.team * self.chunks

    @property
    def teams(self) -> int:
        """Teams of a block."""
        return self.threads // self.team

    @property
    def text(self) -> str:
        """The C++ type."""
        return f"Map<{', '.join(str(int(value)) for value in self)}>"


def _teams(threads: int, blocks: int, chunks: int, rows: int) -> tuple[Map, ...]:
    """Of 1 to 32 lanes of a warp; the shortest rows have a lane for each chunk."""
    short = [(team, 1) for team in (1, 2, 4) if team < chunks]
    laid = *short, *((team, chunks) for team in (1, 2, 4, 8, 16, 32) if chunks == 1 or team * chunks >= 4)
    return tuple(Map(threads, blocks, 1, team, many, rows, ring=False) for team, many in laid)


def _warp(threads: int, blocks: int, chunks: int) -> Map:
    return Map(threads, blocks, 1, 32, chunks, rows=1, ring=False)


def _registers(threads: int, blocks: int, chunks: int) -> Map:
    return Map(threads, blocks, 1, team=threads, chunks=chunks, rows=1, ring=False)


def _block(threads: int, blocks: int, chunks: int, cluster: int = 1) -> Map:
    return Map(threads, blocks, cluster, team=threads, chunks=chunks, rows=1, ring=True)


def _clusters(*blocks: tuple[int, int, int]) -> tuple[Map, ...]:
    """Blocks alone, then clusters of two to eight of them."""
    return tuple(_block(*one, cluster) for cluster in (1, 2, 4, 8) for one in blocks)


# By bytes of an element, from the shortest rows on; those of 16 and 32 bits are the fastest of many on an
# H200. In the backward pass a thread keeps gamma and two sums of each of its elements in registers. Of 64
# bits the last takes rows of 65536 that are ragged.
_OF_64_BITS = (
    *_teams(256, 2, 1, 4),
    _warp(256, 2, 2),
    _warp(256, 2, 4),
    *(_block(*how) for how in ((128, 4, 2), (256, 2, 2), (256, 2, 4))),
    *(_block(512, 1, 4, cluster) for cluster in (1, 2, 4, 8, 16)),
    _block(512, 1, 5, 16),
)
_RINGS = (
    *(_block(64, 8, chunks) for chunks in (3, 4)),
    *(_block(128, 4, chunks) for chunks in (3, 4)),
    *(_block(256, 2, chunks) for chunks in (3, 4)),
    *_clusters((512, 1, 3), (512, 1, 4)),
    _block(512, 1, 3, 16),
)
MAPS = {
    "backward": {
        2: (
            *_teams(512, 1, 1, 2),
            _warp(512, 1, 2),
            *(_block(64, 8, chunks) for chunks in (2, 3)),
            *(_block(128, 4, chunks) for chunks in (2, 3)),
            *(_block(256, 2, chunks) for chunks in (2, 3)),
            *_clusters((256, 2, 4), (512, 1, 3)),
        ),
        4: (
            *_teams(256, 2, 1, 4),
            _warp(256, 2, 2)._replace(rows=2),
            _warp(256, 2, 4),
            _block(64, 8, 3),
            _registers(128, 6, 2),
            _block(128, 4, 3),
            _registers(256, 3, 2),
            _block(256, 2, 3),
            _registers(256, 2, 4),
            *_clusters((512, 1, 3), (512, 1, 4)),
            _block(512, 1, 3, 16),
        ),
        8: _OF_64_BITS,
    },
    "forward": {
        2: (
            *_teams(128, 4, 2, 4),
            *(_block(32, 8, chunks) for chunks in (3, 4)),
            *(_block(64, 4, chunks) for chunks in (3, 4)),
            *(_block(128, 2, chunks) for chunks in (3, 4)),
            *(_block(256, 2, chunks) for chunks in (3, 4)),
            *_clusters((512, 1, 3), (512, 1, 4)),
        ),
        4: (*_teams(512, 1, 4, 2), *_RINGS),
        8: _OF_64_BITS,
    },
}
READ = {"forward": 1, "backward": 2}  # arrays
Direction = Literal["forward", "backward"]


class Hardware(NamedTuple):
    """Of a device: multiprocessors, bytes of shared memory of each, and whether it has clusters and bulk
    copies.
    """

    multiprocessors: int
    shared_bytes: int
    hopper: bool


class Rest(NamedTuple):
    """What the clusters that run at once leave to later ones: this share of the rows, in groups of so many
    rounds of a cluster. A round is as many rows as its teams load at once.
    """

    share: float
    rounds: int


# Memory serves some multiprocessors of an H200 twice as fast as others: with as many rows for each, those are
# done early. First where a block has several teams, then where it has one or is part of one. Nothing is left
# in the backward pass, where each later cluster would have partial sums of its own: that was slower.
REST = {
    "forward": (Rest(0.2, 4), Rest(0.1, 8)),
    "backward": (Rest(0.0, 16), Rest(0.0, 16)),
}
FEWEST = 1 / 8  # groups for each cluster that leads, for a rest to pay


class Plan(NamedTuple):
    """A launch over rows: blocks of the grid, stages of the ring and bytes of one array's slot in it (or 0,
    0), the number of rows after which they begin alike modulo 16 bytes; and as `struct Sharing` in map.cuh.
    """

    direction: Direction
    map: Map
    blocks: int
    stages: int
    slot: int
    period: int
    lead: int
    together: int
    shared: int
    group: int

    @property
    def partials(self) -> int:
        """Rows of the partial sums: one a block, or a cluster."""
        return self.blocks // self.map.cluster

    @property
    def dynamic_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        if not self.stages:
            return 0
        return -(-self.stages * GATE // CHUNK) * CHUNK + self.stages * READ[self.direction] * self.slot


def lie(hidden: int, itemsize: int, *addresses: int) -> int:
    """How the rows of arrays at these addresses lie: ALIKE, RAGGED or APART."""
    places = {address % CHUNK for address in addresses}
    if len(places) > 1:
        return APART
    return ALIKE if places == {0} and hidden * itemsize % CHUNK == 0 else RAGGED


def chunks(hidden: int, itemsize: int, lie: int) -> int:
    """Chunks that a row may touch."""
    lanes = CHUNK // itemsize
    return -(-(hidden + (lanes - 1 if lie > ALIKE else 0)) // lanes)


def phases(hidden: int, itemsize: int) -> int:
    """How many positions modulo 16 bytes the beginnings of rows have."""
    lanes = CHUNK // itemsize
    return lanes // int(np.gcd(lanes, hidden))


def depth(hidden: int, itemsize: int) -> int | None:
    """The most additions between an element and the sum of its row, however rows lie: those of its thread,
    then those of the team's threads in pairs. For a device with rings; None where no map takes rows as long.
    """
    found = []
    for direction, lie in product(MAPS, (ALIKE, RAGGED)):
        needed = chunks(hidden, itemsize, lie)
        one = next(_holding(direction, needed, itemsize, lie), None)
        if one is None:
            return None
        threads = one.team * one.cluster
        found.append(min(-(-needed // threads) * (CHUNK // itemsize), hidden) - 1 + tree_depth(threads))
    return max(found)


def _holding(direction: Direction, needed: int, itemsize: int, lie: int) -> Iterator[Map]:
    """The maps for rows of so many chunks, the best first."""
    for one in MAPS[direction][itemsize]:
        elements = one.chunks * CHUNK // itemsize
        if one.most >= needed and (lie <= ALIKE or direction == "forward" or elements <= MOST_RAGGED):
            yield one


def choose(
    direction: Direction, rows: int, hidden: int, itemsize: int, lie: int, device: Hardware
) -> Plan | None:
    """The plan of a pass over rows of D elements; None where no map takes rows as long.

    Clusters are as many as the multiprocessors would hold; `resident` corrects that.
    """
    needed = chunks(hidden, itemsize, lie)
    holding = _holding(direction, needed, itemsize, lie)
    for one in filter(None, (_on(device, one, direction, itemsize) for one in holding)):
        if not one.ring or _stages(one, _slot(one, needed), READ[direction], device) >= MIN_STAGES:
            return fit(direction, one._replace(lie=lie), rows, hidden, itemsize, device)
    return None


def fit(direction: Direction, chosen: Map, rows: int, hidden: int, itemsize: int, device: Hardware) -> Plan:
    """Grid and ring for a map; ValueError where it cannot hold a row, or too few of them in shared memory."""
    arrays = READ[direction]
    needed = chunks(hidden, itemsize, chosen.lie)
    if needed > chosen.most:
        raise ValueError(f"{chosen} holds {chosen.most} chunks of a row, D = {hidden} has {needed}")
    if chosen.lie == ALIKE and needed == chosen.most:
        chosen = chosen._replace(lie=FULL)
    slot = _slot(chosen, needed) if chosen.ring else 0
    stages = _stages(chosen, slot, arrays, device) if chosen.ring else 0
    if chosen.ring and stages < MIN_STAGES:
        raise ValueError(f"{chosen}: shared memory holds {stages} rows of D = {hidden}; needed: {MIN_STAGES}")
    period = phases(hidden, itemsize)
    lead = _lead(chosen, rows, period, device)
    step = _step(chosen, period)
    return _shared(
        Plan(direction, chosen, lead * chosen.cluster, stages, slot, period, lead, step, rows, 0), rows
    )


def resident(how: Plan, rows: int, clusters: int) -> Plan | None:
    """The plan where so many clusters run at once, fewer than were planned perhaps; None for none.

    More wait until others have ended. But clusters come in multiples of the rows' period, and the next one
    below may leave much of the device idle: where there are rows enough, more run, in waves that fill it.
    """
    if not clusters:
        return None
    if how.lead <= clusters:
        return how
    step = _step(how.map, how.period)
    waves = range(1, lcm(step, clusters) // clusters + 1)
    counts = [max(number * clusters // step, 1) * step for number in waves]
    best = min(counts, key=lambda count: -(-count // clusters) * (-(-rows // count) + ROWS_A_WAVE))
    all_lead = how._replace(blocks=best * how.map.cluster, lead=best, shared=rows)
    return _shared(all_lead, rows) if best <= clusters else all_lead


def _shared(how: Plan, rows: int) -> Plan:
    """A plan in which all clusters lead, with a rest where there are rows enough."""
    rest, together = REST[how.direction][how.map.teams == 1], how.together
    group = rest.rounds * how.map.teams * how.map.rows * together
    groups = int(rest.share * rows) // group
    if groups < FEWEST * how.lead:
        return how
    blocks = how.blocks + groups * together * how.map.cluster
    return how._replace(blocks=blocks, shared=rows - groups * group, group=group)


def _slot(chosen: Map, needed: int) -> int:
    """Bytes for a block's slice of a row of so many chunks, wherever it begins."""
    return (-(-needed // chosen.cluster) + 2) * CHUNK


def _stages(chosen: Map, slot: int, arrays: int, device: Hardware) -> int:
    """Rows that the shared memory of a block holds, at most STAGES."""
    free = device.shared_bytes // chosen.blocks - RESERVED - STAGES * GATE
    return min(STAGES, free // (arrays * slot))


def _on(device: Hardware, one: Map, direction: Direction, itemsize: int) -> Map | None:
    """The map as this device has it: without rings, where bulk copies are missing; None where it has no
    clusters, or a thread no registers for a row that no ring holds.
    """
    if device.hopper:
        return one
    spills = direction == "backward" and one.chunks * CHUNK // itemsize > MOST_RAGGED
    return one._replace(ring=False) if one.cluster == 1 and not spills else None


def _lead(chosen: Map, rows: int, period: int, device: Hardware) -> int:
    """Clusters that run at once, fewer for few rows."""
    fitting = device.multiprocessors * chosen.blocks // chosen.cluster
    wanted = -(-rows // (chosen.teams * chosen.rows * ROWS_A_TEAM[chosen.ring]))
    step = _step(chosen, period)
    return min(max(fitting // step, 1), max(-(-wanted // step), 1)) * step


def _step(chosen: Map, period: int) -> int:
    """Blocks, or clusters, come in multiples of this: teams in multiples of the rows' period."""
    return max(1, period // chosen.teams)
