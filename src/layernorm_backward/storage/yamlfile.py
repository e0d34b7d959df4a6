"""YAML in which 1e-5 is a number (in YAML 1.1 it is text), and a duplicate key is an error."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:  # a campaign on a GPU runs without pydantic
    from pydantic import ValidationError

KeysAt = Callable[[Sequence[int | str]], Collection[str]]  # the keys that are allowed at a location in a file
REFUSED = "refused"  # the type of our own errors, whose message says what was found and what is allowed
_KEYS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "merge"))
_ALTERNATIVE = re.compile(r"constrained-|[\w-]+\[.*\]$")  # pydantic's name for one of several types


def load(path: Path) -> Any:
    """The content of a YAML file; ValueError names the file, and the line where there is one."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; allowed: a YAML file")
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error}") from None
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {_where(error, text)}not valid YAML: {_why(error)}") from None


def _where(error: Exception, text: str) -> str:
    """The line of an error, where it is known."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"line {text.count(chr(10), 0, error.position) + 1}: "
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}: " if mark else ""


def _why(error: Exception) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"the character {chr(error.character)!r} is not allowed in it"
    return getattr(error, "problem", None) or str(error)


def faults(
    path: Path,
    error: "ValidationError",
    allowed: Collection[str] | KeysAt,
    values: Any = None,
) -> str:
    """One line for each fault that pydantic found: file, key, what is wrong and what is allowed.

    allowed: the keys, or a function from a location to its keys where these differ; values: the content of
    the file, which distinguishes its keys from pydantic's names for one of several types.
    """
    keys_at = allowed if callable(allowed) else lambda place: allowed
    details = [(detail, _named(detail, values)) for detail in error.errors()]
    return "\n".join(_fault(path, detail, named, keys_at) for detail, named in _meant(details))


def _named(detail: Any, values: Any) -> list[str | int]:
    """The keys and indices of a fault's location, without pydantic's names of alternatives."""
    *place, last = detail["loc"] or ("",)
    found = []
    for part in place:
        if _holds(values, part):
            values = values[part]
            found.append(part)
        elif values is None and not _ALTERNATIVE.match(str(part)):
            found.append(part)
    known = detail["type"] == "missing" or values is None or _holds(values, last)
    return [*found, last] if known and not _ALTERNATIVE.match(str(last)) else found


def _holds(values: Any, part: str | int) -> bool:
    return part in values if isinstance(values, dict) else isinstance(values, list) and isinstance(part, int)


def _meant(details: list[tuple[Any, list[str | int]]]) -> list[tuple[Any, list[str | int]]]:
    """All faults except those of alternatives of another type than the value, if one has the value's type."""
    fits = [
        detail["loc"]
        for detail, named in details
        if named[-1:] == [*detail["loc"][-1:]] or not _unlike(detail)
    ]
    return [
        (detail, named)
        for detail, named in details
        if detail["loc"] in fits
        or not any(loc[: len(detail["loc"]) - 1] == detail["loc"][:-1] for loc in fits)
    ]


def _unlike(detail: Any) -> bool:
    """Whether a value is not of an alternative's type: a list instead of a number, for example."""
    kind = detail["type"]
    return kind.endswith("_type") or (kind == "literal_error" and not isinstance(detail["input"], str))


def _fault(path: Path, detail: Any, named: Sequence[str | int], keys_at: KeysAt) -> str:
    *place, _ = detail["loc"] or ("",)
    keys = keys_at(place)
    where = f"{path}: {'.'.join(map(str, named))}"
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key" + (f"; allowed: {', '.join(keys)}" if keys else "")
    if detail["type"] == "missing" and not place:
        return f"{where}: the key is missing; needed: {', '.join(keys)}"
    if detail["type"] == REFUSED:
        return f"{where}: {detail['msg']}"
    return f"{where}: {detail['msg']}, found {detail['input']!r}"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the floats of YAML 1.2 and without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                raise _fault_at(key, "a key must be a word or a number")
            if key.value in seen:
                raise _fault_at(key, f"the key {key.value!r} stands twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _fault_at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
