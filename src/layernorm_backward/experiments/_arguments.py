"""Types of the arguments of `run`, with the conditions on config values that pydantic checks."""

from collections.abc import Collection
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from layernorm_backward.dtypes import DtypeName
from layernorm_backward.kernels import KERNELS, missing
from layernorm_backward.storage.yamlfile import REFUSED

Item = TypeVar("Item")


def _each_once(entries: list[Any]) -> list[Any]:
    for number, entry in enumerate(entries):
        if entry in entries[:number]:
            raise PydanticCustomError(REFUSED, "{entry} stands twice; allowed: once", {"entry": repr(entry)})
    return entries


def _each_above(entries: list[Any]) -> list[Any]:
    for before, entry in pairwise(entries):
        if not before < entry:
            said = {"entry": entry, "before": before}
            raise PydanticCustomError(
                REFUSED, "{entry} after {before}; allowed: each above the one before", said
            )
    return entries


def _here(names: list[str]) -> list[str]:
    """Refuses kernels that cannot run here; unknown names are left to `config`."""
    for name in names:
        reason = missing(KERNELS[name]) if name in KERNELS else ""
        if reason:
            said = {"name": repr(name), "reason": reason}
            raise PydanticCustomError(REFUSED, "kernel {name} cannot run here: {reason}", said)
    return names


def _within(count: int, info: ValidationInfo) -> int:
    """Refuses fewer repetitions than `rounds`, or more than `repeats`; both arguments come before it."""
    for before, allowed, holds in (
        ("rounds", "{limit} or more", int.__ge__),
        ("repeats", "up to {limit}", int.__le__),
    ):
        limit = info.data.get(before)
        if limit is not None and not holds(count, limit):
            said = {"count": count, "limit": limit, "before": before}
            raise PydanticCustomError(REFUSED, "{count}; allowed: " + allowed + ", the {before}", said)
    return count


Count = Annotated[int, Field(ge=1)]
AtLeast = Annotated[Count, AfterValidator(_within)]  # repetitions that run whatever time they take
Whole = Annotated[int, Field(ge=0)]
Seed = Whole
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = NotNegative
Eps = Positive
Share = Annotated[float, Field(gt=0, lt=1)]
Kappa = Annotated[float, Field(ge=1, allow_inf_nan=False)]  # sqrt(1 + (mean/std)^2)

Distinct = Annotated[list[Item], AfterValidator(_each_once)]  # may be empty
Several = Annotated[list[Item], Field(min_length=1), AfterValidator(_each_once)]
Rising = Annotated[list[Item], Field(min_length=1), AfterValidator(_each_above)]
Listed = Annotated[list[Item], Field(min_length=1)]  # entries may repeat
Named = Annotated[dict[str, Item], Field(min_length=1)]
ByDtype = Annotated[dict[DtypeName, Item], Field(min_length=1)]

Names = Several[str]
RunnableKernels = Annotated[Names, AfterValidator(_here)]
Threads = Several[Count | Literal["all"]]
WorkingSet = Count | Literal["beyond_cache", "in_cache"]  # bytes
Shape = tuple[Count, Count, Count]


Allowed = Collection[str] | str  # names, or the argument before this one that holds them


def each_of(allowed: Allowed) -> AfterValidator:
    """For a list of names: all must be among the allowed ones."""

    def check(names: list[str], info: ValidationInfo) -> list[str]:
        _require(names, _names(allowed, info), "")
        return names

    return AfterValidator(check)


def one_of(allowed: Collection[str]) -> AfterValidator:
    """For a name: it must be among the allowed ones."""

    def check(name: str) -> str:
        _require([name], allowed, "")
        return name

    return AfterValidator(check)


def one_for_each_of(before: str) -> AfterValidator:
    """For a list: it must be as long as the argument `before`, which comes before it."""

    def check(entries: list[Any], info: ValidationInfo) -> list[Any]:
        wanted = info.data.get(before)  # None where that argument is invalid
        if wanted is not None and len(entries) != len(wanted):
            said = {"found": len(entries), "wanted": len(wanted), "before": before}
            wish = "{found} entries; allowed: {wanted}, one for each of {before}"
            raise PydanticCustomError(REFUSED, wish, said)
        return entries

    return AfterValidator(check)


def sets_of(allowed: Allowed) -> AfterValidator:
    """For sets by name: all names under their key `kernels` must be among the allowed ones."""

    def check(sets: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for name, one in sets.items():
            _require(one["kernels"], _names(allowed, info), f"{name}: kernels: ")
        return sets

    return AfterValidator(check)


def _names(allowed: Allowed, info: ValidationInfo) -> Collection[str] | None:
    """The allowed names; None where the argument that holds them is invalid."""
    return info.data.get(allowed) if isinstance(allowed, str) else allowed


def _require(names: list[str], allowed: Collection[str] | None, where: str) -> None:
    for name in names:
        if allowed is not None and name not in allowed:
            said = {"where": where, "name": repr(name), "allowed": ", ".join(allowed)}
            raise PydanticCustomError(REFUSED, "{where}unknown {name}; allowed: {allowed}", said)
