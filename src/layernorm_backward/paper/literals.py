"""Finds numbers typed by hand in the template of the paper: each must be measured, or marked as a constant.

In prose, headings, captions, tables and the front matter, every run of digits counts unless it belongs to a
name. Names begin with a letter (float32, Qwen3.6-27B) or have the form of 16-bit or 2-norm.
In math, integers below 10 (small factors) are allowed, and all integers in an exponent or index, except in a
power of ten. Larger integers, decimals and powers of ten (scientific notation) are refused: 1024, 5.04,
10^{-11}.

Ignored are `<< >>`, `<% %>` and `<# #>`, code, citation and reference keys, attribute blocks, link targets,
list markers, footnote marks, lengths such as [4pt], and HTML comments. But an expression that is only a
literal, as in `<< 5.04 >>` or `<% set x = 5.04 %>`, counts as typed by hand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import jinja2
from jinja2 import nodes

_SKIPPED = (
    r"<#.*?#>",
    r"<<.*?>>",
    r"<%.*?%>",
    r"<!--.*?-->",
    r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$",
    r"(?P<tick>`+)(?!`).*?(?<!`)(?P=tick)(?!`)",
    r"(?<=\])\([^()\s]*\)",
    r"https?://[^\s>)\]]+",
    r"(?<=[\s\]`)$])\{[#.][^{}\n]*\}|(?<=[\])])\{[^{}\n]*\}",
    r"-?@[A-Za-z][\w:.#$%&+?~/-]*",
    r"\[\^[^\]\s]+\]",
    r"^[ \t]*\d+[.)](?=[ \t])",
    r"\[?-?\d*\.?\d+(?:pt|em|ex|mm|cm)\b\]?",
)
_SKIP = re.compile("|".join(_SKIPPED), re.DOTALL | re.MULTILINE)
_MATH = re.compile(
    r"(?<!\\)\$\$(?P<display>.+?)\$\$"
    r"|(?<![\\$])\$(?P<inline>[^$\s](?:[^$]*?[^$\s])?)\$(?!\d)",
    re.DOTALL,
)
_STRUCTURE = re.compile(
    r"\\[dt]?frac\s*\d\d|\\[A-Za-z]+|[A-Za-z][A-Za-z]+\d+"
    r"|(?<!10)(?<!10\})[\^_](?:\{(?:[^{}.]|\.(?!\d))*\}|\w)"
)
_MATH_NUMBER = re.compile(r"10\s*\}?\s*\^\s*(?:\{[^{}]*\}|\w)|\d[\d,]*\.\d+|\d{2,}|\.\d+")
_RAISED = r"\u2070-\u2089\u00b2\u00b3\u00b9\u00bc-\u00be"  # superscripts, subscripts, fractions
_NAME = re.compile(rf"(?<!\w)(?![{_RAISED}])[^\W\d_]\w*(?:[.-]\w+)*|\b\d+-(?:bit|norm)\b")
_NUMBER = re.compile(
    r"[-+\u2212]?(?:\d[\d.,\u00a0\u202f]*e[-+]?\d+|\d[\w.,\u00a0\u202f]*\w|\d)" rf"|[{_RAISED}]+"
)


@dataclass(frozen=True)
class Literal:
    """A number typed by hand: its line, counted from 1, and its text."""

    line: int
    text: str


def find(source: str, environment: jinja2.Environment) -> list[Literal]:
    """Every number typed by hand in a template, in the order of its lines."""
    found = [*_constants(environment.parse(source)), *_in_text(source)]
    return sorted(set(found), key=lambda literal: literal.line)


def message(literals: list[Literal], name: str) -> str:
    """One line per literal: file, line, number, and how to correct it."""
    lines = [
        f"{name}:{it.line}: number typed by hand: {it.text}; print a measured one with << n.name >>, "
        f'mark a true constant with << c("{it.text}") >>'
        for it in literals
    ]
    return "\n".join(lines)


def _in_text(source: str) -> Iterator[Literal]:
    source = _SKIP.sub(_blank, source)
    for match in _MATH.finditer(source):
        for number in _MATH_NUMBER.finditer(_STRUCTURE.sub(_blank, match.group())):
            yield _literal(source, match.start() + number.start(), number.group())
    prose = _NAME.sub(_blank, _MATH.sub(_blank, source))
    for number in _NUMBER.finditer(prose):
        yield _literal(source, number.start(), number.group())


def _literal(source: str, position: int, text: str) -> Literal:
    return Literal(source.count("\n", 0, position) + 1, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\ue000", match.group())


def _constants(tree: nodes.Template) -> Iterator[Literal]:
    printed = (child for output in tree.find_all(nodes.Output) for child in output.nodes)
    assigned = (assign.node for assign in tree.find_all(nodes.Assign))
    for node in (*printed, *assigned):
        if isinstance(node, nodes.Const) and re.search(r"\d", str(node.value)):
            yield Literal(node.lineno, str(node.value))
