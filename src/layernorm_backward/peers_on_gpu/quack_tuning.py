"""Tuning of the launch parameters of QuACK's kernels on the device, starting from QuACK's own rule.

Its autotuner would compile and time all its configurations, 75 for a forward pass and 400 for a backward pass
(0.6.5). Here it is given those that differ from the rule's choice in one parameter, then those that differ in
one parameter from the fastest of these, and so on.
"""

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

ROUNDS = 3
BENCH_MS = {"warmup": 5, "rep": 25}  # per configuration
THREADS = ("num_threads", "threads_per_row")  # count as one parameter: not all combinations are valid
_FOUND: dict[tuple[Any, ...], Any] = {}


def tuned(entry: Any, rule: Any, arguments: dict[str, Any]) -> tuple[Callable[[], None], str]:
    """An autotuned function of QuACK with its fastest parameters for these arguments, and a note on them."""
    tensors = [(one.shape, one.dtype) for one in arguments.values() if hasattr(one, "dtype")]
    key = (entry.fn.__name__, *tensors)
    if key not in _FOUND:
        _FOUND[key] = _descend(entry, rule, arguments)
    config = _FOUND[key]
    return partial(entry.fn, **arguments, config=config), f"{entry.fn.__name__} tuned near its rule: {config}"


def near(config: Any, space: list[Any]) -> list[Any]:
    """The configuration, a dataclass, and those of the space that differ from it in one parameter."""
    return [config, *(one for one in space if _differing(config, one) == 1)]


def _differing(one: Any, other: Any) -> int:
    found = [name for name, value in asdict(one).items() if getattr(other, name) != value]
    return len({THREADS if name in THREADS else name for name in found})


def _descend(entry: Any, rule: Any, arguments: dict[str, Any]) -> Any:
    space, best = [one.kwargs["config"] for one in entry.configs], rule
    for _ in range(ROUNDS):
        found = _fastest(entry, near(best, space), arguments)
        if found == best:
            break
        best = found
    return best


def _fastest(entry: Any, choices: list[Any], arguments: dict[str, Any]) -> Any:
    """By QuACK's autotuner: compiled in other processes, timed with other data in the L2 cache."""
    from quack.autotuner import AutotuneConfig, Autotuner
    from triton.testing import do_bench

    os.environ.setdefault("QUACK_COMPILE_WORKERS", str(len(os.sched_getaffinity(0))))
    tuner = Autotuner(
        entry.fn,
        entry.keys,
        [AutotuneConfig(config=one) for one in choices],
        prune_configs_by={"early_config_prune": entry.early_config_prune},
        do_bench=partial(do_bench, **BENCH_MS),
    )
    tuner(**arguments)
    return tuner.best_config.kwargs["config"]
