"""The steps of each kernel and scheme, as the traffic model lists them: what the fusion drawing shows."""

import pandas as pd

from layernorm_backward.experiments._arguments import Names
from layernorm_backward.experiments._known import require_known
from layernorm_backward.tabulate import table
from layernorm_backward.traffic import MODELS


def run(*, kernels: Names, schemes: Names) -> pd.DataFrame:
    """One row a step; numbers are per element of x."""
    require_known("kernels or schemes", kernels + schemes, MODELS)
    return table(
        [
            {"kernel": name, "direction": direction, "step": number} | step._asdict()
            for name in kernels + schemes
            for direction, steps in MODELS[name].items()
            for number, step in enumerate(steps, 1)
        ],
        "traffic_steps",
    )
