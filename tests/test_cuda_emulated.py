"""The CUDA sources on the host emulation: maps x dtypes x alignments of rows x thread orders."""

import numpy as np
import pytest

from emulated import needs_compiler, placed
from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, gamma_names, round_to
from layernorm_backward.errors import error_u
from layernorm_backward.gpu.exact import Results, errors
from layernorm_backward.gpu.rows import Arrays
from layernorm_backward.kernels import cuda_fused
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.emulation import SMALL, Emulation
from layernorm_backward.kernels.cuda.maps import Map
from layernorm_backward.kernels.cuda.plan import Hardware

pytestmark = needs_compiler

EPS = 1e-5
LIMIT_U = {"float64": 8, "float32": 8, "float16": 1.5, "bfloat16": 1.5}  # as in test_kernels_agree
ORDERS = [("forward", True), ("reverse", False), ("random", True)]
LANES = Map(threads=64, blocks=2, cluster=1, team=8, chunks=2, rows=2, ring=False)
WARP = Map(threads=64, blocks=2, cluster=1, team=32, chunks=2, rows=2, ring=False)
BLOCK = Map(threads=64, blocks=32, cluster=1, team=64, chunks=3, rows=1, ring=False)  # gamma as it is stored
RING = BLOCK._replace(blocks=1, ring=True)
CLUSTER = Map(threads=32, blocks=1, cluster=4, team=32, chunks=2, rows=1, ring=True)
MAPS = {"lanes": LANES, "warp": WARP, "block": BLOCK, "ring": RING, "cluster": CLUSTER}
TYPES = [(dtype, gamma_dtype) for dtype in DTYPE_NAMES for gamma_dtype in gamma_names(dtype)]
OFFSETS = {plan.ALIKE: (0, 0, 0), plan.RAGGED: (1, 1, 1), plan.APART: (1, 0, 3)}  # of x, dy, and the results


def drawn(problem, rows, hidden, dtype, gamma_dtype, offsets=(0, 0, 0)):
    """A problem whose x and dy begin so many elements after a multiple of 16 bytes."""
    data = problem((rows, hidden), dtype, gamma_dtype)
    lanes = 16 // data.x.itemsize
    return data._replace(x=placed(data.x, offsets[0] % lanes), dy=placed(data.dy, offsets[1] % lanes))


