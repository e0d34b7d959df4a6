"""Argument types of the GPU experiments: like `_arguments`, but usable without pydantic."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Annotated, Any, NamedTuple, TypeVar

from layernorm_backward.gpu.variants import VARIANTS
from layernorm_backward.peers_on_gpu import PEERS
from layernorm_backward.storage.yamlfile import REFUSED

Item = TypeVar("Item")


class Allowed(NamedTuple):
    """The condition on a value, and its text for error messages."""

    holds: Callable[[Any], bool]
    said: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The same check for pydantic, after its own check of the type."""
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: Any) -> Any:
            if not self.holds(value):
                found = {"found": repr(value), "said": self.said}
                raise PydanticCustomError(REFUSED, "{found}; allowed: {said}", found)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


def _whole(least: int) -> Allowed:
    return Allowed(lambda it: type(it) is int and it >= least, f"whole numbers, at least {least}")


def _number(holds: Callable[[float], bool], said: str) -> Allowed:
    return Allowed(lambda it: type(it) in (int, float) and holds(it), f"numbers, {said}")


def _among(names: Iterable[str]) -> Allowed:
    return Allowed(lambda it: it in names, ", ".join(names))


def _each_once(entries: list[Any]) -> bool:
    return all(entry not in entries[:number] for number, entry in enumerate(entries))


Count = Annotated[int, _whole(1)]
Seed = Annotated[int, _whole(0)]
Seconds = Annotated[float, _number(lambda it: 0 <= it < inf, "at least 0")]
Positive = Annotated[float, _number(lambda it: 0 < it < inf, "above 0")]
Share = Annotated[float, _number(lambda it: 0 < it <= 1, "above 0, at most 1")]
Kappa = Annotated[float, _number(lambda it: 1 <= it < inf, "at least 1")]
Distinct = Annotated[list[Item], Allowed(_each_once, "each entry once")]  # none, too
Several = Annotated[
    list[Item], Allowed(lambda it: bool(it) and _each_once(it), "one entry or more, each once")
]
Peers = Distinct[Annotated[str, _among(PEERS)]]
Variants = Distinct[Annotated[str, _among(VARIANTS)]]
