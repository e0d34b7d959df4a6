"""Which threads work on which rows: a map of `maps.py`, and what depends on the device and on N.

`choose` makes the plan of a launch, and `resident` corrects it where the device runs fewer clusters at once.
"""

from collections.abc import Iterator
from itertools import product
from math import gcd, lcm
from typing import NamedTuple

import numpy as np

from layernorm_backward.directions import Direction
from layernorm_backward.kernels.cuda.maps import ALIKE, APART, CHUNK, FULL, MAPS, RAGGED, Map
from layernorm_backward.sums import tree_depth

GATE = 8  # bytes
MIN_STAGES = 3  # rows in a ring: one is summed, the one before is written, the others come
STAGES = {2: MIN_STAGES, 4: MIN_STAGES, 8: 4}  # at most, by bytes of an element
ROWS_A_TEAM = {False: 1, True: 2}  # without and with a ring: fewer are not worth another block's partial sums
ROWS_A_WAVE = 8  # whose time a cluster takes to begin and to end: about, and at most
SYSTEM, GRANULE = 1024, 128  # bytes of a block's shared memory: the driver's, and what all are a multiple of
MOST_STATIC = 48 << 10  # bytes of it that the compiler lays out, at most
WARP = 32
MOST_EDGES = 2  # of a thread: fewer threads than that would have the edges of a ragged row are no team for it
# Elements of a thread, of ragged rows or without a ring: with more it spills. Backward those of one row,
# forward those that it has at once.
MOST_RAGGED = 24

READ = {"forward": 1, "backward": 2}  # arrays
SUMS = {"forward": 2, "backward": 3}  # of a row
PARTS = 4  # sums that meet at once, as `Parts` in team.cuh


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


class Rests(NamedTuple):
    """Of rows in registers that fill their threads, of others in registers, and of rows in a ring."""

    full: Rest
    partly: Rest
    ring: Rest


