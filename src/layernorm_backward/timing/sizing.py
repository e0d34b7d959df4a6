"""Shapes by working set: how many rows make the arrays of a pass exceed the caches, or fit into them.

The working set is what a pass must touch: x and y forward, x, dy and dx backward, all four for both in turn.
It is beyond the cache from four times the last-level cache on, so that at most a quarter of it can be found
there from the call before.
"""

from math import ceil, sqrt
from typing import Literal, NamedTuple

from layernorm_backward import machine
from layernorm_backward.directions import TENSORS, AnyDirection
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.timing import memory

WorkingSet = int | Literal["beyond_cache", "in_cache"]
Residency = Literal["memory", "partly", "cache"]

ARRAYS: dict[AnyDirection, int] = TENSORS | {"both": 4}  # of x's size
BEYOND = 4  # times the last-level cache; a set that is to stay in it is at most this part of it
UNKNOWN_CACHE = 64 << 20  # bytes taken for the last-level cache where the system does not tell
SHARE = 3  # arrays take at most this part of the memory that is available


class Sized(NamedTuple):
    """A number of rows, and why it is smaller than wanted ("" where it is not)."""

    rows: int
    note: str


def memory_limit() -> int:
    """Bytes that the arrays of an experiment may take: a third of what is available now."""
    return memory.available() // SHARE


def touched(direction: AnyDirection, rows: int, hidden: int, dtype: str) -> int:
    """Bytes of the working set."""
    return held(ARRAYS[direction], rows, hidden, dtype)


def held(arrays: int, rows: int, hidden: int, dtype: str) -> int:
    """Bytes of `arrays` arrays of x's size."""
    return arrays * rows * hidden * dtype_of(dtype).itemsize


def sized(
    hidden: int,
    dtype: str,
    direction: AnyDirection,
    working_set: WorkingSet,
    limit: int | None = None,
    arrays: int = 0,
) -> Sized:
    """The rows of length `hidden` that fill a working set: at least beyond the cache, at most otherwise.

    `limit` is in bytes (default: `memory_limit()`), for all arrays of x's size that are allocated: those of
    the working set, or `arrays` where they are more. ValueError where it holds no row.
    """
    row = touched(direction, 1, hidden, dtype)
    taken = held(max(arrays, ARRAYS[direction]), 1, hidden, dtype)
    limit = memory_limit() if limit is None else limit
    if taken > limit:
        raise ValueError(f"a row of {hidden} takes {taken} bytes; allowed: {limit}, a third of the memory")
    wanted = _bytes(working_set)
    rows = max(1, ceil(wanted / row) if working_set == "beyond_cache" else wanted // row)
    if rows * taken <= limit:
        return Sized(rows, "")
    fits = limit // taken
    return Sized(fits, f"{wanted} bytes were wanted; a third of the available memory holds {fits * row}")


def cache_bytes() -> int:
    """Bytes of the last-level cache; UNKNOWN_CACHE where the system does not report it."""
    return machine.last_level_cache_bytes() or UNKNOWN_CACHE


def assumed() -> str:
    """The note that the size of the cache is assumed; "" where the system reports it."""
    told = machine.last_level_cache_bytes()
    return "" if told else f"cache size not told; {UNKNOWN_CACHE >> 20} MiB assumed"


def placed(size: int, note: str) -> dict[str, str]:
    """The columns residency and note of a working set of so many bytes."""
    return {"residency": residency(size), "note": "; ".join(filter(None, (note, assumed())))}


def residency(size: int) -> Residency:
    """Where a working set of this size lies: in memory, partly in the last-level cache, or in the cache."""
    cache = cache_bytes()
    return "cache" if size <= cache else "partly" if size < BEYOND * cache else "memory"


def beyond_cache() -> int:
    """Bytes from which a working set is beyond the cache."""
    return BEYOND * cache_bytes()


def in_cache() -> int:
    """Bytes that stay in the last-level cache and no other: the geometric mean of its quarter and all L2."""
    most = cache_bytes() // BEYOND
    inner = machine.usable_cores() * machine.cache_bytes().get("l2", 0)
    return int(sqrt(most * min(inner, most))) if inner else most


def _bytes(working_set: WorkingSet) -> int:
    if working_set == "beyond_cache":
        return beyond_cache()
    return in_cache() if working_set == "in_cache" else working_set
