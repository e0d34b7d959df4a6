"""Faults in the source files of the paper that can be found before anything is measured."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import jinja2
from jinja2 import nodes

from layernorm_backward.paper import attempts, claims, literals, numbers
from layernorm_backward.paper.context import Names, UnknownName
from layernorm_backward.paper.render import environment, read

PAPER = Path("paper")
TEMPLATE = "paper.md.j2"
_Content = TypeVar("_Content")


def faults(folder: Path = PAPER) -> list[str]:
    """Faults of claims, numbers, attempts and template in a folder, each with its file; all at once."""
    claimed, first = _loaded(claims.load, folder / "claims.yaml")
    numbered, more = _loaded(numbers.load, folder / "numbers.yaml")
    _, others = _loaded(attempts.read, folder / "attempts.csv")
    known = {}
    if claimed is not None:
        known["judged"] = Names("claim", {claim.id: claim for claim in claimed})
    if numbered is not None:
        known["n"] = Names("number", numbered)
    template, unread = _loaded(read, folder / TEMPLATE)
    wrong = [] if template is None else _in_template(template, folder / TEMPLATE, known)
    return [*first, *more, *others, *unread, *wrong]


def _loaded(load: Callable[[Path], _Content], path: Path) -> tuple[_Content | None, list[str]]:
    """What a file holds, or None and its faults."""
    try:
        return load(path), []
    except OSError as error:
        return None, [f"{path}: {error.strerror}"]
    except ValueError as error:
        return None, str(error).splitlines()


def _in_template(source: str, path: Path, known: Mapping[str, Names]) -> list[str]:
    """Syntax errors; if there are none, numbers typed by hand and names that a mapping in `known` lacks."""
    if not source.strip():
        return [f"{path}: there is no text in it"]
    jinja = environment(path.parent)
    try:
        typed = literals.message(literals.find(source, jinja), str(path)).splitlines()
        unknown = [f"{path}:{line}: {said}" for line, said in _unknown(jinja.parse(source), known)]
    except jinja2.TemplateSyntaxError as error:
        return [f"{path}:{error.lineno}: {error.message}"]
    return [*typed, *unknown]


def _unknown(tree: nodes.Template, known: Mapping[str, Names]) -> Iterator[tuple[int, str]]:
    """The line of each unknown name, and a message with similar names."""
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        of = node.node.name if isinstance(node.node, nodes.Name) else ""
        entry = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if of in known and entry is not None:
            try:
                known[of][entry]
            except UnknownName as error:
                yield node.lineno, str(error)
