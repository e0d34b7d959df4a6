"""The steps of each kernel and scheme, as the traffic model lists them: what the fusion drawing shows."""

from typing import Annotated

import pandas as pd

from layernorm_backward.experiments._arguments import Distinct, Names, each_of
from layernorm_backward.records.tabulate import table
from layernorm_backward.traffic import MODELS
from layernorm_backward.traffic.schemes import SCHEMES


def run(
    *, kernels: Annotated[Names, each_of(MODELS)], schemes: Annotated[Distinct[str], each_of(SCHEMES)]
) -> pd.DataFrame:
    """One row per step; numbers are per element of x."""
    return table(
        [
            {"kernel": name, "direction": direction, "step": number} | step._asdict()
            for name in kernels + schemes
            for direction, steps in MODELS[name].items()
            for number, step in enumerate(steps, 1)
        ],
        "traffic_steps",
    )
