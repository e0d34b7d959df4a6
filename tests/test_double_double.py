"""Double-double arithmetic against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward.double_double import DoubleDouble, difference, exactly, product, two_prod, two_sum

PRECISION = Fraction(2) ** -102


def exact(value: DoubleDouble) -> list[Fraction]:
    pairs = zip(np.ravel(value.hi).tolist(), np.ravel(value.lo).tolist(), strict=True)
    return [Fraction(hi) + Fraction(lo) for hi, lo in pairs]


def draw(seed: int, count: int = 300) -> DoubleDouble:
    rng = np.random.default_rng(seed)
    hi = rng.standard_normal(count) * 10.0 ** rng.integers(-12, 13, count)
    return DoubleDouble(*two_sum(hi, hi * rng.uniform(-1, 1, count) * 2.0**-54))


def close(got: DoubleDouble, wanted: list[Fraction]) -> bool:
    return all(abs(g - w) <= PRECISION * abs(w) for g, w in zip(exact(got), wanted, strict=True))


def test_two_sum_and_two_prod_lose_nothing():
    a, b = draw(1).hi, draw(2).hi
    for parts, operation in ((two_sum(a, b), Fraction.__add__), (two_prod(a, b), Fraction.__mul__)):
        wanted = [operation(Fraction(x), Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        assert exact(DoubleDouble(*parts)) == wanted


@pytest.mark.parametrize("name", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_operations_keep_102_bits(name):
    a, b = draw(3), draw(4)
    wanted = [getattr(x, name)(y) for x, y in zip(exact(a), exact(b), strict=True)]
    assert close(getattr(a, name)(b), wanted)


def test_subtraction_keeps_102_bits_where_almost_all_cancels():
    a = draw(5)
    b = a + a * 2.0**-60
    assert close(a - b, [x - y for x, y in zip(exact(a), exact(b), strict=True)])


def test_results_are_normalised():
    a, b = draw(6), draw(7)
    for result in (a + b, a * b, a / b, (a * a).sqrt()):
        assert np.array_equal(result.hi + result.lo, result.hi)


def test_the_square_of_a_square_root_is_the_number():
    a = draw(8)
    squared = [root**2 for root in exact((a * a).sqrt())]
    wanted = [value**2 for value in exact(a)]
    assert all(abs(s - w) <= 8 * PRECISION * w for s, w in zip(squared, wanted, strict=True))
    assert exact(exactly(np.zeros(2)).sqrt()) == [0, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1001])
def test_sum_and_mean_along_an_axis(count):
    rng = np.random.default_rng(count)
    terms = DoubleDouble(*two_sum(rng.standard_normal((3, count)), 1e-18 * rng.standard_normal((3, count))))
    for axis, indices in ((1, range(3)), (0, range(0, count, 50))):
        found = terms.sum(axis=axis)
        for i in indices:
            addends = exact(terms.at((slice(None), i) if axis == 0 else i))
            error = abs(exact(found.at(i))[0] - sum(addends))
            assert error <= PRECISION * sum(abs(addend) for addend in addends)
    assert terms.sum(axis=0, keepdims=True).hi.shape == (1, count)
    assert close(terms.mean(), [total / count for total in exact(terms.sum())])


def test_an_empty_sum_is_zero():
    assert exact(exactly(np.empty((0, 3))).sum(axis=0)) == [0, 0, 0]


def test_arrays_and_numbers_may_stand_on_either_side():
    a, b = np.array([3.0, 0.1]), draw(9, 2)
    x, y = [Fraction(value) for value in a.tolist()], exact(b)
    pairs = list(zip(x, y, strict=True))
    assert close(a - b, [p - q for p, q in pairs])
    assert close(a + b, [p + q for p, q in pairs])
    assert close(a * b, [p * q for p, q in pairs])
    assert close(1.0 / b, [1 / q for q in y])


def test_product_and_difference_are_exact():
    a, b = np.array([0.1, 1e14 + 0.5]), np.array([0.3, 1 / 3])
    fractions = [(Fraction(p), Fraction(q)) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    assert exact(product(a, b)) == [p * q for p, q in fractions]
    assert exact(difference(a, b)) == [p - q for p, q in fractions]
