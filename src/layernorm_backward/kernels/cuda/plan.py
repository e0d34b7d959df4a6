"""The plan of a launch: a map of `maps.py`, with the grid and ring buffer for the device and N.

`choose` makes the plan, and `resident` corrects it where the device runs fewer clusters at the same time.
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
MIN_STAGES = 3  # rows in a ring: one is summed, the one before is written, the others are being loaded
STAGES = {2: MIN_STAGES, 4: MIN_STAGES, 8: 4}  # at most, by bytes of an element
ROWS_A_TEAM = {False: 1, True: 2}  # without and with a ring: fewer are not worth a block's partial sums
ROWS_A_WAVE = 8  # a cluster takes about the time of these rows, and no more, to begin and to end
SYSTEM, GRANULE = 1024, 128  # bytes of a block's shared memory: reserved by the driver; unit of allocation
MOST_STATIC = 48 << 10  # bytes of static shared memory, at most
WARP = 32
MOST_EDGES = 2  # elements of a ragged row's edges to a thread: with more, the team is too small
# Elements of a thread, of ragged rows or without a ring: with more, registers spill. Backward those of one
# row, forward those that it holds at the same time.
MOST_RAGGED = 24

READ = {"forward": 1, "backward": 2}  # arrays
SUMS = {"forward": 2, "backward": 3}  # of a row
PARTS = 4  # sums that are reduced together, as `Parts` in team.cuh


class Hardware(NamedTuple):
    """Multiprocessors, bytes of shared memory of each; hopper: whether there are clusters and bulk copies."""

    multiprocessors: int
    shared_bytes: int
    hopper: bool


class Rest(NamedTuple):
    """What the first clusters, which run at the same time, leave to later ones.

    share: of the rows. rounds: of a cluster, to a group of rows; a round is the rows that its teams load
    together.
    """

    share: float
    rounds: int


class Rests(NamedTuple):
    """The rest for rows in registers that fill their threads, others in registers, and rows in a ring."""

    full: Rest
    partly: Rest
    ring: Rest


# Memory serves some multiprocessors of an H200 twice as fast as others: with equal shares of the rows, those
# finish early. By bytes of an element. A forward pass takes rows that fill their threads in order, with a new
# block for every one or two rounds; for other rows blocks start too slowly for that. The backward pass leaves
# no rest: each later cluster would have partial sums of its own, which was slower.
REST = {
    "forward": {size: Rests(Rest(1.0, max(1, 4 // size)), Rest(0.3, 4), Rest(0.1, 8)) for size in (2, 4, 8)},
    "backward": dict.fromkeys((2, 4, 8), Rests(*(Rest(0.0, 1),) * 3)),
}
FEWEST = 0.6  # groups in all rows, for each that the leading clusters would take, from which a rest pays


class Plan(NamedTuple):
    """A launch over rows.

    blocks: of the grid. stages, slot: of the ring, and bytes of one array's slot in it, or 0, 0. period: rows
    after which the alignment modulo 16 bytes repeats. lead, together, shared, group: as `struct Sharing` in
    map.cuh, made from `rest`.
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
    """The alignment of the rows of arrays at these addresses: ALIKE, RAGGED or APART."""
    places = {address % CHUNK for address in addresses}
    if len(places) > 1:
        return APART
    return ALIKE if places == {0} and hidden * itemsize % CHUNK == 0 else RAGGED


def chunks(hidden: int, itemsize: int) -> int:
    """The most chunks that a row has, whatever its alignment."""
    return hidden // (CHUNK // itemsize)


