"""Claims about what is saved for the backward pass: tables timing_cpu (columns saved_*) and edge_cases."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    among,
    count,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)


def tensors_suffice(
    timing_cpu: pd.DataFrame, edge_cases: pd.DataFrame, *, arrays: int, tolerance: float
) -> Judgement:
    """The backward pass is correct with `arrays` arrays and at most `tolerance` scalars saved, and x
    overwritten; corrected where more scalars are saved."""
    found = int(pick(timing_cpu, "saved_arrays").max())
    scalars = int(pick(timing_cpu, "saved_scalars").max())
    right = bool(pick(edge_cases, "passed").astype(bool).all())
    enough = right and found == arrays
    return Judgement(
        verdict(enough and scalars <= tolerance, enough),
        f"{_items((found, scalars))} saved; dx {said(right, 'correct', 'incorrect')} with x overwritten",
        f"{over(edge_cases, 'kernel', 'dtype')}; x filled with NaN before the backward pass",
        "rstd contains eps; the scalar that is saved with them is D, which is also in the shape of x_hat",
    )


def saves_too_much(
    timing_cpu: pd.DataFrame,
    *,
    kernel: str,
    items: int,
    than: str,
    arrays: int,
    scalars: int,
    tolerance: float,
) -> Judgement:
    """`kernel` saves `items` items (within the tolerance), `than` saves `arrays` arrays and `scalars`
    scalars; corrected where `kernel` only saves more."""
    counts = {
        name: tuple(int(pick(timing_cpu, column, kernel=name).max()) for column in _COUNTS)
        for name in (kernel, than)
    }
    total, needed = sum(counts[kernel]), counts[than]
    share = _share(timing_cpu, kernel, than)
    return Judgement(
        verdict(abs(total - items) <= tolerance and needed == (arrays, scalars), total > sum(needed)),
        f"{kernel} saves {total} items ({_items(counts[kernel])}), {than} {_items(needed)}; "
        f"{span(share)} times the bytes",
        _compared(timing_cpu, share),
        f"published: {items} items against {_items((arrays, scalars))}",
    )


def saves_less(timing_cpu: pd.DataFrame, *, kernel: str, than: str, tolerance: float) -> Judgement:
    """`kernel` saves at most the share `tolerance` of the bytes that `than` saves, for every shape."""
    share = _share(timing_cpu, kernel, than)
    return Judgement(
        verdict(share.max() <= tolerance),
        f"{span(share)} of the bytes of {than}",
        f"{kernel}; {_compared(timing_cpu, share)}; x included",
        f"allowed: at most {number(tolerance)}",
    )


_COUNTS = ("saved_arrays", "saved_scalars")
_KEYS = ["shape", "dtype"]


def _items(counts: tuple[int, ...]) -> str:
    return f"{count(counts[0], 'array')} and {count(counts[1], 'scalar')}"


def _share(timing_cpu: pd.DataFrame, kernel: str, than: str) -> pd.Series:
    """The bytes that one kernel saves over those of another, per shape and dtype where both were measured."""
    volume = timing_cpu.pivot_table(index=_KEYS, columns="kernel", values="saved_bytes", aggfunc="max")
    among(volume.columns, kernel, than)
    return pick((volume[kernel] / volume[than]).rename("share").astype(float).to_frame(), "share")


def _compared(timing_cpu: pd.DataFrame, share: pd.Series) -> str:
    """The dtypes and shapes for which `share` has a value."""
    rows = timing_cpu[timing_cpu.set_index(_KEYS).index.isin(share.index)]
    return over(rows, "dtype", "shape")
