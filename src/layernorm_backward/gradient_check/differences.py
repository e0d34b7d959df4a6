"""Slopes of sum(dy * y). y is differenced before it is multiplied by dy, which is the more accurate order."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import round_to
from layernorm_backward.gradient_check.methods import Method
from layernorm_backward.inputs import values

Outputs = Callable[[NDArray], NDArray]


class Difference(NamedTuple):
    """One term of a method: its weight and width 2*offset, the change of y and that of the argument.

    `run` is the change after rounding to the storage dtype. Dividing by it instead of the nominal step
    removes the rounding of a +- h from the result.
    """

    weight: float
    width: float
    rise: NDArray
    run: NDArray


def differences(y: Outputs, at: NDArray, move: NDArray, method: Method) -> Iterator[Difference]:
    """The terms of `method` for `at` moved along `move`; `at` is not modified."""
    start = values(at)
    for offset, weight in method.terms:
        if method.imaginary:
            yield Difference(weight, 2 * offset, 2 * y(start + 1j * offset * move).imag, 2 * offset * move)
            continue
        right, left = (round_to(start + side * offset * move, at.dtype) for side in (1, -1))
        yield Difference(weight, 2 * offset, values(y(right)) - values(y(left)), values(right) - values(left))


def by_column(y: Outputs, at: NDArray, step: NDArray, dy: NDArray, method: Method) -> NDArray:
    """d sum(dy * y) / d at, for x (..., D) or a parameter (D,), float64.

    Each column of x moves in all rows at once, by `step` (...,), since y of a row depends on that row alone.
    Random directions verify this: they move all elements together and show leaks between rows.
    """
    axes = -1 if at.ndim == dy.ndim else None
    slopes = []
    for column in range(at.shape[-1]):
        move = np.zeros(at.shape)
        move[..., column] = step
        terms = differences(y, at, move, method)
        slopes.append(
            sum(t.weight * (values(dy) * t.rise).sum(axis=axes) / t.run[..., column] for t in terms)
        )
    return np.stack(slopes, axis=-1)


def predicted(terms: list[Difference], slope: NDArray) -> np.float64:
    """The change of sum(dy * y) along a move, over the step, as `slope` predicts it."""
    return sum(t.weight * (values(slope) * t.run).sum() / t.width for t in terms)


def along(terms: list[Difference], dy: NDArray) -> np.float64:
    """The same, from the differences."""
    return sum(t.weight * (values(dy) * t.rise).sum() / t.width for t in terms)


def of_loss(y: Outputs, at: NDArray, step: NDArray, dy: NDArray) -> NDArray:
    """Central differences of the scalar loss per element, over the nominal step, as in published checks."""
    start, steps = values(at), np.broadcast_to(np.asarray(step)[..., None], at.shape)
    slopes = np.empty(at.shape)
    for index in np.ndindex(at.shape):
        move = np.zeros(at.shape)
        move[index] = steps[index]
        right, left = (values(y(round_to(start + side * move, at.dtype))) for side in (1, -1))
        slopes[index] = ((right * values(dy)).sum() - (left * values(dy)).sum()) / (2 * steps[index])
    return slopes
