"""Which faults do elements drawn at random from a large tensor show, and which do rows and directions?

Every mutant, and faults that spoil few elements, under checks that look at a part of the gradients: some
elements of each of dx, dgamma and dbeta, or some rows of dx and random directions, as our checker takes them
for large tensors. float64, tolerances of the checker; rows from N(0,1), at an offset and of a variance near
eps (`datasets.adequate`). The mutant `none` is the unspoiled kernel: caught, it is a false alarm.
"""

from math import comb
from typing import Annotated, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.experiments._arguments import Count, Distinct, Seed, Shape, one_of
from layernorm_backward.gradient_check import METHODS, compare
from layernorm_backward.gradient_check.checker import EPS, gradients
from layernorm_backward.gradient_check.datasets import adequate
from layernorm_backward.gradient_check.mutants import CORRECT, LOCAL, MUTANTS, kernel
from layernorm_backward.inputs import values
from layernorm_backward.records.tabulate import table

ELEMENTS, ROWS = "elements", "rows and directions"


def run(
    *,
    shape: Shape,
    elements: Distinct[Count],
    rows: Count,
    directions: Count,
    samples: Count,
    method: Annotated[str, one_of(METHODS)],
    seed: Seed,
) -> pd.DataFrame:
    """One row a mutant, check and number of units that the check draws (elements of each gradient, or rows).

    caught_samples: in how many of the samples the mutant is caught; wrong_share: of the elements of its worst
    gradient, those off by more than the tolerance; expected_share: of the samples of elements, those
    that hold one such element, by counting.
    """
    at = _setting(shape, method, seed)
    said = {
        name: gradients(kernel(name).forward, kernel(name).backward, at.point, EPS)
        for name in (CORRECT, *MUTANTS, *LOCAL)
    }
    limits = compare.tolerances(at)
    wrong = {name: _wrong(found, said[CORRECT], limits) for name, found in said.items()}
    records: list[dict[str, Any]] = []
    counts = [*((ELEMENTS, count) for count in elements), (ROWS, rows)]
    for check, count in tqdm(counts, desc="spot_check", mininterval=1):
        seen = [
            _caught(check, at, count, directions, np.random.default_rng([seed, sample]), said)
            for sample in range(samples)
        ]
        for name in said:
            key = {"mutant": name, "local": name in LOCAL, "check": check, "drawn": count}
            caught = sum(name in names for names in seen)
            records.append(key | _judged(caught, samples, wrong[name], check, count))
    return table(records, "spot_check")


def _setting(shape: Shape, method: str, seed: int) -> compare.Setting:
    way = METHODS[method]
    outputs = compare.outputs(kernel(CORRECT).forward, EPS, way)
    return compare.Setting(outputs, adequate(shape, EPS, seed, "float64"), EPS, way, None)


def _caught(
    check: str,
    at: compare.Setting,
    count: int,
    directions: int,
    rng: np.random.Generator,
    said: dict[str, Gradients],
) -> set[str]:
    """The mutants whose gradients one sample shows to be wrong; its differences are made once for all."""
    if check == ELEMENTS:
        spots, moves = compare.some_elements(at, count, rng), []
    else:
        spots, moves = [compare.some_rows(at, count, rng)], compare.random_directions(at, directions, rng)
    return {
        name
        for name, found in said.items()
        if any(
            part.failed.any()
            for part in compare.with_spots(spots, found) + compare.with_directions(at, moves, found)
        )
    }


def _wrong(found: Gradients, right: Gradients, limits: Gradients) -> list[tuple[int, int]]:
    """Of each gradient, how many elements are off by more than the tolerance, and how many it has."""
    parts = zip(found, right, limits, strict=True)
    off = [np.abs(values(one) - values(other)) > np.asarray(limit)[..., None] for one, other, limit in parts]
    return [(int(part.sum()), part.size) for part in off]


def _judged(
    caught: int, samples: int, wrong: list[tuple[int, int]], check: str, count: int
) -> dict[str, Any]:
    missed = [comb(size - few, many) / comb(size, many) for few, size in wrong if (many := min(count, size))]
    return {
        "caught": caught == samples,
        "caught_samples": caught,
        "samples": samples,
        "wrong_share": max(few / size for few, size in wrong),
        "expected_share": 1 - float(np.prod(missed)) if check == ELEMENTS else np.nan,
    }
