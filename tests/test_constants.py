"""Constants that are read from a module's text."""

import pytest

from layernorm_backward.constants import constant
from layernorm_backward.records import provenance

TEXT = """
NEEDS_NO = ("no",)
NEEDS: tuple[str, ...] = ("eps",)
A = B = "text"
COMPUTED = 1 + len(A)

def f():
    C = 1
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "value"), [("NEEDS", ("eps",)), ("A", "text"), ("B", "text"), ("C", None), ("D", None)]
)
def test_a_constant_is_the_literal_that_stands_there(module, name, value):
    assert constant(module, name) == value


def test_what_is_computed_is_refused(module):
    with pytest.raises(ValueError, match="malformed node"):
        constant(module, "COMPUTED")


def test_a_constant_that_is_no_tuple_is_named(monkeypatch, module):
    monkeypatch.setattr(provenance, "_path", lambda name: module)
    with pytest.raises(ValueError, match="somewhere: A = 'text'; allowed: a tuple of strings"):
        provenance.constant("somewhere", "A")
