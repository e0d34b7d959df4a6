"""The table of maps: what it says of every row length, and that it fits the device."""

from math import gcd

import pytest

from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.plan import ALIKE, APART, MAPS, RAGGED, Hardware, Map

H200 = Hardware(multiprocessors=132, shared_bytes=228 << 10, hopper=True)
A100 = Hardware(multiprocessors=108, shared_bytes=164 << 10, hopper=False)
MOST_DYNAMIC = 227 << 10  # bytes that one block may have
ONE_PASS = 65536  # the longest rows that are to be read once
SIZES = sorted({size + more for size in (2**k for k in range(17)) for more in (-1, 0, 1)} - {0, 65537})
LIES = (ALIKE, RAGGED, APART)
SIZES_OF_ELEMENTS = (2, 4, 8)
each_size = pytest.mark.parametrize("itemsize", SIZES_OF_ELEMENTS)
each_direction = pytest.mark.parametrize("direction", list(MAPS))
each_lie = pytest.mark.parametrize("lie", LIES)


def may_lie(hidden, itemsize, lie):
    """Whether rows of this length can lie so."""
    return lie != ALIKE or hidden * itemsize % plan.CHUNK == 0


@each_size
@each_lie
@each_direction
def test_rows_up_to_65536_stay_on_the_chip(itemsize, lie, direction):
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        for rows in (1, 1000, 1 << 20):
            how = plan.choose(direction, rows, hidden, itemsize, lie, H200)
            assert how.map.most >= plan.chunks(hidden, itemsize, lie)
            assert how.dynamic_bytes <= MOST_DYNAMIC
            assert how.map.blocks * (how.dynamic_bytes + plan.RESERVED) <= H200.shared_bytes
            assert how.map.ring == (how.stages >= plan.MIN_STAGES)
            assert how.blocks % how.map.cluster == 0


@each_size
@each_lie
@each_direction
def test_every_team_meets_rows_of_one_phase_only(itemsize, lie, direction):
    lanes = plan.CHUNK // itemsize
    for hidden in (size for size in SIZES if may_lie(size, itemsize, lie)):
        for rows in (1, 7, 100, 100_000):
            how = plan.choose(direction, rows, hidden, itemsize, lie, H200)
            teams = how.blocks // how.map.cluster * how.map.teams
            assert teams * hidden % lanes == 0


@each_size
@each_direction
def test_the_grid_is_resident_and_no_larger_than_the_rows_need(itemsize, direction):
    for hidden in SIZES:
        lie = plan.lie(hidden, itemsize, 0)
        many = plan.choose(direction, 1 << 20, hidden, itemsize, lie, H200)
        assert many.blocks <= H200.multiprocessors * many.map.blocks
        assert many.blocks >= 0.95 * H200.multiprocessors * many.map.blocks - many.map.cluster
        few = plan.choose(direction, 1, hidden, itemsize, lie, H200)
        assert few.blocks <= many.map.cluster * (plan.CHUNK // itemsize)


def test_longer_rows_are_read_again():
    for itemsize in SIZES_OF_ELEMENTS:
        assert plan.choose("backward", 10, 4 * ONE_PASS, itemsize, ALIKE, H200) is None


def test_an_older_device_has_neither_clusters_nor_rings():
    for itemsize in SIZES_OF_ELEMENTS:
        for hidden in SIZES:
            how = plan.choose("backward", 1000, hidden, itemsize, plan.lie(hidden, itemsize, 0), A100)
            assert how is None or (how.map.cluster == 1 and not how.map.ring and how.dynamic_bytes == 0)
        assert plan.choose("backward", 1000, 4096, itemsize, ALIKE, A100)


def test_where_shared_memory_is_small_longer_teams_take_the_rows_or_they_are_read_again():
    small = H200._replace(shared_bytes=100 << 10)
    for itemsize in SIZES_OF_ELEMENTS:
        for hidden in SIZES:
            how = plan.choose("backward", 1000, hidden, itemsize, plan.lie(hidden, itemsize, 0), small)
            if how:
                assert how.map.blocks * (how.dynamic_bytes + plan.RESERVED) <= small.shared_bytes
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
def test_how_rows_lie(hidden, itemsize, addresses, lie):
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


def test_teams_divide_blocks_and_sums_meet_in_powers_of_two():
    for maps in (maps for sizes in MAPS.values() for maps in sizes.values()):
        assert [one.most for one in maps] == sorted(one.most for one in maps)
        for one in maps:
            assert one.threads % one.team == 0
            assert one.team & (one.team - 1) == 0
            assert not one.ring or (one.team == one.threads and one.rows == 1)
            assert one.cluster == 1 or one.ring


def test_no_more_clusters_are_launched_than_run_at_once():
    how = plan.choose("backward", 1 << 20, 65536, 4, ALIKE, H200)
    assert (how.map.cluster, how.partials) == (8, 16)
    assert plan.resident(how, 1 << 20, 15) == how._replace(blocks=15 * 8)
    assert plan.resident(how, 1 << 20, 99) == how
    assert plan.resident(how, 1 << 20, 0) is None


@pytest.mark.parametrize(
    ("rows", "clusters", "wanted"),
    [
        (1 << 20, 7, 28),  # four waves of all seven
        (100, 7, 4),  # one wave of four: a second would take longer to begin than it saves
        (1 << 20, 3, 12),
        (4, 3, 4),
        (1 << 20, 6, 12),
        (1 << 20, 8, 8),
    ],
)
def test_clusters_come_in_multiples_of_the_rows_period_in_waves_that_pay(rows, clusters, wanted):
    how = plan.choose("backward", 1 << 20, 65535, 4, RAGGED, H200)
    assert (how.period, how.partials) == (4, 8)
    assert plan.resident(how, rows, clusters).partials == wanted


@pytest.mark.parametrize("period", [1, 2, 4, 8])
def test_waves_of_clusters_leave_little_of_the_device_idle(period):
    many = 1 << 20
    how = plan.choose("backward", many, 65536, 4, ALIKE, H200)._replace(period=period)
    for clusters in range(1, how.partials):
        found = plan.resident(how, many, clusters).partials
        assert found % period == 0
        assert -(-found // clusters) * -(-many // found) < 1.01 * many / clusters
