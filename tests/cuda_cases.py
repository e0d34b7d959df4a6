"""Small problems for the CUDA sources on the host emulation: maps of threads to rows, alignments of rows."""

from typing import NamedTuple

from layernorm_backward.kernels.cuda.emulation import Order
from layernorm_backward.kernels.cuda.maps import Map

LIMIT_U = 16  # of a row's error over the row: the largest observed was 3.4
FAR = 2**31  # elements: no int counts them

# Bytes from a multiple of 16 to x, dy and the results.
ALIKE, RAGGED, APART = (0, 0, 0), (8, 8, 8), (8, 0, 8)

LANES = Map(threads=64, blocks=2, cluster=1, team=8, chunks=2, rows=2, ring=False)
WARP = Map(threads=64, blocks=2, cluster=1, team=32, chunks=2, rows=2, ring=False)
BLOCK = Map(threads=64, blocks=32, cluster=1, team=64, chunks=2, rows=1, ring=False)  # gamma in storage dtype
ALONE = Map(threads=64, blocks=2, cluster=1, team=1, chunks=1, rows=1, ring=False)
THREE = Map(threads=96, blocks=1, cluster=1, team=32, chunks=32, rows=2, ring=False)  # warps
RING = BLOCK._replace(blocks=1, ring=True)
PAIR = Map(threads=64, blocks=1, cluster=2, team=64, chunks=2, rows=1, ring=True)
FOUR = Map(threads=32, blocks=1, cluster=4, team=32, chunks=2, rows=1, ring=True)
WIDE = None  # for rows that no map takes


MULTIPROCESSORS = {1: 3, 2: 6, 4: 16}  # by blocks of a cluster: several clusters, with several rows each


class Case(NamedTuple):
    """One problem, its map, and the passes to run; `sums`: add_partials computes dgamma and dbeta.

    `rest`: the share of the rows left to later clusters, as in `plan.Rest`.
    """

    chosen: Map | None
    rows: int
    hidden: int
    dtype: str = "float32"
    gamma_dtype: str = "float32"
    lie: tuple[int, int, int] = ALIKE
    passes: str = "forward backward"
    order: Order = "forward"
    late: bool = True
    sums: bool = False
    mean: float = 3.0
    outliers: float = 0.0  # added to the first 32 elements of every second row
    nan_row: int | None = None
    rest: tuple[float, int] | None = None


SINGLE, MIXED = ("float32", "float32"), ("bfloat16", "float32")
HALF, DOUBLE = ("float16", "float16"), ("float64", "float64")
CLEAN = {
    "registers": (
        Case(LANES, 21, 32, *SINGLE),
        Case(LANES, 21, 61, *SINGLE, RAGGED),
        Case(LANES, 1, 100, *MIXED, APART),
        Case(LANES, 40, 128, *MIXED, passes="forward", outliers=1e4),
        Case(ALONE, 40, 3, *DOUBLE, RAGGED, "forward"),
        Case(WARP, 3, 200, *MIXED),
        Case(WARP, 19, 256, *SINGLE, passes="forward", outliers=1e4),
        Case(WARP, 40, 101, *DOUBLE, RAGGED),
        Case(BLOCK, 5, 129, *DOUBLE, APART),
        Case(BLOCK, 9, 501, *HALF, RAGGED),
    ),
    "ring": (
        Case(RING, 40, 256, *SINGLE),
        Case(RING, 40, 501, *MIXED, RAGGED),
        Case(RING, 2, 129, *DOUBLE, APART),
        Case(RING, 40, 500, *SINGLE, passes="forward", outliers=1e4),
        Case(RING, 1, 8, *HALF, RAGGED),
        Case(RING, 1, 3, *HALF, RAGGED),
    ),
    "cluster": (
        Case(PAIR, 30, 1024, *MIXED),
        Case(PAIR, 30, 501, *SINGLE, RAGGED, outliers=1e4),
        Case(PAIR, 30, 500, *SINGLE, passes="forward", outliers=1e4),
        Case(FOUR, 30, 333, *HALF, APART),
        Case(FOUR, 1, 3, *DOUBLE),
    ),
    "rest": (
        Case(LANES, 85, 32, *SINGLE, rest=(0.5, 1)),
        Case(LANES, 85, 61, *MIXED, RAGGED, rest=(0.7, 1)),
        Case(RING, 41, 256, *SINGLE, rest=(0.5, 3)),
        Case(RING, 41, 501, *MIXED, RAGGED, rest=(0.8, 2)),
        Case(PAIR, 31, 1024, *MIXED, rest=(0.5, 3)),
        Case(PAIR, 31, 501, *SINGLE, RAGGED, rest=(0.6, 2)),
        Case(FOUR, 31, 256, *SINGLE, rest=(0.5, 3)),
        Case(FOUR, 31, 333, *HALF, APART, rest=(0.6, 1)),
    ),
    "wide": (
        Case(WIDE, 3, 4101, *DOUBLE, RAGGED),
        Case(WIDE, 3, 4101, *SINGLE, passes="forward", outliers=1e4),
        Case(WARP, 300, 21, *MIXED, RAGGED, "backward", sums=True),
    ),
}
ORDERS: tuple[tuple[Order, bool], ...] = (("forward", True), ("random", False))
