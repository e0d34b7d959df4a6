"""Every kernel in every edge case (`layernorm_backward.edge_cases`): zeros, offsets, one row, none, NaN."""

from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward.dtypes import DtypeName
from layernorm_backward.edge_cases import CASES, Outcome, Trial, outcome, posed
from layernorm_backward.experiments._arguments import Eps, Positive, RunnableKernels, Seed, Several
from layernorm_backward.kernels import KERNELS
from layernorm_backward.problem import copied
from layernorm_backward.records.tabulate import table
from layernorm_backward.untrusted.fitting import fitting
from layernorm_backward.untrusted.raised import FAILURES, told


def run(
    *, kernels: RunnableKernels, dtypes: Several[DtypeName], eps: Eps, limit_u: Positive, seed: Seed
) -> pd.DataFrame:
    """One row per kernel, case and dtype; `reason` says what was checked."""
    chosen = [fitting(KERNELS[name]) for name in kernels]
    records: list[dict[str, Any]] = []
    for dtype in tqdm(dtypes, desc="edge_cases", mininterval=1):
        for case in CASES:
            problem, exact = posed(case, dtype, eps, seed)
            for kernel in chosen:
                found = _outcome(case, Trial(kernel, copied(problem), exact, eps, limit_u))
                records.append({"kernel": kernel.name, "case": case, "dtype": dtype} | found._asdict())
    return table(records, "edge_cases")


def _outcome(case: str, trial: Trial) -> Outcome:
    """Failed where the kernel raises, or returns what does not fit."""
    try:
        return outcome(case, trial)
    except FAILURES as error:
        return Outcome(False, np.inf, f"{CASES[case].what}: {told(error)}")
