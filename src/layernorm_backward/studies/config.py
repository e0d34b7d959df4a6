"""A config file is the keyword arguments of its experiment's `run`, checked against its signature."""

import inspect
import json
import typing
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model
from typing_extensions import is_typeddict

from layernorm_backward.kernels import KERNELS
from layernorm_backward.storage import yamlfile
from layernorm_backward.studies import per_dtype


class ConfigError(ValueError):
    """A config file that cannot be used; the message names file, key and what is allowed."""


def load(path: Path, run: Callable[..., Any], needs: Collection[str] = ()) -> dict[str, Any]:
    """The keyword arguments in a YAML file for `run`, less the tables in `needs`.

    Raises ConfigError for a file that is missing or no YAML mapping, for unknown or missing keys, for
    values that do not fit the annotation of their parameter (nothing is converted but int to float and
    list to tuple), for a dtype that a key with a value for each dtype lacks (`per_dtype`), and for names
    under `kernels` that no kernel has. ValueError for a `run` whose argument has no type, or that takes no
    table in `needs`.
    """
    values = _mapping(path)
    hints = typing.get_type_hints(run, include_extras=True)
    _require_signature(run, hints, needs)
    names = [name for name in inspect.signature(run).parameters if name not in needs]
    fields = {name: (hints[name], ...) for name in names}
    model = create_model("Config", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    needed = {name: hints[name] for name in names}
    text = _json(path, values)
    try:
        checked = model.model_validate_json(text)
    except ValidationError as error:
        said = yamlfile.faults(path, error, partial(_keys, needed), json.loads(text))
        raise ConfigError(said) from None
    if lacking := per_dtype.lacking(values):
        raise ConfigError("\n".join(f"{path}: {fault}" for fault in lacking))
    arguments = {name: getattr(checked, name) for name in names}
    _check_kernels(path, arguments.get("kernels", ()))
    return arguments


def _require_signature(run: Callable[..., Any], hints: Collection[str], needs: Collection[str]) -> None:
    taken = inspect.signature(run).parameters
    where = f"{run.__module__}.{run.__name__}"
    for name in needs:
        if name not in taken:
            raise ValueError(f"{where}: no argument {name}; needed: one for each table in NEEDS")
    for name in taken:
        if name not in hints:
            raise ValueError(f"{where}: the argument {name} has no type; needed: what a config file may hold")


def _mapping(path: Path) -> dict[str, Any]:
    try:
        values = yamlfile.load(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys and values, holds {type(values).__name__}")
    return values


def _json(path: Path, values: dict[str, Any]) -> str:
    try:
        return json.dumps(values, default=str)
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: holds a value that holds itself") from None


def _keys(hint: Any, place: Sequence[int | str]) -> Collection[str]:
    """The keys that a value of this type may have at a place within it; none where they are not known."""
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if is_typeddict(hint):
        hint = typing.get_type_hints(hint, include_extras=True)
    if not place:
        return list(hint) if isinstance(hint, dict) else []
    first, *rest = place
    if isinstance(hint, dict):
        return _keys(hint.get(first), rest)
    parts = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, UnionType):  # pydantic names the one it means
        parts = [part for part in parts if getattr(part, "__name__", "") == first]
    return _keys(parts[-1], rest) if parts else []


def _check_kernels(path: Path, names: Collection[str]) -> None:
    unknown = [name for name in names if name not in KERNELS]
    if unknown:
        raise ConfigError(f"{path}: kernels: unknown kernel {unknown[0]!r}; allowed: {', '.join(KERNELS)}")
