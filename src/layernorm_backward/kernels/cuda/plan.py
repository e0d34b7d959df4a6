"""Which threads work on which rows: the one table behind every launch of `cuda_fused`, and what follows from
it.

A row of D elements has chunks of 16 bytes. `MAPS` says, for rows of at most so many chunks, how a team of
threads shares a row; `choose` adds what depends on the device and on N. See `map.cuh` and `ring.cuh`.
"""

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


def _warps(threads: int, blocks: int) -> tuple[Map, ...]:
    """Of a chunk a thread, and two: several rows at a time."""
    laid = (*((team, 1) for team in (1, 2, 4, 8, 16, 32)), (32, 2))
    return tuple(Map(threads, blocks, 1, team, chunks, 4 // chunks, ring=False) for team, chunks in laid)


def _warp(chunks: int) -> Map:
    return Map(256, 2, 1, 32, chunks, rows=1, ring=False)


def _block(threads: int, chunks: int, blocks: int, cluster: int = 1) -> Map:
    return Map(threads, blocks, cluster, team=threads, chunks=chunks, rows=1, ring=True)


def _blocks_of(*chunks: int) -> tuple[Map, ...]:
    """Blocks of 64 to 512 threads, then clusters of two to eight, of which each thread has so many chunks."""
    small = [_block(threads, one, 512 // threads) for threads in (64, 128, 256) for one in chunks]
    return (*small, *(_block(512, one, 1, cluster) for cluster in (1, 2, 4, 8) for one in chunks))


# By bytes of an element, from the shortest rows on. In the backward pass a thread keeps gamma and two sums of
# each of its elements in registers: at most 24 elements of 16 bits, 16 of 32, 10 of 64. Of 64 bits the last
# takes rows of 65536 that are ragged.
_OF_64_BITS = (
    *_warps(256, 2),
    _warp(4),
    *(_block(*how) for how in ((128, 2, 4), (256, 2, 2), (256, 4, 2))),
    *(_block(512, 4, 1, cluster) for cluster in (1, 2, 4, 8, 16)),
    _block(512, 5, 1, 16),
)
MAPS = {
    "backward": {
        2: (*_warps(256, 2)[:-1], _warp(2), *_blocks_of(2, 3)),
        4: (*_warps(256, 2), _warp(4), *_blocks_of(3, 4), _block(512, 3, 1, 16)),
        8: _OF_64_BITS,
    },
    # It keeps gamma and beta only. Of 16 bits a thread has more elements: what it does once for a row would
    # else take longer than memory does.
    "forward": {
        2: (*_warps(128, 5), _warp(4), *_blocks_of(3, 4)),
        4: (*_warps(128, 5), _warp(4), *_blocks_of(3, 4), _block(512, 3, 1, 16)),
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


class Plan(NamedTuple):
    """A launch over rows: blocks of the grid, stages of the ring and bytes of one array's slot in it (or 0,
    0), arrays read, and the number of rows after which they begin alike modulo 16 bytes.
    """

    map: Map
    blocks: int
    stages: int
    slot: int
    arrays: int
    period: int

    @property
    def partials(self) -> int:
        """Rows of the partial sums: one a block, or a cluster."""
        return self.blocks // self.map.cluster

    @property
    def dynamic_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        if not self.stages:
            return 0
        return -(-self.stages * GATE // CHUNK) * CHUNK + self.stages * self.arrays * self.slot


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
    lying = (chunks(hidden, itemsize, lie) for lie in (ALIKE, RAGGED))
    for needed, maps in product(lying, MAPS.values()):
        one = next((one for one in maps[itemsize] if one.most >= needed), None)
        if one is None:
            return None
        threads = one.team * one.cluster
        found.append(min(-(-needed // threads) * (CHUNK // itemsize), hidden) - 1 + tree_depth(threads))
    return max(found)


def choose(
    direction: Direction, rows: int, hidden: int, itemsize: int, lie: int, device: Hardware
) -> Plan | None:
    """The plan of a pass over rows of D elements; None where no map takes rows as long.

    Clusters are as many as the multiprocessors would hold; `resident` corrects that.
    """
    needed = chunks(hidden, itemsize, lie)
    wanted = (_on(device, one) for one in MAPS[direction][itemsize] if one.most >= needed)
    for one in filter(None, wanted):
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
    return Plan(chosen, _blocks(chosen, rows, period, device), stages, slot, arrays, period)


def resident(how: Plan, rows: int, clusters: int) -> Plan | None:
    """The plan where so many clusters run at once, fewer than were planned perhaps; None for none.

    More wait until others have ended. But clusters come in multiples of the rows' period, and the next one
    below may leave much of the device idle: where there are rows enough, more run, in waves that fill it.
    """
    if not clusters:
        return None
    if how.partials <= clusters:
        return how
    step = _step(how.map, how.period)
    waves = range(1, lcm(step, clusters) // clusters + 1)
    counts = [max(number * clusters // step, 1) * step for number in waves]
    best = min(counts, key=lambda count: -(-count // clusters) * (-(-rows // count) + ROWS_A_WAVE))
    return how._replace(blocks=best * how.map.cluster)


def _slot(chosen: Map, needed: int) -> int:
    """Bytes for a block's slice of a row of so many chunks, wherever it begins."""
    return (-(-needed // chosen.cluster) + 2) * CHUNK


def _stages(chosen: Map, slot: int, arrays: int, device: Hardware) -> int:
    """Rows that the shared memory of a block holds, at most STAGES."""
    free = device.shared_bytes // chosen.blocks - RESERVED - STAGES * GATE
    return min(STAGES, free // (arrays * slot))


def _on(device: Hardware, one: Map) -> Map | None:
    """The map as this device has it: without rings, where bulk copies are missing; None without clusters."""
    if device.hopper:
        return one
    return one._replace(ring=False) if one.cluster == 1 else None


def _blocks(chosen: Map, rows: int, period: int, device: Hardware) -> int:
    """Blocks that run at once, fewer for few rows."""
    fitting = device.multiprocessors * chosen.blocks // chosen.cluster
    wanted = -(-rows // (chosen.teams * chosen.rows * ROWS_A_TEAM[chosen.ring]))
    step = _step(chosen, period)
    groups = min(max(fitting // step, 1), max(-(-wanted // step), 1)) * step
    return groups * chosen.cluster


def _step(chosen: Map, period: int) -> int:
    """Blocks, or clusters, come in multiples of this: teams in multiples of the rows' period."""
    return max(1, period // chosen.teams)
