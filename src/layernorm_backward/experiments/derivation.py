"""Every derivation of the gradients against the exact one, and SymPy's proofs."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from layernorm_backward import inputs
from layernorm_backward.derivations.exact import MOST_BITS, PRODUCT_BITS, Balls, balls, radius, rel_error
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.derivations.registry import DERIVATIONS
from layernorm_backward.derivations.symbolic import LARGEST, prove
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Eps,
    Names,
    Seed,
    Several,
    Shape,
    each_of,
)
from layernorm_backward.records.tabulate import table

QUANTITIES = Gradients._fields
UNPROVED = "SymPy does not show that the derivative is its formula"


def run(
    *,
    derivations: Annotated[Names, each_of(DERIVATIONS)],
    shapes: Several[Shape],
    gamma_kinds: Several[inputs.GammaKind],
    prove_hidden: Distinct[Annotated[Count, Field(le=LARGEST)]],
    eps: Eps,
    precision_bits: Annotated[int, Field(ge=PRODUCT_BITS, le=MOST_BITS)],
    seed: Seed,
) -> pd.DataFrame:
    """One row per derivation, shape, kind of gamma and gradient.

    rel_error is the 2-norm of the error over that of the exact gradient, certified; for `exact` itself it
    is the certified radius. `proved` is true in rows of `symbolic` whose D is in `prove_hidden`; where a
    proof fails, a row's reason says so. dy is N(1,1): with a zero mean a wrong mean(g) would hardly show.
    """
    proofs = {hidden: prove(hidden) for hidden in tqdm(prove_hidden, desc="derivation proofs", mininterval=1)}
    cells = [(shape, kind) for shape in shapes for kind in gamma_kinds]
    rows: list[dict[str, Any]] = []
    for shape, kind in tqdm(cells, desc="derivation", mininterval=1):
        point = _point(shape, kind, seed)
        truth = balls(*point, eps, bits=precision_bits)
        cell = {"shape": "x".join(map(str, shape)), "gamma_kind": kind}
        for name in derivations:
            for row in _judge(name, point, eps, truth):
                proved = proofs.get(shape[-1], {}).get(row["quantity"]) if name == "symbolic" else None
                told = {"reason": UNPROVED} if proved is False else {}
                rows.append({"derivation": name} | cell | row | told | {"proved": bool(proved)})
    return table(rows, "derivation")


def _point(shape: tuple[int, int, int], gamma_kind: str, seed: int) -> tuple[NDArray[np.float64], ...]:
    """x, gamma, beta, dy in float64."""
    *leading, hidden = shape
    rng = inputs.generator(seed, *shape)
    x = inputs.rows(rng, math.prod(leading), hidden, np.float64).reshape(shape)
    dy = inputs.upstream(rng, "shifted", x)
    beta = inputs.beta(rng, hidden, np.float64)
    return x, inputs.gamma(rng, gamma_kind, hidden, np.float64), beta, dy


def _judge(name: str, point: tuple[NDArray, ...], eps: float, truth: Balls) -> Iterator[dict[str, Any]]:
    try:
        found = DERIVATIONS[name](*point, eps)
    except ValueError as error:
        for quantity in QUANTITIES:
            yield {"quantity": quantity, "reason": str(error)}
        return
    for quantity, values, exact in zip(QUANTITIES, found, truth, strict=True):
        error = radius(exact) if name == "exact" else rel_error(values, exact)
        yield {"quantity": quantity, "rel_error": error}
