"""Claims about the steps between the roof and numba_fused: table roof_steps."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import Judgement, number, over, pick, span, verdict

PASS = "pass"


def accesses_bind(roof_steps: pd.DataFrame, *, tolerance: float) -> Judgement:
    """In every cell the pass takes at most the share `tolerance` longer than a loop with the same accesses
    and no arithmetic; corrected where it does in the median cell."""
    added = pick(roof_steps, "added", step=PASS)
    good = added <= 1 + tolerance
    return Judgement(
        verdict(bool(good.all()), bool(added.median() <= 1 + tolerance)),
        f"{span(added)} times the time of the last step, median {number(added.median())}",
        over(roof_steps, "direction", "dtype", "hidden", "threads", "working_set"),
        f"{int(good.sum())} of {len(good)} cells stay within {number(100 * tolerance)} %",
    )
