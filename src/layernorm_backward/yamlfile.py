"""YAML as people expect it: 1e-5 is a number (in YAML 1.1 it is text), and a key stands once."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:  # a campaign on a GPU runs without pydantic
    from pydantic import ValidationError


def load(path: Path) -> Any:
    """The content of a YAML file; ValueError names the file, and the line where there is one."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise ValueError(f"{path}: line {line}: not valid YAML: {error.problem}") from None


def faults(path: Path, error: "ValidationError", allowed: Collection[str]) -> str:
    """One line for each fault that pydantic found: file, key, what is wrong and what is allowed."""
    return "\n".join(_fault(path, detail, allowed) for detail in error.errors())


def _fault(path: Path, detail: Any, allowed: Collection[str]) -> str:
    where = f"{path}: {'.'.join(str(part) for part in detail['loc'])}"
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key; allowed: {', '.join(allowed)}"
    if detail["type"] == "missing" and len(detail["loc"]) == 1:
        return f"{where}: the key is missing; needed: {', '.join(allowed)}"
    return f"{where}: {detail['msg']}, found {detail['input']!r}"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the floats of YAML 1.2 and without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
