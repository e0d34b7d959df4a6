"""What a predicate returns, and how it prints numbers: plain text, at most three significant digits."""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

Verdict = Literal["confirmed", "corrected", "refuted", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Judgement(NamedTuple):
    """A verdict, the measured value, the condition under which it was measured, and the reason for the
    verdict."""

    verdict: Verdict
    value: str
    condition: str
    reason: str


class NothingMeasured(ValueError):
    """A table has no measured row for a claim; the message says which rows are needed."""


class ClaimMisfit(ValueError):
    """The rows or numbers of a claim do not suit its predicate; the message says what it needs."""


def verdict(confirmed: bool, corrected: bool = False) -> Verdict:
    """The first of the two that holds; refuted if neither does."""
    if confirmed:
        return "confirmed"
    return "corrected" if corrected else "refuted"


def pick(frame: pd.DataFrame, column: str, **where: object) -> pd.Series:
    """The measured numbers of a column, in the rows in which columns have these values; never empty."""
    for name, wanted in where.items():
        frame = frame[frame[name] == wanted]
    found = frame[column].dropna()
    if found.empty:
        raise NothingMeasured(f"no measured {column} where {where or 'selected'}")
    return found


def among(found: Iterable[object], *wanted: object) -> None:
    """NothingMeasured if one of the wanted names, of kernels for instance, is not among those found."""
    held = set(found)
    missing = [name for name in wanted if name not in held]
    if missing:
        raise NothingMeasured(f"no measured rows of {listing(missing)}")


def number(value: float) -> str:
    """5.04e-11, 1e-5, 0.0312, 1.25, 13107, 1.2e8: three significant digits, and every digit before the
    point."""
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 0.01 <= abs(value) < 1e6:
        return _trimmed(f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}")
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{_trimmed(mantissa)}e{int(exponent)}"


_MANY = {"property": "properties", "data": "kinds of data"}  # columns with an irregular plural


def count(how_many: int, thing: str) -> str:
    """1 array, 3 arrays."""
    return f"{how_many} {thing}{'' if how_many == 1 else 's'}"


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def span(values: Iterable[float]) -> str:
    """The smallest and the largest number; a single one if both print alike."""
    numbers = [float(value) for value in values]
    low, high = number(min(numbers)), number(max(numbers))
    return low if low == high else f"{low} to {high}"


def listing(names: Iterable[object]) -> str:
    """a, b and c; "none" for an empty list."""
    words = [str(name) for name in names] or ["none"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def over(table: pd.DataFrame, *columns: str) -> str:
    """What the rows of a table cover: the names in each column of text, the range of each column of numbers.

    Of more than five names, only their number, the first and the last are given.
    """
    parts = []
    for column in columns:
        values = table[column].dropna().unique()
        if pd.api.types.is_numeric_dtype(table[column]):
            parts.append(f"{column} {span(values)}" if len(values) else f"{column} unknown")
        elif len(values) > 5:
            parts.append(f"{len(values)} {_MANY.get(column, f'{column}s')} from {values[0]} to {values[-1]}")
        else:
            parts.append(listing(values))
    return "; ".join(parts)


def said(holds: bool, yes: str, no: str) -> str:
    """One of two phrases."""
    return yes if holds else no


def power(exponent: float) -> str:
    """An exponent with two decimals, and no minus before a zero."""
    return f"{exponent:z.2f}"


def slope(x: Iterable[float], y: Iterable[float]) -> float:
    """The least-squares slope of log y over log x, for the points where both are positive and finite;
    infinite if some y is.

    This is not the median slope of `fits`, used in the table `slopes`: the second printed decimal may differ.
    """
    x, y = np.asarray(list(x), dtype=float), np.asarray(list(y), dtype=float)
    if np.isinf(y).any():
        return math.inf
    good = (x > 0) & (y > 0) & np.isfinite(x) & np.isfinite(y)
    if len(np.unique(x[good])) < 2:
        raise NothingMeasured("a slope needs two points with a positive value")
    return float(np.polyfit(np.log(x[good]), np.log(y[good]), 1)[0])
