"""What the predicates about floors and goals must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, Tables, cases_of, stacked
from claim_frames import frame

SHORT = {"column": "roof_fraction", "hidden": [[256, 1024]]}
EVERY = {"column": "compact_ratio", "hidden": [[1, 255], [1025, 1e9]]}
PEERS = {"ours": "numba_fused", "least": 1.0}


def goals() -> Iterator[Case]:
    yield from cases_of(
        "cells_reach",
        0.88,
        SHORT,
        confirmed=[
            reached((256, 0.88), (1024, 0.95)),
            reached((256, 0.9), (64, 0.1)),
            *stacked(*reached((256, 0.9)), *reached((512, 0.1), residency="partly")),
        ],
        corrected=[reached((256, 0.87), (1023, 0.95))],
        refuted=[reached((256, 0.87)), reached((1024, 0.5), (1025, 0.95), (64, 0.95))],
    )
    yield from cases_of("cells_reach", 0.88, SHORT, refuted=[reached(*((256 + n, 0.5) for n in range(9)))])
    yield from cases_of(
        "cells_reach",
        4.0,
        EVERY,
        confirmed=[reached((64, 4.0), (2048, 9.0), (512, 1.0))],
        corrected=[reached((64, 3.9), (2048, 9.0))],
        refuted=[reached((64, 3.9), (1024, 9.0))],
    )
    yield from cases_of(
        "best_peer_takes",
        1.2,
        PEERS,
        confirmed=[peers((256, "torch", 1.0), (1024, "torch", 1.5), (1024, "jax", 9.0))],
        corrected=[
            peers((256, "torch", 0.9), (1024, "torch", 9.0)),
            peers((256, "torch", 1.1), (1024, "torch", 1.1)),
        ],
        refuted=[peers((256, "torch", 9.0), (256, "jax", 0.9), (256, "numba_fused", 1.0))],
    )
    yield from cases_of(
        "extra_memory_is",
        0.02,
        {},
        confirmed=[_memory(0.001, 0.02)],
        corrected=[_memory(0.001, 0.021)],
        refuted=[_memory(0.3)],
    )
    yield from cases_of(
        "extra_memory_is_vectors",
        16.0,
        {"bytes_each": 8},
        confirmed=[_memory(0.5, 0.5, chunks=4.0)],
        corrected=[_memory(0.5, 0.5, chunks=1.5)],
        refuted=[_memory(0.5, chunks=0.5)],
    )


def unmeasured() -> Iterator[Case]:
    """Tables in which no cell can be judged: the machine could not hold one, or no peer was there."""
    cached = reached((256, 0.95), residency="cache")
    empty = reached((256, float("nan")))
    yield from cases_of("cells_reach", 0.88, SHORT, **{"not measured": [cached, empty]})
    yield from cases_of("best_peer_takes", 1.2, PEERS, **{"not measured": [peers((256, "numba_fused", 1.0))]})
    nothing = {"not measured": [_memory(float("nan"))]}
    yield from cases_of("extra_memory_is", 0.02, {}, **nothing)
    yield from cases_of("extra_memory_is_vectors", 16.0, {"bytes_each": 8}, **nothing)


def reached(*cells: tuple[int, float], residency: str = "memory") -> Tables:
    """D and what was reached; both columns that the claims look at hold it, with intervals of 1 %."""
    rows = [(*cell, cell[1]) for cell in cells]
    keys = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 2}
    table = frame("hidden roof_fraction compact_ratio", *rows, residency=residency, **keys)
    return (with_interval(with_interval(table, "roof_fraction"), "compact_ratio"),)


def with_interval(table: pd.DataFrame, column: str, share: float = 0.01) -> pd.DataFrame:
    """The table with the ends of intervals of a column that reach so far to either side."""
    ends = {f"{column}_low": table[column] * (1 - share), f"{column}_high": table[column] * (1 + share)}
    return table.assign(**ends)


def peers(*cells: tuple[int, str, float]) -> Tables:
    keys = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 2, "rows": 8}
    table = frame("hidden kernel ours_ratio", *cells, setting="default", residency="memory", **keys)
    return (with_interval(table, "ours_ratio"),)


def _memory(*shares: float, chunks: float = 1.0) -> Tables:
    """Shares of 32 rows, 64 rows, ... of 128 numbers: of 32 rows in one chunk 0.5 is 16 vectors."""
    rows = [(32 * 2**number, share, share * 32 * 2**number * 128 * 8) for number, share in enumerate(shares)]
    keys = {"hidden": 128, "direction": "backward", "dtype": "float64", "chunks": chunks}
    return (frame("rows extra_share extra_bytes", *rows, **keys),)
