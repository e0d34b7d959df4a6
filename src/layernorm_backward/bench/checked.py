"""Passes over all rows whose results are checked; result arrays are filled with NaN before.

Where a pass is given `out`, what stands there afterwards is its result, whatever it returns.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.bench.data import Data, changed, errors_u
from layernorm_backward.bench.passes import Passes, named, require_y
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.untrusted.reachable import arrays as arrays_in


class WrongError(ValueError):
    """Results that are too far off to be timed."""


class Forward(NamedTuple):
    """What a forward pass gave, its seconds, and the error of y in u."""

    y: NDArray
    saved: Any
    seconds: float
    errors_u: dict[str, float]


class Backward(NamedTuple):
    """The seconds of a backward pass, and the errors of its results in u."""

    seconds: float
    errors_u: dict[str, float]


def checked_forward(name: str, passes: Passes, data: Data) -> Forward:
    """MisfitError where y does not fit, ValueError where dx would be written over a y that is saved.

    WrongError where there is written beside y.
    """
    _spoil(passes.to_y)
    started = perf_counter()
    y, saved = passes.forward()
    its_s = perf_counter() - started
    require_y(name, y, data.arrays)
    (y,) = passes.to_y or (y,)
    overwritten = data.arrays.y is data.arrays.out and passes.to_gradients
    if overwritten and any(np.may_share_memory(part, data.arrays.y) for part in arrays_in(saved)):
        raise ValueError(f"{name} saves y, where dx is written; allowed: --direction both or all")
    _require_within(name, data, "y")
    return Forward(y, saved, its_s, errors_u(data, y=y))


def checked_backward(name: str, passes: Passes, saved: Any, data: Data) -> Backward:
    """MisfitError where a gradient does not fit, WrongError where there is written beside it or to inputs."""
    _spoil(passes.to_gradients)
    started = perf_counter()
    gradients = passes.backward(saved)
    its_s = perf_counter() - started
    _require_within(name, data, *Gradients._fields)
    if lost := changed(data):
        raise WrongError(f"{name} writes to {', '.join(lost)}, of which it may only read")
    found = named(name, gradients, data.arrays)
    if passes.to_gradients:
        found = dict(zip(Gradients._fields, passes.to_gradients, strict=True))
    return Backward(its_s, errors_u(data, **found))


def require_y_kept(name: str, passes: Passes, before: Forward, data: Data) -> None:
    """WrongError where y is not what it was before the backward pass, which was not told to write there."""
    told = any(np.may_share_memory(before.y, array) for array in passes.to_gradients)
    if not told and not np.isclose(errors_u(data, y=before.y)["y"], before.errors_u["y"], equal_nan=True):
        raise WrongError(f"the backward pass of {name} writes to y")


def _require_within(name: str, data: Data, *results: str) -> None:
    """WrongError where there is written beside an array for results."""
    for result in results:
        if where := data.results[result].overrun():
            raise WrongError(f"{name} writes {where} {result}")


def _spoil(results: tuple[NDArray, ...]) -> None:
    for result in results:
        result.fill(np.nan)
