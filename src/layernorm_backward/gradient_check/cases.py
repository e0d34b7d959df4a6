"""The input of a check: a layer as a function of (x, gamma, beta) on a data set, and its pull-back."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.gradient_check.datasets import DataSet, point
from layernorm_backward.gradient_check.points import Point
from layernorm_backward.kernels import Kernel

Arguments = tuple[NDArray, NDArray, NDArray]
Of = Literal["loss", "output"]


class CachedForward:
    """A forward pass that caches its results: no mutant changes it, so all mutants share one evaluation."""

    def __init__(self, forward: Callable[..., tuple]) -> None:
        self.forward = forward
        self.kept: dict[tuple[bytes, ...], tuple] = {}

    def __call__(self, *arguments: Any) -> tuple:
        key = tuple(np.asarray(part).tobytes() for part in arguments)
        if key not in self.kept:
            self.kept[key] = self.forward(*arguments)
        return self.kept[key]


class Case(NamedTuple):
    """A layer at a point. `of`: its output y, or the loss whose gradient with respect to y is dy."""

    data: DataSet
    at: Point
    eps: float
    of: Of
    forward: CachedForward

    @property
    def arguments(self) -> Arguments:
        """x, gamma, beta."""
        return tuple(self.at[:3])

    def value(self, *arguments: NDArray) -> NDArray:
        """y (..., D), or the loss (), sum(dy*y) or sum(y^2)/2, in the dtype of the point."""
        y = self.forward(*arguments, self.eps)[0]
        if self.of == "output":
            return y
        if self.data.upstream == "squared_loss":
            return np.sum(y * y) / 2
        return np.sum(self.at.dy * y)

    def pulled(self, backward: Callable[..., Arguments], cotangent: NDArray | float) -> Arguments:
        """The gradients of cotangent * value with respect to x, gamma, beta, by a backward pass."""
        y, saved = self.forward(*self.arguments, self.eps)
        if self.of == "output":
            return backward(cotangent, saved)
        dy = y if self.data.upstream == "squared_loss" else self.at.dy
        return backward((cotangent * dy).astype(y.dtype), saved)

    def moves(self) -> Iterator[tuple[NDArray, ...]]:
        """The unit vector of each element of x, gamma and beta, in the shapes of all three."""
        for which, part in enumerate(self.arguments):
            for index in np.ndindex(part.shape):
                units = tuple(np.zeros_like(one) for one in self.arguments)
                units[which][index] = 1
                yield units

    def cotangents(self) -> Iterator[NDArray | float]:
        """The unit vectors in the space of the value."""
        if self.of == "loss":
            yield 1.0
            return
        for index in np.ndindex(self.at.x.shape):
            unit = np.zeros_like(self.at.x)
            unit[index] = 1
            yield unit

    def central(self, move: Arguments, step: float) -> NDArray:
        """The difference of the value between +`move` and -`move`, over 2*step; shape of the value."""
        right, left = (
            self.value(*(part + side * change for part, change in zip(self.arguments, move, strict=True)))
            for side in (1, -1)
        )
        return np.asarray((right - left) * self.at.x.dtype.type(0.5 / step))


def case(data: DataSet, of: Of, dtype: str, kernel: Kernel, shape: tuple[int, ...], seed: int) -> Case:
    """A kernel's forward pass on a data set, with the kernel's default eps."""
    eps = kernel.default_eps
    return Case(data, point(data, shape, eps, seed, dtype), eps, of, CachedForward(kernel.forward))


def flat(arguments: Arguments) -> NDArray:
    """x, gamma, beta, or their gradients, concatenated to one vector."""
    return np.concatenate([np.ravel(part) for part in arguments])
