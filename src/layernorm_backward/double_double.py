"""Double-double arithmetic, vectorised in NumPy: a number is the unevaluated sum hi + lo of two float64.

About 106 significant bits. The relative error of an operation is at most a few 2**-106 (Joldes, Muller &
Popescu 2017, "Tight and rigorous error bounds for basic building blocks of double-word arithmetic").
Products use Dekker's splitting, so no fused multiply-add is needed. Valid while all products are between
1e-270 and 1e300; no input may exceed 1e300.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SPLITTER = 2.0**27 + 1.0


class DoubleDouble(NamedTuple):
    """hi + lo with |lo| <= ulp(hi)/2; both of one shape. Operands may also be float64 arrays or numbers."""

    hi: Floats
    lo: Floats

    __array_ufunc__ = None  # lets array - DoubleDouble reach __rsub__

    def __add__(self, other: "DoubleDouble | Floats | float") -> "DoubleDouble":
        other = exactly(other)
        high, error = two_sum(self.hi, other.hi)
        low, low_error = two_sum(self.lo, other.lo)
        high, error = _fast_two_sum(high, error + low)
        return DoubleDouble(*_fast_two_sum(high, error + low_error))

    def __neg__(self) -> "DoubleDouble":
        return DoubleDouble(-self.hi, -self.lo)

    def __sub__(self, other: "DoubleDouble | Floats | float") -> "DoubleDouble":
        return self + -exactly(other)

    def __rsub__(self, other: Floats | float) -> "DoubleDouble":
        return exactly(other) - self

    def __mul__(self, other: "DoubleDouble | Floats | float") -> "DoubleDouble":
        other = exactly(other)
        high, error = two_prod(self.hi, other.hi)
        cross = self.hi * other.lo + self.lo * other.hi
        return DoubleDouble(*_fast_two_sum(high, error + cross))

    def __truediv__(self, other: "DoubleDouble | Floats | float") -> "DoubleDouble":
        other = exactly(other)
        first = self.hi / other.hi
        return exactly(first) + (self - other * first).hi / other.hi

    __radd__ = __add__
    __rmul__ = __mul__

    def __rtruediv__(self, other: Floats | float) -> "DoubleDouble":
        return exactly(other) / self

    def at(self, index: object) -> Self:
        """Both parts at one index."""
        return type(self)(self.hi[index], self.lo[index])

    def sum(self, axis: int = -1, *, keepdims: bool = False) -> "DoubleDouble":
        """The sum along an axis, as a binary tree: relative error about log2(n) * 2**-105 of sum |terms|."""
        return _keep(_tree(self.at(...), axis), axis, keepdims)

    def mean(self, axis: int = -1, *, keepdims: bool = False) -> "DoubleDouble":
        """The mean along an axis."""
        return self.sum(axis, keepdims=keepdims) / float(self.hi.shape[axis])

    def sqrt(self) -> "DoubleDouble":
        """The square root by one Newton step from the float64 root; 0 gives 0."""
        root = np.sqrt(self.hi)
        safe = np.where(root == 0, 1.0, root)
        return exactly(root) + (self - DoubleDouble(*two_prod(root, root))).hi / (2.0 * safe)


def exactly(value: DoubleDouble | Floats | float) -> DoubleDouble:
    """A float64 array or number as a double-double, unchanged if it is one."""
    if isinstance(value, DoubleDouble):
        return value
    high = np.asarray(value, dtype=np.float64)
    return DoubleDouble(high, np.zeros_like(high))


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """fl(a + b) and its exact error (Knuth; Moller 1965)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_prod(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """fl(a * b) and its exact error (Dekker 1971)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def product(a: Floats, b: Floats) -> DoubleDouble:
    """The exact product of two float64 arrays."""
    return DoubleDouble(*two_prod(a, b))


def difference(a: Floats, b: Floats) -> DoubleDouble:
    """The exact difference of two float64 arrays."""
    return DoubleDouble(*two_sum(a, -b))


def _fast_two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    return total, b - (total - a)


def _split(a: Floats) -> tuple[Floats, Floats]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _tree(terms: DoubleDouble, axis: int) -> DoubleDouble:
    terms = DoubleDouble(*(np.moveaxis(part, axis, 0) for part in terms))
    if len(terms.hi) == 0:
        return exactly(np.zeros(terms.hi.shape[1:]))
    while (count := len(terms.hi)) > 1:
        half = count // 2
        folded = terms.at(slice(half)) + terms.at(slice(half, 2 * half))
        odd = terms.at(slice(2 * half, None))
        terms = DoubleDouble(*(np.concatenate(parts) for parts in zip(folded, odd, strict=True)))
    return terms.at(0)


def _keep(total: DoubleDouble, axis: int, keepdims: bool) -> DoubleDouble:
    return DoubleDouble(*(np.expand_dims(part, axis) for part in total)) if keepdims else total