# Memory serves some multiprocessors of an H200 twice as fast as others: with as many rows for each, those are
# done early. By bytes of an element. A forward pass takes rows that fill their threads in order, a new block
# for each round or two; others begin too slowly for that. Nothing is left in the backward pass, where each
# later cluster would have partial sums of its own: that was slower.
REST = {
    "forward": {size: Rests(Rest(1.0, max(1, 4 // size)), Rest(0.3, 4), Rest(0.1, 8)) for size in (2, 4, 8)},
    "backward": dict.fromkeys((2, 4, 8), Rests(*(Rest(0.0, 1),) * 3)),
}
FEWEST = 0.6  # groups that all rows make, for each that the leading clusters would, for a rest to pay


class Plan(NamedTuple):
    """A launch over rows: blocks of the grid, stages of the ring and bytes of one array's slot in it (or 0,
    0), the number of rows after which they begin alike modulo 16 bytes; as `struct Sharing` in map.cuh, and
    what that was made from.
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
    rest: Rest

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


def chunks(hidden: int, itemsize: int) -> int:
    """The most chunks that a row has, wherever it begins."""
    return hidden // (CHUNK // itemsize)


def edges(one: Map, itemsize: int) -> int:
    """The most elements beside its chunks that a thread has of a row; as `Share` in row.cuh."""
    return -(-2 * (CHUNK // itemsize - 1) // one.team) if one.lie > ALIKE else 0


def _meets(one: Map) -> bool:
    """Whether more than a warp adds up a row, in shared memory; a ring's rows always do."""
    return one.ring or one.team > WARP or one.cluster > 1


def static_bytes(direction: Direction, one: Map, itemsize: int) -> int:
    """Of a block's shared memory, that the sums of rows take, as MEETING in team.cuh, and those over rows of
    several teams, as `held` in backward.cuh.
    """
    wide = max(itemsize, np.dtype(np.float32).itemsize)
    meeting = 2 * (max(one.team // WARP, 1) + (one.cluster > 1)) * PARTS * wide
    again = direction == "forward" and one.ring and _meets(one._replace(ring=False))  # where a mean is far
    held = 0
    if direction == "backward" and one.teams > 1:
        held = one.threads * (one.chunks * (CHUNK // itemsize) + edges(one, itemsize)) * wide
    return (_meets(one) + again) * meeting + held


def refused(direction: Direction, one: Map, itemsize: int) -> str:
    """Why the sources do not compile for a map, as their static_asserts say it; "" where they do."""
    met = {
        "sums meet in pairs": all(number & (number - 1) == 0 for number in (one.team, one.cluster)),
        "one team meets in a block's shared memory": one.team == one.threads
        or (one.team <= WARP and one.cluster == 1),
        "a ring brings one row to a block": not one.ring or one.rows == one.teams == 1,
        "parts hold four numbers": not _meets(one) or SUMS[direction] * one.rows <= PARTS,
        "too much static shared memory": static_bytes(direction, one, itemsize) <= MOST_STATIC,
    }
    return next((text for text, holds in met.items() if not holds), "")


def phases(hidden: int, itemsize: int) -> int:
    """How many positions modulo 16 bytes the beginnings of rows have."""
    lanes = CHUNK // itemsize
    return lanes // int(np.gcd(lanes, hidden))


def depth(hidden: int, itemsize: int) -> int | None:
    """The most additions between an element and the sum of its row, however rows lie: those of its thread,
    then those of the team's threads in pairs. For a device with rings; None where no map takes rows as long.
    """
    found = []
    needed = chunks(hidden, itemsize)
    for direction, lie in product(MAPS, (ALIKE, RAGGED)):
        one = next(_holding(direction, needed, itemsize, lie), None)
        if one is None:
            return None
        threads = one.team * one.cluster
        own = -(-needed // threads) * (CHUNK // itemsize) + edges(one, itemsize)
        found.append(min(own - 1 + tree_depth(threads), hidden - 1))  # more would add nothing but zeros
    return max(found)


def _holding(direction: Direction, needed: int, itemsize: int, lie: int) -> Iterator[Map]:
    """The maps for rows of so many chunks, the best first."""
    for one in (one._replace(lie=lie) for one in MAPS[direction][itemsize]):
        spills = lie > ALIKE and _spills(direction, one, itemsize)
        if one.most >= needed and edges(one, itemsize) <= MOST_EDGES and not spills:
            yield one


def _spills(direction: Direction, one: Map, itemsize: int) -> bool:
    """Whether a thread lacks registers for ragged rows, or for rows that no ring holds."""
    at_once = one.rows if direction == "forward" and not one.ring else 1
    return at_once * one.chunks * CHUNK // itemsize > MOST_RAGGED


def choose(
    direction: Direction, rows: int, hidden: int, itemsize: int, lie: int, device: Hardware
) -> Plan | None:
    """The plan of a pass over rows of D elements; None where no map takes rows as long.

    Clusters are as many as the multiprocessors would hold; `resident` corrects that.
    """
    needed = chunks(hidden, itemsize)
    holding = _holding(direction, needed, itemsize, lie)
    for one in filter(None, (_on(device, one, direction, itemsize) for one in holding)):
        if not one.ring or _stages(direction, one, needed, itemsize, device) >= MIN_STAGES:
            return fit(direction, one, rows, hidden, itemsize, device)
    return None


def fit(
    direction: Direction,
    chosen: Map,
    rows: int,
    hidden: int,
    itemsize: int,
    device: Hardware,
    rest: Rest | None = None,
) -> Plan:
    """Grid and ring for a map; ValueError where it cannot hold a row, or too few of them in shared memory,
    where the sources do not compile for it, or where the device has no clusters and bulk copies.

    `rest` takes the place of what REST has for the map.
    """
    needed = chunks(hidden, itemsize)
    if needed > chosen.most:
        raise ValueError(f"{chosen} holds {chosen.most} chunks of a row, D = {hidden} has {needed}")
    if reason := refused(direction, chosen, itemsize):
        raise ValueError(f"{chosen}: {reason}")
    if (chosen.ring or chosen.cluster > 1) and not device.hopper:
        raise ValueError(f"{chosen} needs clusters and bulk copies, which this device does not have")
    if chosen.lie == ALIKE and needed == chosen.most:
        chosen = chosen._replace(lie=FULL)
    slot = _slot(chosen, needed) if chosen.ring else 0
    stages = _stages(direction, chosen, needed, itemsize, device) if chosen.ring else 0
    if chosen.ring and stages < MIN_STAGES:
        raise ValueError(f"{chosen}: shared memory holds {stages} rows of D = {hidden}; needed: {MIN_STAGES}")
    period = phases(hidden, itemsize)
    lead = _lead(chosen, rows, period, device)
    step = _step(chosen, period)
    rest = rest or rest_of(direction, chosen, needed, itemsize)
    all_lead = Plan(direction, chosen, lead * chosen.cluster, stages, slot, period, lead, step, rows, 0, rest)
    return _shared(all_lead, rows)


def rest_of(direction: Direction, chosen: Map, needed: int, itemsize: int) -> Rest:
    """What the plan leaves to later clusters, for rows of so many chunks."""
    rests = REST[direction][itemsize]
    if chosen.ring:
        return rests.ring
    return rests.full if chosen.lie <= ALIKE and needed == chosen.most else rests.partly


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
    """A plan in which all clusters lead, with a rest where there are rows enough; where that is all rows,
    hardly any cluster leads.
    """
    group = how.rest.rounds * how.map.teams * how.map.rows * how.together
    groups = int(how.rest.share * rows) // group
    if not groups or rows * how.together < FEWEST * how.lead * group:
        return how
    lead = how.together if how.rest.share == 1 else how.lead
    blocks = (lead + groups * how.together) * how.map.cluster
    return how._replace(blocks=blocks, lead=lead, shared=rows - groups * group, group=group)


def _slot(chosen: Map, needed: int) -> int:
    """Bytes for a block's slice of a row of so many chunks, wherever it begins."""
    return (-(-needed // chosen.cluster) + 2) * CHUNK


def _stages(direction: Direction, chosen: Map, needed: int, itemsize: int, device: Hardware) -> int:
    """Rows of so many chunks that the shared memory of a block holds, at most STAGES."""
    block = device.shared_bytes // chosen.blocks // GRANULE * GRANULE
    most = STAGES[itemsize]
    free = block - SYSTEM - static_bytes(direction, chosen, itemsize) - most * GATE
    return min(most, free // (READ[direction] * _slot(chosen, needed)))


def _on(device: Hardware, one: Map, direction: Direction, itemsize: int) -> Map | None:
    """The map as this device has it: without rings, where bulk copies are missing; None where it has no
    clusters, or a thread no registers for a row that no ring holds.
    """
    if device.hopper:
        return one
    spills = direction == "backward" and _spills(direction, one, itemsize)
    return one._replace(ring=False) if one.cluster == 1 and not spills else None


def _lead(chosen: Map, rows: int, period: int, device: Hardware) -> int:
    """Clusters that run at once, fewer for few rows.

    Of a forward pass over 16-bit rows with gamma in float32 fewer may (`Roomy` in forward.cuh): no result
    depends on that, and the rest fills the device while the last of them run.
    """
    fitting = device.multiprocessors * chosen.blocks // chosen.cluster
    wanted = -(-rows // (chosen.teams * chosen.rows * ROWS_A_TEAM[chosen.ring]))
    step = _step(chosen, period)
    return min(max(fitting // step, 1), max(-(-wanted // step), 1)) * step


def _step(chosen: Map, period: int) -> int:
    """Blocks, or clusters, come in multiples of this: teams in multiples of the rows' period."""
    return period // gcd(period, chosen.teams)
