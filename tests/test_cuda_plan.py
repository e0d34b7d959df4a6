"""The table of maps: its choice for every row length, which cluster has which rows, and that it fits."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

import numpy as np
import pytest

from gpus import A100, H200
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import SOURCES
from layernorm_backward.kernels.cuda.maps import ALIKE, APART, MAPS, RAGGED, Map
from layernorm_backward.kernels.cuda.plan import Plan, Rest, Rests
from layernorm_backward.sums import tree_depth
from workspace import ROOT

MOST_DYNAMIC = 227 << 10  # bytes that one block may have
RESERVED = 1024  # bytes of each block, besides
ONE_PASS = 65536  # the longest rows that are to be read once
SIZES = sorted({size + more for size in (2**k for k in range(17)) for more in (-1, 0, 1)} - {0, 65537})
SAMPLED = (1, 7, 61, 64, 1000, 1024, 8191, 65536)
MANY = 1 << 20  # rows
LIES = (ALIKE, RAGGED, APART)
SIZES_OF_ELEMENTS = (2, 4, 8)
each_size = pytest.mark.parametrize("itemsize", SIZES_OF_ELEMENTS)
each_direction = pytest.mark.parametrize("direction", list(MAPS))
each_lie = pytest.mark.parametrize("lie", LIES)


def may_lie(hidden, itemsize, lie):
    """Whether rows of this length can have this alignment."""
    return lie != ALIKE or hidden * itemsize % plan.CHUNK == 0


def block_bytes(how, itemsize):
    """Bytes of shared memory of a block, in the granularity of the device."""
    its = RESERVED + plan.static_bytes(how.direction, how.map, itemsize) + how.dynamic_bytes
    return -(-its // plan.GRANULE) * plan.GRANULE


@each_size
@each_lie
@each_direction
def test_rows_up_to_65536_stay_on_the_chip(itemsize, lie, direction):
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        for rows in (1, 1000, MANY):
            how = plan.choose(direction, rows, hidden, itemsize, lie, H200)
            assert how.map.most >= plan.chunks(hidden, itemsize)
            assert how.map.lie in (lie, plan.FULL)
            assert how.dynamic_bytes <= MOST_DYNAMIC
            assert how.map.blocks * block_bytes(how, itemsize) <= H200.shared_bytes
            assert how.map.ring == (plan.MIN_STAGES <= how.stages <= plan.STAGES[itemsize])
            assert how.blocks % how.map.cluster == 0


READ_ONCE = (  # as the paper says it
    "On an H200 rows of up to {0[8]} elements in float64 and of up to {0[4]} in the other dtypes are "
    "read once; on devices without clusters rows of up to {1[8]} elements in float64, {1[2]} in 16 bits, "
    "and in float32 {2[4]} forward and {1[4]} backward. "
    "Longer rows are read twice, but for some in 16 bits forward."
)


def longest(direction, device):
    """The longest rows, of whole chunks, that are read once at any alignment, by bytes per element."""
    found = {}
    for itemsize in SIZES_OF_ELEMENTS:
        lanes = plan.CHUNK // itemsize

        def again(hidden, itemsize=itemsize):
            return None in [plan.choose(direction, MANY, hidden, itemsize, lie, device) for lie in LIES]

        sizes = range(lanes, 1 << 18, lanes)
        found[itemsize] = sizes[bisect_left(sizes, True, key=again) - 1]
    return found


def test_the_longest_rows_that_are_read_once_and_the_rounds_of_a_block_are_those_of_the_paper():
    h200, a100, forward = (longest(*it) for it in (("backward", H200), ("backward", A100), ("forward", A100)))
    assert longest("forward", H200) == h200 and h200[2] == h200[4]
    assert a100 | {4: forward[4]} == forward
    text = re.sub(r'<< c\("(\d+)"\) >>', r"\1", (ROOT / "paper/paper.md.j2").read_text(encoding="utf-8"))
    assert READ_ONCE.format(h200, a100, forward) in " ".join(text.split())
    assert plan.choose("forward", MANY, h200[2] + 8, 2, ALIKE, H200)
    assert {size: rests.full.rounds for size, rests in plan.REST["forward"].items()} == {2: 2, 4: 1, 8: 1}


class Portion(NamedTuple):
    """The rows of a cluster, as `struct Portion` in map.cuh: its first team begins `team` rows after `first`
    and takes every `teams`-th row until `end`.
    """

    first: int
    end: int
    team: int
    teams: int


def portions(how: Plan, rows: int) -> Iterator[Portion]:
    """The portion of each cluster."""
    for cluster in range(how.lead):
        yield Portion(0, how.shared, cluster * how.map.teams, how.lead * how.map.teams)
    for later in range(how.partials - how.lead):
        number, place = divmod(later, how.together)
        first = how.shared + number * how.group
        end = min(first + how.group, rows)
        yield Portion(first, end, place * how.map.teams, how.together * how.map.teams)


def rows_of_teams(how: Plan, rows: int) -> Iterator[slice]:
    for first, end, team, teams in portions(how, rows):
        for more in range(how.map.teams):
            yield slice(min(first + team + more, end), end, teams)


@pytest.fixture(params=[False, True], ids=["as it is", "with a rest in both passes"])
def rests(request, monkeypatch):
    """Plans as they are, or with a rest even for few rows."""
    if request.param:
        monkeypatch.setattr(
            plan,
            "REST",
            dict.fromkeys(
                MAPS, dict.fromkeys(SIZES_OF_ELEMENTS, Rests(Rest(0.3, 1), Rest(0.3, 2), Rest(0.3, 3)))
            ),
        )
        monkeypatch.setattr(plan, "FEWEST", 0)


@each_size
@each_lie
@each_direction
@pytest.mark.usefixtures("rests")
def test_each_row_belongs_to_exactly_one_team(itemsize, lie, direction):
    for hidden in (size for size in SAMPLED if may_lie(size, itemsize, lie)):
        for rows in (1, 7, 1000, 100_003):
            how = plan.choose(direction, rows, hidden, itemsize, lie, H200)
            found = np.zeros(rows, int)
            for its in rows_of_teams(how, rows):
                found[its] += 1
            assert (found == 1).all(), (how, rows)


@each_size
@each_lie
@each_direction
@pytest.mark.usefixtures("rests")
def test_all_rows_of_a_team_have_one_phase(itemsize, lie, direction):
    lanes = plan.CHUNK // itemsize
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        for rows in (1, 7, 100, 100_000):
            how = plan.choose(direction, rows, hidden, itemsize, lie, H200)
            for portion in set(portions(how, rows)):
                assert portion.teams * hidden % lanes == 0


@each_size
@each_direction
@pytest.mark.parametrize("teams", [1, 2, 3, 5, 6, 12])
@pytest.mark.usefixtures("rests")
def test_all_rows_of_a_team_have_one_phase_for_any_number_of_teams(itemsize, direction, teams):
    chosen = Map(32 * teams, blocks=1, cluster=1, team=32, chunks=1, rows=1, ring=False, lie=RAGGED)
    lanes = plan.CHUNK // itemsize
    for hidden in range(1, lanes + 1):
        for rows in (1, 100, 100_000):
            how = plan.fit(direction, chosen, rows, hidden, itemsize, H200)
            assert how.together.bit_count() == 1
            for portion in set(portions(how, rows)):
                assert portion.teams * hidden % lanes == 0


@each_size
@each_direction
def test_leading_clusters_are_resident_and_no_more_than_the_rows_need(itemsize, direction):
    for hidden in SIZES:
        lie = plan.lie(hidden, itemsize, 0)
        many = plan.choose(direction, MANY, hidden, itemsize, lie, H200)
        fitting = H200.multiprocessors * many.map.blocks
        least = many.together if many.rest.share == 1 else 0.95 * fitting / many.map.cluster - 1
        assert least <= many.lead <= fitting / many.map.cluster
        few = plan.choose(direction, 1, hidden, itemsize, lie, H200)
        assert few.blocks == few.lead * few.map.cluster <= many.map.cluster * (plan.CHUNK // itemsize)


@each_size
@each_lie
@each_direction
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_later_clusters_have_their_share_of_the_rows_in_groups_of_whole_rounds(
    itemsize, lie, direction, share, monkeypatch
):
    rest = Rest(share, 3)
    monkeypatch.setitem(plan.REST, direction, dict.fromkeys(SIZES_OF_ELEMENTS, Rests(rest, rest, rest)))
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        how = plan.choose(direction, MANY, hidden, itemsize, lie, H200)
        later = how.partials - how.lead
        assert how.blocks == (how.lead + later) * how.map.cluster
        assert bool(later) == bool(how.group) == bool(share)
        if share:
            groups, left = divmod(MANY - how.shared, how.group)
            assert how.group == 3 * how.map.rows * how.map.teams * how.together
            assert (groups * how.together, left) == (later, 0)
            assert 0 <= share * MANY - (MANY - how.shared) < how.group


@each_size
@pytest.mark.parametrize("lie", [ALIKE, RAGGED])
def test_there_is_a_rest_of_many_rows_in_the_forward_pass_only(itemsize, lie):
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        for direction in MAPS:
            how = plan.choose(direction, MANY, hidden, itemsize, lie, H200)
            assert (how.shared < MANY) == (how.partials > how.lead) == (direction == "forward")


@each_direction
def test_fewer_groups_than_pay_are_not_made(direction, monkeypatch):
    rest = Rest(0.5, 16)
    monkeypatch.setitem(plan.REST, direction, dict.fromkeys(SIZES_OF_ELEMENTS, Rests(rest, rest, rest)))
    how = plan.choose(direction, MANY, 4096, 4, ALIKE, H200)
    rows = int(np.ceil(plan.FEWEST * how.lead)) * how.group
    enough = plan.choose(direction, rows, 4096, 4, ALIKE, H200)
    few = plan.choose(direction, rows // 2, 4096, 4, ALIKE, H200)
    groups = rows // 2 // how.group
    assert (enough.lead, enough.partials) == (few.lead, few.lead + groups)
    assert enough.shared == rows - groups * how.group
    assert (few.partials, few.shared, few.group) == (few.lead, rows // 2, 0)


@each_size
@pytest.mark.parametrize(
    ("chunks", "more", "which"),
    [(64, 0, "full"), (62, 0, "partly"), (64, -1, "partly"), (64, 1, "partly"), (8192, 0, "ring")],
)
def test_what_is_left_to_later_clusters_depends_on_how_rows_are_held(
    itemsize, chunks, more, which, monkeypatch
):
    rests = Rests(*(Rest(share, 4) for share in (0.5, 0.4, 0.3)))
    monkeypatch.setitem(plan.REST, "forward", dict.fromkeys(SIZES_OF_ELEMENTS, rests))
    hidden = chunks * plan.CHUNK // itemsize + more
    how = plan.choose("forward", MANY, hidden, itemsize, plan.lie(hidden, itemsize, 0), H200)
    assert how.map.ring == (which == "ring")
    assert how.rest == getattr(rests, which)


@each_size
def test_hardly_any_cluster_leads_where_all_rows_are_in_order(itemsize, monkeypatch):
    monkeypatch.setitem(plan.REST, "forward", dict.fromkeys(SIZES_OF_ELEMENTS, Rests(*(Rest(1, 2),) * 3)))
    for hidden, lie in ((4096, ALIKE), (4095, RAGGED)):
        how = plan.choose("forward", MANY, hidden, itemsize, lie, H200)
        assert how.lead == how.together
        assert how.shared == MANY % how.group
        assert how.partials == how.together * (1 + MANY // how.group)


@each_size
@each_direction
@pytest.mark.parametrize("lie", [RAGGED, APART])
def test_a_team_has_threads_for_all_edges_of_a_ragged_row(itemsize, direction, lie):
    lanes = plan.CHUNK // itemsize
    for hidden in SIZES:
        one = plan.choose(direction, MANY, hidden, itemsize, lie, H200).map
        held = plan.edges(one, itemsize)
        for before in range(lanes):
            head = min((lanes - before) % lanes, hidden)
            chunks, tail = divmod(hidden - head, lanes)
            assert chunks <= plan.chunks(hidden, itemsize) <= one.most
            assert head + tail <= held * one.team
        assert 1 <= held <= 2
        assert plan.edges(one._replace(lie=ALIKE), itemsize) == 0


@each_size
@pytest.mark.parametrize("lie", [RAGGED, APART])
def test_a_thread_has_no_more_of_a_ragged_row_than_fits_in_its_registers(itemsize, lie):
    for hidden in SIZES:
        backward, forward = (
            plan.choose(direction, MANY, hidden, itemsize, lie, H200).map
            for direction in ("backward", "forward")
        )
        assert backward.chunks * plan.CHUNK // itemsize <= plan.MOST_RAGGED
        assert forward.rows * forward.chunks * plan.CHUNK // itemsize <= plan.MOST_RAGGED


def test_some_rows_have_another_map_where_they_are_ragged():
    maps = [plan.choose("backward", MANY, 8000, 2, lie, H200).map for lie in LIES]
    assert [one.chunks for one in maps] == [4, 2, 2]


@each_size
def test_the_depth_of_a_rows_sum_is_that_of_the_maps_chosen(itemsize):
    lanes = plan.CHUNK // itemsize
    for hidden in SIZES:
        depths = []
        for direction in MAPS:
            for lie in (ALIKE, RAGGED):
                one = plan.choose(direction, MANY, hidden, itemsize, lie, H200).map
                threads = one.cluster * one.team
                own = -(-plan.chunks(hidden, itemsize) // threads) * lanes + plan.edges(one, itemsize)
                depths.append(min(own - 1 + tree_depth(threads), hidden - 1))
        assert plan.depth(hidden, itemsize) == max(depths)


def test_longer_rows_are_read_again():
    for itemsize in SIZES_OF_ELEMENTS:
        assert plan.choose("backward", 10, 4 * ONE_PASS, itemsize, ALIKE, H200) is None


def test_an_older_device_has_neither_clusters_nor_rings():
    for itemsize in SIZES_OF_ELEMENTS:
        for hidden in SIZES:
            how = plan.choose("backward", 1000, hidden, itemsize, plan.lie(hidden, itemsize, 0), A100)
            assert how is None or (how.map.cluster == 1 and not how.map.ring and how.dynamic_bytes == 0)
            assert how is None or how.map.chunks * plan.CHUNK // itemsize <= plan.MOST_RAGGED
            assert how is None or how.map.blocks * block_bytes(how, itemsize) <= A100.shared_bytes
        assert plan.choose("backward", 1000, 4096, itemsize, ALIKE, A100)


def test_where_shared_memory_is_small_longer_teams_take_the_rows_or_they_are_read_again():
    small = H200._replace(shared_bytes=100 << 10)
    for itemsize in SIZES_OF_ELEMENTS:
        for hidden in SIZES:
            how = plan.choose("backward", 1000, hidden, itemsize, plan.lie(hidden, itemsize, 0), small)
            if how:
                assert how.map.blocks * block_bytes(how, itemsize) <= small.shared_bytes
        assert plan.choose("backward", 1000, 4096, itemsize, ALIKE, small)


@pytest.mark.parametrize(
    ("hidden", "itemsize", "addresses", "lie"),
    [
        (1024, 4, (0, 256, 512), ALIKE),
        (1024, 2, (0, 8), APART),
        (1024, 2, (8, 24), RAGGED),
        (1023, 4, (0, 16), RAGGED),
        (1023, 4, (4, 0), APART),
        (4, 2, (0,), RAGGED),
        (2, 8, (0,), ALIKE),
    ],
)
def test_the_alignment_of_rows_follows_from_length_and_addresses(hidden, itemsize, addresses, lie):
    assert plan.lie(hidden, itemsize, *addresses) == lie


def test_rows_that_fill_their_map_need_no_look_at_where_they_end():
    full = plan.choose("backward", 1000, 1024, 4, ALIKE, H200)
    assert full.map.lie == plan.FULL
    assert full.map.most * plan.CHUNK == 1024 * 4
    assert plan.choose("backward", 1000, 1020, 4, ALIKE, H200).map == full.map._replace(lie=ALIKE)
    assert plan.choose("backward", 1000, 1024, 4, RAGGED, H200).map.lie == RAGGED


def test_phases_are_the_beginnings_that_rows_have():
    for itemsize in SIZES_OF_ELEMENTS:
        lanes = plan.CHUNK // itemsize
        for hidden in range(1, 40):
            assert plan.phases(hidden, itemsize) == len({row * hidden % lanes for row in range(lanes)})
            assert plan.phases(hidden, itemsize) == lanes // gcd(lanes, hidden)


def test_a_map_that_cannot_hold_the_rows_is_refused():
    small = Map(threads=64, blocks=1, cluster=1, team=64, chunks=2, rows=1, ring=True)
    with pytest.raises(ValueError, match="holds 128 chunks of a row, D = 1024 has 256"):
        plan.fit("backward", small, 10, 1024, 4, H200)
    crowded = small._replace(chunks=1024, blocks=2)
    with pytest.raises(ValueError, match="shared memory holds 0 rows of D = 65536; needed: 3"):
        plan.fit("backward", crowded, 10, 65536, 8, H200)


def test_a_map_that_the_sources_would_reject_is_refused_before_compilation():
    asserted = {
        text
        for path in SOURCES.glob("*.cuh")
        for text in re.findall(r'static_assert\([^"]*"(.*?)"\)', path.read_text())
    }
    ring = Map(threads=64, blocks=1, cluster=1, team=64, chunks=1, rows=1, ring=True)
    wrong = {
        "sums meet in pairs": ring._replace(cluster=3),
        "one team meets in a block's shared memory": ring._replace(threads=128, ring=False),
        "a ring brings one row to a block": ring._replace(team=32),
        "parts hold four numbers": ring._replace(rows=2, ring=False),
        "too much static shared memory": Map(512, 1, 1, 8, 4, 1, ring=False),
    }
    assert asserted - {"gamma and beta are no narrower than x"} <= wrong.keys()
    for text, one in wrong.items():
        assert plan.refused("backward", one, 2) == text
        with pytest.raises(ValueError, match=text):
            plan.fit("backward", one, 10, 64, 2, H200)
    assert plan.refused("forward", wrong["parts hold four numbers"], 2) == ""
    apart = Map(threads=64, blocks=1, cluster=2, team=32, chunks=1, rows=1, ring=False)
    assert plan.refused("backward", apart, 2) == "one team meets in a block's shared memory"
    for direction, sizes in MAPS.items():
        for itemsize, maps in sizes.items():
            assert {plan.refused(direction, one, itemsize) for one in maps} == {""}


def fitting(direction, one, hidden, itemsize, device):
    """The plan of a map, or None where the device has no room for its ring."""
    try:
        return plan.fit(direction, one, MANY, hidden, itemsize, device)
    except ValueError:
        return None


@each_size
@each_direction
def test_a_ring_fits_where_shared_memory_just_suffices(itemsize, direction):
    ring = Map(threads=64, blocks=2, cluster=1, team=64, chunks=2, rows=1, ring=True, lie=RAGGED)
    sizes = [chunks * plan.CHUNK // itemsize for chunks in range(61, 78)]
    devices = [H200._replace(shared_bytes=room) for room in range(8 << 10, 28 << 10, 2 * plan.GRANULE)]
    made = {
        (device, size): fitting(direction, ring, size, itemsize, device)
        for device in devices
        for size in sizes
    }
    left = [it[0].shared_bytes - 2 * block_bytes(how, itemsize) for it, how in made.items() if how]
    assert len(left) < len(made)
    assert min(left) == 0


def test_small_blocks_have_all_stages_of_a_ring():
    """The sums of a warp take little memory: formerly 3 KB were reserved for those of every block."""
    small = Map(threads=32, blocks=24, cluster=1, team=32, chunks=2, rows=1, ring=True)
    assert plan.fit("backward", small, 10_000, 512, 2, H200).stages == plan.STAGES[2]


@pytest.mark.parametrize(("itemsize", "stages"), [(2, 3), (4, 3), (8, 4)])
def test_rings_of_float64_have_one_more_stage(itemsize, stages):
    """On an H200 three stages were as fast as four, but in float64 a forward pass lost up to 5 %."""
    small = Map(threads=128, blocks=2, cluster=1, team=128, chunks=2, rows=1, ring=True)
    assert plan.fit("forward", small, 10_000, 256 * plan.CHUNK // itemsize, itemsize, H200).stages == stages


@pytest.mark.parametrize(("itemsize", "rounds"), [(2, 2), (4, 1), (8, 1)])
def test_a_block_of_rows_in_order_has_two_rounds_of_16_bits_and_one_of_others(itemsize, rounds):
    how = plan.choose("forward", MANY, 32 * plan.CHUNK // itemsize, itemsize, ALIKE, H200)
    assert (how.map.ring, how.lead) == (False, 1)
    assert how.group == rounds * how.map.rows * how.map.teams


@each_direction
def test_groups_that_several_clusters_share_are_counted_once(direction, monkeypatch):
    """For rows with eight phases, eight clusters of one team share a group."""
    monkeypatch.setitem(plan.REST, direction, dict.fromkeys(SIZES_OF_ELEMENTS, Rests(*(Rest(0.5, 4),) * 3)))
    chosen = Map(threads=64, blocks=8, cluster=1, team=64, chunks=2, rows=1, ring=False, lie=RAGGED)
    how = plan.fit(direction, chosen, MANY, 1025, 2, H200)
    assert (how.together, how.lead, how.group) == (8, 1056, 32)
    enough = int(np.ceil(plan.FEWEST * how.lead / how.together)) * how.group
    assert plan.fit(direction, chosen, enough, 1025, 2, H200).group == how.group
    assert plan.fit(direction, chosen, enough - how.group, 1025, 2, H200).group == 0


def test_a_map_that_needs_what_the_device_lacks_is_refused():
    ring = Map(threads=64, blocks=1, cluster=1, team=64, chunks=4, rows=1, ring=True)
    with pytest.raises(ValueError, match="needs clusters and bulk copies, which this device does not have"):
        plan.fit("backward", ring, 10, 1024, 4, A100)
    assert plan.fit("backward", ring._replace(ring=False), 10, 1024, 4, A100).stages == 0


@each_direction
def test_rows_in_order_have_a_cluster_for_each_round(direction):
    chosen = Map(threads=128, blocks=4, cluster=1, team=32, chunks=2, rows=2, ring=False)
    rows = 100_003
    how = plan.fit(direction, chosen, rows, 256, 4, H200, Rest(1.0, 1))
    assert (how.group, how.shared, how.partials - how.lead) == (8, rows % 8, rows // 8)
    waves = plan.resident(how._replace(map=chosen._replace(cluster=2)), rows, 1)
    assert waves.rest == how.rest


def test_teams_divide_blocks_and_sums_meet_in_powers_of_two():
    for maps in (maps for sizes in MAPS.values() for maps in sizes.values()):
        assert [one.most for one in maps] == sorted(one.most for one in maps)
        for one in maps:
            assert one.threads % one.team == 0
            assert one.team & (one.team - 1) == 0
            assert not one.ring or (one.team == one.threads and one.rows == 1)
            assert one.cluster == 1 or one.ring


@each_direction
def test_no_more_clusters_lead_than_run_at_once(direction):
    how = plan.choose(direction, MANY, 65536, 4, ALIKE, H200)
    assert (how.map.cluster, how.lead) == (8, 16)
    fewer = plan.resident(how, MANY, 15)
    later = how.partials - how.lead
    assert fewer == how._replace(lead=15, blocks=(15 + later) * 8)
    assert plan.resident(how, MANY, 99) == how
    assert plan.resident(how, MANY, 0) is None


@each_direction
@pytest.mark.parametrize(
    ("rows", "clusters", "wanted"),
    [
        (MANY, 7, 28),  # four waves of all seven
        (100, 7, 4),  # one wave of four: a second would take longer to begin than it saves
        (MANY, 3, 12),
        (4, 3, 4),
        (MANY, 6, 12),
        (MANY, 8, 8),
    ],
)
def test_clusters_come_in_multiples_of_the_rows_period_in_waves_that_pay(direction, rows, clusters, wanted):
    how = plan.choose(direction, MANY, 98303, 4, RAGGED, H200)
    assert (how.period, how.lead) == (4, 8)
    assert plan.resident(how, rows, clusters).lead == wanted


def test_waves_leave_no_rest():
    how = plan.choose("forward", MANY, 65535, 4, RAGGED, H200)
    assert how.shared < MANY
    waves = plan.resident(how, MANY, 6)
    assert (waves.lead, waves.partials, waves.shared) == (12, 12, MANY)
    one = plan.resident(how, MANY, 4)
    assert (one.lead, one.shared) == (4, how.shared)


@each_direction
@pytest.mark.parametrize("period", [1, 2, 4, 8])
def test_waves_of_clusters_leave_little_of_the_device_idle(direction, period):
    how = plan.choose(direction, MANY, 65536, 4, ALIKE, H200)._replace(period=period)
    for clusters in range(1, how.lead):
        found = plan.resident(how, MANY, clusters).lead
        assert found % period == 0
        assert -(-found // clusters) * -(-MANY // found) < 1.01 * MANY / clusters
