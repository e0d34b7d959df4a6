"""A config file is the keyword arguments of its experiment's `run`, checked against its signature."""

import inspect
import json
import typing
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from layernorm_backward import yamlfile
from layernorm_backward.kernels import KERNELS


class ConfigError(ValueError):
    """A config file that cannot be used; the message names file, key and what is allowed."""


def load(path: Path, run: Callable[..., Any], needs: Collection[str] = ()) -> dict[str, Any]:
    """The keyword arguments in a YAML file for `run`, less the tables in `needs`.

    Raises ConfigError for a file that is missing or no YAML mapping, for unknown or missing keys, for
    values that do not fit the annotation of their parameter (nothing is converted but int to float and
    list to tuple), and for names under `kernels` that no kernel has.
    """
    values = _mapping(path)
    hints = typing.get_type_hints(run, include_extras=True)
    names = [name for name in inspect.signature(run).parameters if name not in needs]
    fields = {name: (hints[name], ...) for name in names}
    model = create_model("Config", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    try:
        checked = model.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError(yamlfile.faults(path, error, names)) from None
    arguments = {name: getattr(checked, name) for name in names}
    _check_kernels(path, arguments.get("kernels", ()))
    return arguments


def _mapping(path: Path) -> dict[str, Any]:
    try:
        values = yamlfile.load(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys and values, holds {type(values).__name__}")
    return values


def _check_kernels(path: Path, names: Collection[str]) -> None:
    unknown = [name for name in names if name not in KERNELS]
    if unknown:
        raise ConfigError(f"{path}: kernels: unknown kernel {unknown[0]!r}; allowed: {', '.join(KERNELS)}")
