"""Which threads work on which rows: the one table behind every launch of `cuda_fused`, and what follows from
it.

A row of D elements has chunks of 16 bytes. `MAPS` says, for rows of at most so many chunks, how a team of
threads shares a row; `choose` adds what depends on the device and on N. See `map.cuh` and `ring.cuh`.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.sums import tree_depth

CHUNK = 16  # bytes
GATE = 8  # bytes
STAGES = 4  # rows in a ring, at most; below MIN_STAGES a ring does not pay
MIN_STAGES = 2
ROWS_A_TEAM = 4  # fewer rows than that do not make another block worth its partial sums
RESERVED = 1024 + 2048  # bytes of shared memory a block: the driver's, and the sums'

# How rows lie: all at multiples of 16 bytes; not so, but x, dy and the result alike; each array otherwise.
ALIKE, RAGGED, APART = range(3)


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


def _lanes(team: int) -> Map:
    return Map(threads=256, blocks=2, cluster=1, team=team, chunks=1, rows=4, ring=False)


def _warp(chunks: int) -> Map:
    return Map(threads=256, blocks=2, cluster=1, team=32, chunks=chunks, rows=4 // chunks, ring=False)


def _block(threads: int, chunks: int, blocks: int, cluster: int = 1) -> Map:
    return Map(threads, blocks, cluster, team=threads, chunks=chunks, rows=1, ring=True)


_NARROW = tuple(_lanes(team) for team in (1, 2, 4, 8, 16, 32))

# By bytes of an element, from the shortest rows on. A thread keeps gamma and two sums for each of its
# elements in registers: at most 16 elements, 8 of float64. The last of each takes rows of 65536 that are
# ragged.
MAPS: dict[int, tuple[Map, ...]] = {
    2: (
        *_NARROW,
        _warp(2),
        _block(64, 2, 8),
        _block(128, 2, 4),
        _block(256, 2, 2),
        *(_block(512, 2, 1, cluster) for cluster in (1, 2, 4, 8, 16)),
    ),
    4: (
        *_NARROW,
        _warp(2),
        _warp(4),
        _block(128, 2, 6),
        _block(256, 2, 3),
        _block(256, 4, 2),
        *(_block(512, 4, 1, cluster) for cluster in (1, 2, 4, 8)),
        _block(512, 5, 1, 8),
    ),
    8: (
        *_NARROW,
        _warp(2),
        _warp(4),
        _block(128, 2, 4),
        _block(256, 2, 2),
        _block(256, 4, 2),
        *(_block(512, 4, 1, cluster) for cluster in (1, 2, 4, 8, 16)),
        _block(512, 5, 1, 16),
    ),
}


class Hardware(NamedTuple):
    """Of a device: multiprocessors, bytes of shared memory of each, and whether it has clusters and bulk
    copies.
    """

    multiprocessors: int
    shared_bytes: int
    hopper: bool


class Plan(NamedTuple):
    """A launch over rows: blocks of the grid, stages of the ring and bytes of one array's slot in it (or 0,
    0).
    """

    map: Map
    blocks: int
    stages: int
    slot: int
    arrays: int

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
    return -(-(hidden + (lanes - 1 if lie else 0)) // lanes)


def phases(hidden: int, itemsize: int) -> int:
    """How many positions modulo 16 bytes the beginnings of rows have."""
    lanes = CHUNK // itemsize
    return lanes // int(np.gcd(lanes, hidden))


def depth(hidden: int, itemsize: int) -> int | None:
    """The most additions between an element and the sum of its row, however rows lie: those of its thread,
    then those of the team's threads in pairs. For a device with rings; None where no map takes rows as long.
    """
    found = []
    for needed in (chunks(hidden, itemsize, lie) for lie in (ALIKE, RAGGED)):
        one = next((one for one in MAPS[itemsize] if one.most >= needed), None)
        if one is None:
            return None
        threads = one.team * one.cluster
        found.append(min(-(-needed // threads) * (CHUNK // itemsize), hidden) - 1 + tree_depth(threads))
    return max(found)


def choose(rows: int, hidden: int, itemsize: int, lie: int, arrays: int, device: Hardware) -> Plan | None:
    """The plan for rows of D elements, of which `arrays` arrays are read; None where no map takes rows as
    long.
    """
    needed = chunks(hidden, itemsize, lie)
    wanted = (_on(device, one) for one in MAPS[itemsize] if one.most >= needed)
    for one in filter(None, wanted):
        if not one.ring or _stages(one, _slot(one, needed), arrays, device) >= MIN_STAGES:
            return fit(one._replace(lie=lie), rows, hidden, itemsize, arrays, device)
    return None


def fit(chosen: Map, rows: int, hidden: int, itemsize: int, arrays: int, device: Hardware) -> Plan:
    """Grid and ring for a map; ValueError where it cannot hold a row, or not two of them in shared memory."""
    needed = chunks(hidden, itemsize, chosen.lie)
    if needed > chosen.most:
        raise ValueError(f"{chosen} holds {chosen.most} chunks of a row, D = {hidden} has {needed}")
    slot = _slot(chosen, needed) if chosen.ring else 0
    stages = _stages(chosen, slot, arrays, device) if chosen.ring else 0
    if chosen.ring and stages < MIN_STAGES:
        raise ValueError(f"{chosen}: shared memory holds {stages} rows of D = {hidden}; needed: {MIN_STAGES}")
    return Plan(chosen, _blocks(chosen, rows, phases(hidden, itemsize), device), stages, slot, arrays)


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
    """Blocks that run at once, fewer for few rows; teams are a multiple of the rows' phases."""
    resident = device.multiprocessors * chosen.blocks // chosen.cluster
    if chosen.cluster > 2:  # a cluster stays within 16 multiprocessors that lie together
        resident = device.multiprocessors // 16 * 16 * chosen.blocks // chosen.cluster
    wanted = -(-rows // (chosen.teams * chosen.rows * ROWS_A_TEAM))
    step = max(1, period // chosen.teams)
    groups = min(max(resident // step, 1), max(-(-wanted // step), 1)) * step
    return groups * chosen.cluster
