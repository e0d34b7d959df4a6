"""Numerical gradients over a sweep of steps: where each method is best, and how far the kernels are off."""

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward import stopwatch
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Names,
    Positive,
    Seed,
    Several,
    Shape,
    each_of,
    one_of,
)
from layernorm_backward.gradient_check import METHODS, compare, normal
from layernorm_backward.gradient_check.checker import gradients
from layernorm_backward.kernels import KERNELS, Kernel, missing
from layernorm_backward.records.tabulate import table
from layernorm_backward.untrusted.checked_kernel import checked


class Cell(NamedTuple):
    """One comparison to be made: one method with one step at one point."""

    kernel: str
    method: str
    step: float
    shape: Shape
    seed: int
    scopes: tuple[str, ...]


def run(
    *,
    kernels: Names,
    methods: Annotated[Names, each_of(METHODS)],
    steps: Several[Positive],
    complex_steps: Several[Positive],
    shapes: Several[Shape],
    directions: Count,
    seed: Seed,
    published_kernels: Annotated[dict[str, Several[Shape]], each_of("kernels")],
    published_methods: Annotated[Names, each_of(METHODS)],
    published_step: Positive,
    published_seeds: Several[Seed],
    large_shapes: Distinct[Shape],
    large_method: Annotated[str, one_of(METHODS)],
    large_step: Positive,
    spot_rows: Count,
) -> pd.DataFrame:
    """One row per kernel, method, step, shape, seed, scope and gradient; float64, data from N(0,1).

    Three parts: the sweep of steps (every element and random directions); the published setting,
    over many seeds, since its errors are rounding noise; large tensors, by rows and directions.
    """
    sweep = [
        Cell(*cell, seed, ("full", "directions"))
        for method in methods
        for cell in product(kernels, [method], complex_steps if METHODS[method].imaginary else steps, shapes)
    ]
    published = [
        Cell(kernel, method, published_step, shape, its_seed, ("full",))
        for kernel, its_shapes in published_kernels.items()
        for method, shape, its_seed in product(published_methods, its_shapes, published_seeds)
    ]
    large = [
        Cell(kernel, large_method, large_step, shape, seed, ("rows", "directions"))
        for kernel, shape in product(kernels, large_shapes)
    ]
    counts = {"rows": spot_rows, "directions": directions}
    return _measure(sweep + published + large, counts)


def _measure(cells: list[Cell], counts: dict[str, int]) -> pd.DataFrame:
    """The table of the cells; a cell that two parts ask for is measured once."""
    rows: dict[tuple, dict[str, Any]] = {}
    # one thread: the tensors are small, and the kernels' bits do not depend on the number of threads
    with stopwatch.threads(1), np.errstate(divide="ignore", invalid="ignore"):
        for cell in tqdm(cells, desc="gradient_check", mininterval=1):
            for row in _rows(cell, counts):
                key = (*cell[:5], row["quantity"], row["scope"])
                rows.setdefault(key, row)
    return table(rows.values(), "gradient_check")


def _rows(cell: Cell, counts: dict[str, int]) -> Iterator[dict[str, Any]]:
    kernel = checked(KERNELS[cell.kernel])
    shown = {
        "kernel": cell.kernel,
        "method": cell.method,
        "step": cell.step,
        "shape": "x".join(map(str, cell.shape)),
        "seed": cell.seed,
    }
    reason = missing(kernel)
    if reason:
        for quantity, scope in product(Gradients._fields, cell.scopes):
            yield shown | {"quantity": quantity, "scope": scope, "reason": reason}
        return
    for comparison in _comparisons(kernel, cell, counts):
        named = {"quantity": comparison.quantity, "scope": comparison.scope}
        yield shown | named | comparison.measures() | {"evaluations": comparison.evaluations}


def _comparisons(kernel: Kernel, cell: Cell, counts: dict[str, int]) -> Iterator[compare.Comparison]:
    point, method, eps = normal(cell.shape, cell.seed), METHODS[cell.method], kernel.default_eps
    analytic = gradients(kernel.forward, kernel.backward, point, eps)
    forward = compare.outputs(kernel.forward, eps, method)
    at = compare.Setting(forward, point, eps, method, cell.step)
    if "full" in cell.scopes:
        yield from compare.full(at, analytic)
    for scope in ("directions", "rows"):
        if scope in cell.scopes and not method.of_loss:
            rng = np.random.default_rng(cell.seed)
            yield from getattr(compare, scope)(at, analytic, counts[scope], rng)