def run(machine, data, offset=0, chosen=None):
    """y, dx, dgamma, dbeta; y and dx begin `offset` elements after a multiple of 16 bytes."""
    y, dx = (placed(np.full_like(data.x, np.nan), offset % (16 // data.x.itemsize)) for _ in range(2))
    sums = [np.full_like(data.gamma, np.nan) for _ in range(2)]
    how = {"machine": machine, "chosen": chosen}
    _, saved = cuda_fused.forward(data.x, data.gamma, data.beta, EPS, out=y, **how)
    return y, *cuda_fused.backward(data.dy, saved, out=(dx, *sums), **how)


def worst_u(data, results):
    """The largest of the four errors, relative to the terms that the results are summed from."""
    return max(errors(np, Arrays(data.x, data.gamma, data.beta, data.dy), Results(*results), EPS))


def longest(chosen, dtype, lie):
    """The longest rows that a map takes."""
    lanes = 16 // dtype_of(dtype).itemsize
    return chosen.most * lanes + (lanes - 1 if lie else 0)


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize("lie", list(OFFSETS))
@pytest.mark.parametrize(("dtype", "gamma_dtype"), TYPES)
def test_every_map_is_correct_at_its_longest_rows(problem, name, lie, dtype, gamma_dtype):
    hidden = longest(MAPS[name], dtype, lie)
    data = drawn(problem, 21, hidden, dtype, gamma_dtype, OFFSETS[lie])
    results = run(Emulation(), data, OFFSETS[lie][2], MAPS[name])
    assert worst_u(data, results) <= LIMIT_U[dtype]


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize("hidden", [1, 5, 33, 61])
def test_every_map_is_correct_on_any_number_of_short_and_odd_rows(problem, name, hidden):
    for rows in (1, 2, 3, 64):
        data = drawn(problem, rows, hidden, "float32", "float32", (2, 2, 2))
        assert worst_u(data, run(Emulation(), data, 2, MAPS[name])) <= LIMIT_U["float32"], rows


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize("hidden", [64, 101])
def test_neither_the_order_of_threads_nor_that_of_copies_changes_a_bit(problem, name, hidden):
    data = drawn(problem, 40, hidden, "bfloat16", "float32")
    first, *others = (
        run(Emulation(order=order, late=late, seed=7), data, 0, MAPS[name]) for order, late in ORDERS
    )
    for other in others:
        for one, same in zip(first, other, strict=True):
            assert np.array_equal(one, same)


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize("hidden", [64, 101])
def test_a_row_has_the_same_bits_whichever_cluster_works_on_it(problem, name, hidden, monkeypatch):
    data = drawn(problem, 90, hidden, "bfloat16", "float32")
    results = []
    for share in (0.0, 0.8):
        rests = dict.fromkeys((2, 4, 8), plan.Rests(*(plan.Rest(share, 1),) * 3))
        monkeypatch.setattr(plan, "REST", dict.fromkeys(plan.MAPS, rests))
        monkeypatch.setattr(plan, "FEWEST", 0)
        machine = Crowded(8)
        results.append((machine, run(machine, data, 0, MAPS[name])))
    (few, first), (more, second) = results
    assert dict(few.ran)["forward"] < dict(more.ran)["forward"]
    assert dict(few.ran)["backward"] < dict(more.ran)["backward"]
    for one, same in zip(first[:2], second[:2], strict=True):
        assert np.array_equal(one, same)
    assert worst_u(data, second) <= LIMIT_U["bfloat16"]


@pytest.mark.parametrize("lie", [plan.ALIKE, plan.RAGGED])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_the_maps_of_the_table_are_correct(problem, itemsize, lie):
    """The longest rows of each: aligned, they fill it."""
    dtype = {2: "bfloat16", 4: "float32", 8: "float64"}[itemsize]
    for chosen in dict.fromkeys([*plan.MAPS["forward"][itemsize], *plan.MAPS["backward"][itemsize]]):
        if chosen.cluster > 2:  # as that of two, and slow
            continue
        offset = OFFSETS[lie][0]
        data = drawn(problem, 3, longest(chosen, dtype, lie), dtype, dtype, (offset,) * 3)
        if plan.refused("backward", chosen, itemsize):  # of the forward pass
            chosen = chosen._replace(rows=1)
        assert worst_u(data, run(Emulation(), data, offset, chosen)) <= LIMIT_U[dtype], chosen


@pytest.mark.parametrize("name", ["lanes", "warp", "block"])
@pytest.mark.parametrize("lie", list(OFFSETS))
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_team_goes_through_many_rounds_of_rows(problem, name, lie, dtype):
    """All rounds but the last are full; where registers suffice, the next is loaded before one is used."""
    data = drawn(problem, 350, longest(MAPS[name], dtype, lie), dtype, dtype, OFFSETS[lie])
    machine = Emulation(hardware=SMALL._replace(multiprocessors=1))
    assert worst_u(data, run(machine, data, OFFSETS[lie][2], MAPS[name])) <= LIMIT_U[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_block_of_three_teams_is_correct_on_ragged_rows(problem, dtype):
    """The rows of a team have the same phase, though their period is no multiple of three."""
    three = Map(threads=96, blocks=4, cluster=1, team=32, chunks=2, rows=1, ring=False)
    data = drawn(problem, 100, 511 if dtype == "float16" else 255, dtype, dtype)
    assert worst_u(data, run(Emulation(), data, 0, three)) <= LIMIT_U[dtype]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_too_long_for_the_chip_are_correct_and_read_twice(problem, dtype):
    old = SMALL._replace(hopper=False)
    hidden = 20_001
    assert plan.choose("forward", 4, hidden, dtype_of(dtype).itemsize, plan.RAGGED, old) is None
    data = drawn(problem, 4, hidden, dtype, dtype)
    assert worst_u(data, run(Emulation(hardware=old), data)) <= LIMIT_U[dtype]


@pytest.mark.parametrize("name", list(MAPS))
def test_nothing_is_written_beside_the_results(problem, name):
    rows, hidden = 9, 61
    data = drawn(problem, rows, hidden, "float16", "float16", (3, 3, 3))
    guarded = [np.full((rows + 2, hidden), 7, np.float16) for _ in range(2)]
    sums = [np.full(3 * hidden, 7, np.float16) for _ in range(2)]
    how = {"machine": Emulation(), "chosen": MAPS[name]}
    _, saved = cuda_fused.forward(data.x, data.gamma, data.beta, EPS, out=guarded[0][1:-1], **how)
    inner = [one[hidden:-hidden] for one in sums]
    cuda_fused.backward(data.dy, saved, out=(guarded[1][1:-1], *inner), **how)
    for array in guarded:
        assert (array[[0, -1]] == 7).all()
    for array in sums:
        assert (array[:hidden] == 7).all() and (array[-hidden:] == 7).all()


@pytest.mark.parametrize("name", ["warp", "ring", "cluster"])
@pytest.mark.parametrize("kappa", [1, 1e3, 1e6])
def test_the_error_of_dx_does_not_grow_with_the_mean(name, kappa):
    rng = inputs.generator(3)
    mean = inputs.mean_of_kappa(kappa)
    x = inputs.rows(rng, 16, 200, np.float32, mean=mean)
    dy = inputs.upstream(rng, "shifted", x)
    gamma, beta = inputs.gamma(rng, "random", 200, np.float32), inputs.beta(rng, 200, np.float32)
    how = {"machine": Emulation(), "chosen": MAPS[name]}
    _, saved = cuda_fused.forward(x, gamma, beta, EPS, **how)
    dx, *_ = cuda_fused.backward(dy, saved, **how)
    exact = oracle.backward(*(inputs.values(array) for array in (x, gamma, dy)), EPS)
    assert error_u(dx, exact.dx).max() < 4


@pytest.mark.parametrize("name", ["warp", "block", "ring", "cluster"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_whose_first_elements_are_far_from_their_mean_are_correct(problem, name, dtype):
    """In every third row; in a cluster all blocks sum the row again, or none does."""
    data = drawn(problem, 40, 200, dtype, dtype)
    x = data.x.astype(np.float64)
    x[::3, :32] += 100
    data = data._replace(x=round_to(x, data.x.dtype))
    assert worst_u(data, run(Emulation(), data, 0, MAPS[name])) <= LIMIT_U[dtype]


@pytest.mark.parametrize("name", list(MAPS))
def test_a_row_has_the_same_bits_beside_rows_that_are_summed_again(problem, name):
    data = drawn(problem, 40, 128, "bfloat16", "bfloat16")
    x = data.x.astype(np.float64)
    x[::5, :32] += 100
    rest, results = np.arange(40) % 5 > 0, []
    for rows in (data.x, round_to(x, data.x.dtype)):
        how = {"machine": Emulation(), "chosen": MAPS[name]}
        y, saved = cuda_fused.forward(rows, data.gamma, data.beta, EPS, **how)
        results.append((y, saved.mean, saved.rstd))
    for one, same in zip(*results, strict=True):
        assert np.array_equal(one[rest], same[rest])


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize("value", [0.1, 1e4, -3e7])
def test_a_constant_row_has_no_variance(name, value):
    x = np.full((5, 60), value, np.float32)
    ones, zeros = np.ones(60, np.float32), np.zeros(60, np.float32)
    y, saved = cuda_fused.forward(x, ones, zeros, 1e-12, machine=Emulation(), chosen=MAPS[name])
    assert (y == 0).all()
    assert (saved.mean == np.float32(value)).all()
    assert np.allclose(saved.rstd, 1e6, rtol=1e-6)


def test_results_are_correct_on_few_and_many_multiprocessors(problem):
    data = drawn(problem, 50, 40, "float32", "float32")
    for count in (1, 2, 132):
        machine = Emulation(hardware=Hardware(count, 228 << 10, hopper=True))
        assert worst_u(data, run(machine, data)) <= LIMIT_U["float32"]


def test_without_recentring_results_are_inaccurate_at_a_large_mean(problem):
    data = drawn(problem, 9, 60, "float32", "float32")
    moved = data._replace(x=(data.x + np.float32(3e4)).astype(np.float32))
    machine = Emulation()
    _, saved = cuda_fused.forward(moved.x, moved.gamma, moved.beta, EPS, machine=machine)
    off = saved._replace(mean=saved.mean + np.float32(2.0**-9))
    right = Arrays(moved.x, moved.gamma, moved.beta, moved.dy)
    for recentre, good in ((True, True), (False, False)):
        dx, *sums = cuda_fused.backward(moved.dy, off, machine=machine, recentre=recentre)
        found = errors(np, right, Results(None, dx, *sums), EPS)
        assert (found.dx <= LIMIT_U["float32"]) is good


class Crowded(Emulation):
    """A device that has room for so many clusters; remembers what it ran, with the blocks."""

    def __init__(self, room):
        super().__init__()
        self.room, self.ran = room, []

    def clusters(self, program, how):
        return self.room

    def launch(self, program, how, arguments):
        self.ran.append((program.kernel, how.blocks))
        super().launch(program, how, arguments)


@pytest.mark.parametrize(
    ("room", "ran"),
    [
        (0, ["forward_wide", "project_wide", "differentiate_wide", "add_partials"]),
        (1, ["forward", "backward", "add_partials"]),
    ],
)
def test_clusters_that_do_not_fit_a_device_are_not_launched(problem, room, ran):
    machine = Crowded(room)
    data = drawn(problem, 9, 61, "float32", "float32")
    assert worst_u(data, run(machine, data, 0, CLUSTER)) <= LIMIT_U["float32"]
    assert [kernel for kernel, _ in machine.ran] == ran
    blocks = dict(machine.ran)
    assert not room or blocks["forward"] == blocks["backward"] == 4 * CLUSTER.cluster  # four rows begin apart
