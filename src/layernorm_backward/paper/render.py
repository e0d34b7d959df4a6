"""Fills the template of the paper with the numbers of a run: Markdown with Jinja, no number typed by hand.

The delimiters are not used by TeX or Markdown: << name >>, <% block %>, <# comment #>.
"""

import traceback
from pathlib import Path
from typing import Any

import jinja2

from layernorm_backward.paper import literals
from layernorm_backward.paper.context import context
from layernorm_backward.storage.files import whole


class TemplateError(ValueError):
    """A template that cannot be filled; the message begins with file and line."""


def render(template: Path, numbers: Path, tables_dir: Path, figures_dir: Path, out: Path) -> None:
    """Fill `template` with a run's numbers and tables; writes Pandoc Markdown."""
    text = markdown(template, context(numbers, tables_dir, figures_dir, template.parent))
    with whole(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


def markdown(template: Path, names: dict[str, Any]) -> str:
    """The filled template.

    Raises TemplateError, with file and line, if a number is typed by hand, a name is unknown or the syntax
    is wrong; with the file if it is not UTF-8.
    """
    source = read(template)
    jinja = environment(template.parent)
    try:
        typed = literals.find(source, jinja)
        if typed:
            raise TemplateError(literals.message(typed, str(template)))
        return jinja.get_template(template.name).render(names)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{template}:{error.lineno}: {error.message}") from None
    except (jinja2.UndefinedError, TypeError, LookupError, ValueError) as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError(f"{template}:{_line(error, template)}: {error}") from None


def read(template: Path) -> str:
    """The text of a template; TemplateError if it is not UTF-8."""
    try:
        return template.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{template}: not UTF-8 text: {error}") from None


def environment(folder: Path) -> jinja2.Environment:
    """Jinja with the paper's delimiters; templates are found in `folder`."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _line(error: Exception, template: Path) -> int:
    """The line of the template that caused an error, from the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == template.name]
    return lines[-1] or 0 if lines else 0