def edges(one: Map, itemsize: int) -> int:
    """The most elements of a row that a thread has besides its chunks; as `Share` in row.cuh."""
    return -(-2 * (CHUNK // itemsize - 1) // one.team) if one.lie > ALIKE else 0


def _meets(one: Map) -> bool:
    """Whether a row is summed by more than a warp, through shared memory; rows in a ring always are."""
    return one.ring or one.team > WARP or one.cluster > 1


def static_bytes(direction: Direction, one: Map, itemsize: int) -> int:
    """Bytes of a block's static shared memory.

    They are for the sums of rows, as MEETING in team.cuh, and for those over the rows of several teams, as
    `held` in backward.cuh.
    """
    wide = max(itemsize, np.dtype(np.float32).itemsize)
    meeting = 2 * (max(one.team // WARP, 1) + (one.cluster > 1)) * PARTS * wide
    again = direction == "forward" and one.ring and _meets(one._replace(ring=False))  # where a mean is far
    held = 0
    if direction == "backward" and one.teams > 1:
        held = one.threads * (one.chunks * (CHUNK // itemsize) + edges(one, itemsize)) * wide
    return (_meets(one) + again) * meeting + held


def refused(direction: Direction, one: Map, itemsize: int) -> str:
    """The static_assert by which the sources do not compile for a map; "" where they do."""
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
    """The number of different alignments modulo 16 bytes of the rows."""
    lanes = CHUNK // itemsize
    return lanes // int(np.gcd(lanes, hidden))


def depth(hidden: int, itemsize: int) -> int | None:
    """The most additions between an element and the sum of its row, for any alignment.

    They are those of its thread, then the pairwise ones of the team's threads. For a device with rings; None
    where no map takes rows of this length.
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
    """Whether a thread's registers would spill, with ragged rows or without a ring."""
    at_once = one.rows if direction == "forward" and not one.ring else 1
    return at_once * one.chunks * CHUNK // itemsize > MOST_RAGGED


def choose(
    direction: Direction, rows: int, hidden: int, itemsize: int, lie: int, device: Hardware
) -> Plan | None:
    """The plan of a pass over rows of D elements; None where no map takes rows of this length.

    It has as many clusters as fit the multiprocessors; `resident` corrects that.
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
    """The plan with a given map; `rest` replaces the entry of REST.

    ValueError where the map cannot hold a row, where shared memory holds too few rows, where the sources do
    not compile for it, or where the device lacks its clusters or bulk copies.
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
    """The entry of REST for a map and rows of so many chunks."""
    rests = REST[direction][itemsize]
    if chosen.ring:
        return rests.ring
    return rests.full if chosen.lie <= ALIKE and needed == chosen.most else rests.partly


def resident(how: Plan, rows: int, clusters: int) -> Plan | None:
    """The plan where only so many clusters run at the same time; None for none.

    Further clusters wait until others have ended. But the number of clusters is a multiple of the rows'
    period, and the next lower one may leave much of the device idle: with enough rows, more clusters are
    launched, in waves that fill it.
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
    """A plan in which all clusters lead, with a rest if there are enough rows.

    Where the rest is all rows, only `together` clusters lead.
    """
    group = how.rest.rounds * how.map.teams * how.map.rows * how.together
    groups = int(how.rest.share * rows) // group
    if not groups or rows * how.together < FEWEST * how.lead * group:
        return how
    lead = how.together if how.rest.share == 1 else how.lead
    blocks = (lead + groups * how.together) * how.map.cluster
    return how._replace(blocks=blocks, lead=lead, shared=rows - groups * group, group=group)


def _slot(chosen: Map, needed: int) -> int:
    """Bytes for a block's slice of a row of so many chunks, whatever its alignment."""
    return (-(-needed // chosen.cluster) + 2) * CHUNK


def _stages(direction: Direction, chosen: Map, needed: int, itemsize: int, device: Hardware) -> int:
    """Rows of so many chunks that the shared memory of a block holds, at most STAGES."""
    block = device.shared_bytes // chosen.blocks // GRANULE * GRANULE
    most = STAGES[itemsize]
    free = block - SYSTEM - static_bytes(direction, chosen, itemsize) - most * GATE
    return min(most, free // (READ[direction] * _slot(chosen, needed)))


def _on(device: Hardware, one: Map, direction: Direction, itemsize: int) -> Map | None:
    """The map on this device: without a ring where the device lacks bulk copies.

    None where it lacks the map's clusters, or where registers would spill without the ring.
    """
    if device.hopper:
        return one
    spills = direction == "backward" and _spills(direction, one, itemsize)
    return one._replace(ring=False) if one.cluster == 1 and not spills else None


def _lead(chosen: Map, rows: int, period: int, device: Hardware) -> int:
    """Clusters that run at the same time, fewer for few rows.

    In a forward pass over 16-bit rows with gamma in float32 fewer may fit (`Roomy` in forward.cuh): no result
    depends on it, and the rest of the rows fills the device while the last clusters run.
    """
    fitting = device.multiprocessors * chosen.blocks // chosen.cluster
    wanted = -(-rows // (chosen.teams * chosen.rows * ROWS_A_TEAM[chosen.ring]))
    step = _step(chosen, period)
    return min(max(fitting // step, 1), max(-(-wanted // step), 1)) * step


def _step(chosen: Map, period: int) -> int:
    """Blocks, or clusters, come in multiples of this: teams in multiples of the rows' period."""
    return period // gcd(period, chosen.teams)
