"""The predicates that claims.yaml names: functions from measured rows to a `Judgement`.

A predicate takes the tables that it reads, each named by its stem (the table `tolerance` as
`tolerance_table`), the claim's own numbers, and `tolerance`.
There is one module per subject. Every public function in it that returns a Judgement is a predicate.
"""

from collections.abc import Callable
from types import ModuleType

from layernorm_backward.paper.predicates import (  # noqa: F401, found by `_MODULES`
    accuracy,
    audits,
    cells,
    checking,
    decisions,
    forms,
    goals,
    gpu,
    gradients,
    growth,
    judgement,
    limits,
    mean_path,
    mutants,
    placement,
    representation,
    saved,
    saving,
    slopes,
    speed,
    spells,
    steps,
    stores,
    summation,
    tolerances,
    traffic,
    trained,
    variance,
)
from layernorm_backward.paper.predicates.judgement import Judgement

Predicate = Callable[..., Judgement]


def _of(module: ModuleType) -> dict[str, Predicate]:
    own = {name: it for name, it in vars(module).items() if getattr(it, "__module__", "") == module.__name__}
    public = {name: it for name, it in own.items() if not name.startswith("_")}
    return {name: it for name, it in public.items() if it.__annotations__.get("return") is Judgement}


_SHARED = (cells, forms, judgement)
_MODULES = [it for it in vars().values() if isinstance(it, ModuleType) and it not in _SHARED]
PREDICATES: dict[str, Predicate] = {name: it for module in _MODULES for name, it in _of(module).items()}
