"""The predicates that claims.yaml names: functions from measured rows to a `Judgement`.

A predicate's parameters are the stems of the tables it reads, the claim's own numbers, and `tolerance`.
One module a subject; every public function of a module that returns a Judgement is a predicate.
"""

from collections.abc import Callable
from types import ModuleType

from layernorm_backward.paper.predicates import (
    accuracy,
    checking,
    gpu,
    gradients,
    growth,
    limits,
    saved,
    speed,
    traffic,
    variance,
)
from layernorm_backward.paper.predicates.judgement import Judgement

Predicate = Callable[..., Judgement]


def _of(module: ModuleType) -> dict[str, Predicate]:
    own = {name: it for name, it in vars(module).items() if getattr(it, "__module__", "") == module.__name__}
    return {name: it for name, it in own.items() if it.__annotations__.get("return") is Judgement}


_MODULES = (accuracy, checking, gpu, gradients, growth, limits, saved, speed, traffic, variance)
PREDICATES: dict[str, Predicate] = {name: it for module in _MODULES for name, it in _of(module).items()}
