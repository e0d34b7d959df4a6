"""Each cell of a timed table has an order of calls of its own: in one for all, who follows whom is a bias."""

from importlib import import_module

import pytest

from layernorm_backward import stopwatch
from layernorm_backward.studies import config
from workspace import ROOT

TIMED = (
    "stores",
    "page_offset",
    "roof_steps",
    "handover",
    "ceiling_cpu",
    "variance_time",
    "scaling_points",
    "kernel_costs",
)


@pytest.mark.parametrize("stem", [*TIMED, "spells", "timing_cpu"])
def test_no_two_cells_of_the_same_calls_share_their_order(stem, monkeypatch):
    experiment, seen, honest = import_module(f"layernorm_backward.experiments.{stem}"), [], stopwatch.compare

    def noted(calls, **how):
        seen.append((how["seed"], tuple(calls)))
        return honest(calls, **how)

    monkeypatch.setattr(stopwatch, "compare", noted)
    values = config.load(ROOT / f"config/smoke/{stem}.yaml", experiment.run)
    experiment.run(**values)
    of_cells = [one for one in seen if len(one[1]) > 1]
    assert of_cells and len(set(of_cells)) == len(of_cells)
