"""How teams of threads share rows: the one table behind every launch of `cuda_fused`.

A row of D elements has chunks of 16 bytes. `MAPS` says, for rows of at most so many chunks, how a team of
threads shares a row; `plan.py` chooses from it. See `map.cuh` and `ring.cuh`.
"""

from typing import Literal, NamedTuple

CHUNK = 16  # bytes
Direction = Literal["forward", "backward"]

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
# H200 (the experiment `maps_gpu` times others beside them). In the backward pass a thread keeps gamma and two
# sums of each of its elements in registers.
_LONG_OF_64_BITS = (
    _warp(256, 2, 2),
    _warp(256, 2, 4),
    *(_block(*how) for how in ((128, 4, 2), (256, 2, 2), (256, 2, 4))),
    *(_block(512, 1, 4, cluster) for cluster in (1, 2, 4, 8, 16)),
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
        8: (*_teams(256, 2, 1, 3), *_LONG_OF_64_BITS),
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
        8: (*_teams(256, 2, 1, 4), *_LONG_OF_64_BITS),
    },
}
