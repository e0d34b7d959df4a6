"""A config file is the keyword arguments of its experiment's `run`, checked against its signature."""

import inspect
import typing
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError, create_model


class ConfigError(ValueError):
    """A config file that cannot be used; the message names file, key and what is allowed."""


def load(path: Path, run: Callable[..., Any], needs: Collection[str] = ()) -> dict[str, Any]:
    """The keyword arguments in a YAML file for `run`, less the tables in `needs`.

    Raises ConfigError for a file that is missing or no YAML mapping, for unknown or missing keys and
    for values that do not fit the annotation of their parameter.
    """
    values = _mapping(path)
    hints = typing.get_type_hints(run)
    names = [name for name in inspect.signature(run).parameters if name not in needs]
    fields = {name: (hints[name], ...) for name in names}
    model = create_model("Config", __config__=ConfigDict(extra="forbid", strict=False), **fields)
    try:
        checked = model(**values)
    except ValidationError as error:
        raise ConfigError(_explain(path, error, names)) from None
    return {name: getattr(checked, name) for name in names}


def _mapping(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ConfigError(f"{path}: there is no such config file")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys and values, holds {type(values).__name__}")
    return values


def _explain(path: Path, error: ValidationError, names: list[str]) -> str:
    return "\n".join(_line(path, detail, names) for detail in error.errors())


def _line(path: Path, detail: Any, names: list[str]) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{path}: {key}: unknown key; allowed: {', '.join(names)}"
    if detail["type"] == "missing":
        return f"{path}: {key}: the key is missing; needed: {', '.join(names)}"
    return f"{path}: {key}: {detail['msg']}, found {detail['input']!r}"
