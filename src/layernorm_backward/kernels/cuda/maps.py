"""The maps by which teams of threads share rows: one table for every launch of `cuda_fused`.

A row of D elements consists of chunks of 16 bytes. `MAPS` holds, for rows up to a number of chunks, how a
team of threads shares a row; `plan.py` chooses from it. See `map.cuh` and `ring.cuh`.
"""

from typing import NamedTuple

CHUNK = 16  # bytes

# Alignment of rows (`lie`).
# FULL: all rows begin at multiples of 16 bytes and have the map's full length.
# ALIKE: all begin at multiples of 16 bytes.
# RAGGED: they do not, but x, dy and the result agree modulo 16 bytes.
# APART: the arrays differ modulo 16 bytes.
FULL, ALIKE, RAGGED, APART = range(-1, 3)


class Map(NamedTuple):
    """How teams share rows; the fields are the template arguments of `struct Map` in map.cuh, in order."""

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


def _lanes(threads: int, blocks: int, chunks: int, rows: int, *teams: int) -> tuple[Map, ...]:
    """Rows in registers, each of so many lanes of a warp."""
    return tuple(Map(threads, blocks, 1, team, chunks, rows, ring=False) for team in teams)


def _block(threads: int, blocks: int, chunks: int, rows: int = 1) -> Map:
    """Rows in registers, each of a whole block."""
    return Map(threads, blocks, 1, threads, chunks, rows, ring=False)


def _ring(threads: int, blocks: int, chunks: int, cluster: int = 1) -> Map:
    """Rows ahead in shared memory, each of a whole block or cluster."""
    return Map(threads, blocks, cluster, threads, chunks, rows=1, ring=True)


# By bytes of an element, from the shortest rows on. Those of 16 and 32 bits are among the fastest of many on
# an H200 (the experiment `maps_gpu` compares others). Rows that do not all begin at multiples of 16 bytes use
# maps with fewer elements to a thread (MOST_RAGGED in plan.py), since a thread also holds edges of rows.
_LONG_OF_64_BITS = (
    *_lanes(256, 2, 2, 1, 32),
    *_lanes(256, 2, 4, 1, 32),
    *(_ring(*how) for how in ((128, 4, 2), (256, 2, 2), (256, 2, 4))),
    *(_ring(512, 1, 4, cluster) for cluster in (1, 2, 4, 8, 16)),
)
_LONGEST = tuple(_ring(512, 1, chunks, cluster) for cluster in (2, 4, 8) for chunks in (3, 4))
MAPS = {
    "backward": {
        2: (
            *_lanes(256, 2, 1, 1, 1, 2),
            *_lanes(256, 2, 2, 1, 2, 4),
            *_lanes(256, 2, 1, 2, 8),
            *_lanes(256, 2, 2, 1, 8, 16, 32),
            *_lanes(128, 3, 3, 1, 32),
            *_lanes(128, 3, 4, 1, 32),
            _block(64, 8, 2),
            _ring(128, 5, 2),
            _ring(128, 3, 3),
            _ring(128, 2, 4),
            _block(256, 2, 2),
            _ring(256, 2, 3),
            _ring(64, 6, 4, 4),
            _block(512, 1, 2),
            _ring(512, 1, 3),
            _ring(64, 6, 4, 8),
            _ring(512, 1, 2, 2),
            _ring(128, 3, 4, 8),
            _ring(512, 1, 2, 4),
            _ring(256, 2, 4, 8),
            _ring(512, 1, 2, 8),
            _ring(512, 1, 3, 8),
        ),
        4: (
            *_lanes(256, 2, 1, 1, 1, 2),
            *_lanes(256, 2, 2, 1, 2, 4, 8, 16, 32),
            _ring(64, 8, 2),
            _ring(64, 6, 3),
            _ring(128, 5, 2),
            _block(256, 4, 2),
            _block(256, 3, 3),
            _block(256, 2, 4),
            _ring(256, 3, 3, 2),
            _block(512, 1, 4),
            *_LONGEST,
            _ring(512, 1, 3, 16),
        ),
        8: (
            *_lanes(256, 2, 1, 1, 1),
            *_lanes(256, 2, 1, 2, 2, 4, 8, 16, 32),
            *_LONG_OF_64_BITS,
        ),
    },
    "forward": {
        2: (
            *_lanes(128, 6, 1, 2, 1),
            *_lanes(128, 6, 2, 2, 2, 4),
            *_lanes(128, 4, 2, 2, 8),
            *(
                _lanes(128, blocks, many, 1, team)[0]
                for team in (8, 16, 32)
                for blocks, many in ((5, 3), (6, 4))
            ),
            _block(64, 8, 2),
            *(_block(64, 8, many, 2) for many in (3, 4)),
            _block(128, 4, 2),
            *(_block(128, 4, many, 2) for many in (3, 4)),
            _block(256, 2, 2),
            _ring(256, 2, 3),
            _ring(64, 8, 4, 4),
            _ring(512, 1, 3),
            _ring(64, 8, 4, 8),
            _ring(512, 1, 3, 2),
            _ring(128, 4, 4, 8),
            _ring(512, 1, 3, 4),
            _ring(256, 2, 4, 8),
            *_LONGEST[-2:],
        ),
        4: (
            *_lanes(256, 2, 1, 2, 1, 2),
            *_lanes(256, 2, 4, 2, 1, 2, 4),
            *(_lanes(256, 2, many, 2, team)[0] for team in (8, 16, 32) for many in (3, 4)),
            *(
                _block(threads, 512 // threads, many, rows)
                for threads in (64, 128, 256)
                for many, rows in ((3, 2), (4, 2), (4, 1))
            ),
            _ring(512, 1, 3),
            _ring(64, 8, 4, 8),
            _ring(512, 1, 3, 2),
            _ring(128, 6, 4, 8),
            *_LONGEST[2:],
            _ring(512, 1, 3, 16),
        ),
        8: (*_lanes(256, 2, 1, 4, 1, 2, 4, 8, 16, 32), *_LONG_OF_64_BITS),
    },
}
