"""Faults in the source files of the paper are reported before anything is measured, all at once."""

import re
from pathlib import Path

import pytest
import yaml

from layernorm_backward.paper import sources
from workspace import ROOT

CLAIM = {
    "id": "derived",
    "origin": "ours",
    "source": "paper",
    "says": "all forms agree",
    "tables": {"derivation": {}},
    "predicate": "two_derivations_agree",
    "tolerance": 1e-12,
    "scope": "any machine",
    "section": "Derivation",
    "strict": True,
}
NUMBER = {"table": "derivation", "column": "derivation", "reduce": "distinct", "format": "integer"}
TEMPLATE = "All << n.derived >> agree: << judged.derived >>.\n"


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """A small paper: one claim, one number, one attempt, and a text that names them."""
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump([CLAIM]), encoding="utf-8")
    (tmp_path / "numbers.yaml").write_text(yaml.safe_dump({"derived": NUMBER}), encoding="utf-8")
    (tmp_path / "attempts.csv").write_text("what,prediction,outcome,commit\na,b,c,\n", encoding="utf-8")
    (tmp_path / "paper.md.j2").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_the_papers_own_files_and_a_sound_paper_have_no_fault(paper):
    assert sources.faults(ROOT / "paper") == []
    assert sources.faults(paper) == []


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_template_without_text_is_a_fault(paper, text):
    (paper / "paper.md.j2").write_text(text, encoding="utf-8")
    assert sources.faults(paper) == [f"{paper / 'paper.md.j2'}: there is no text in it"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<< n.derivd >>", "there is no number 'derivd'; near: derived"),
        ('<< n["derivd"] >>', "there is no number 'derivd'; near: derived"),
        ('<% if judged["derivd"] %><% endif %>', "there is no claim 'derivd'; near: derived"),
        ("<< judged.derivd.tex >>", "there is no claim 'derivd'; near: derived"),
        ("It takes 77 of them.", "number typed by hand: 77; print a measured one"),
        ("<% if %>", "Expected an expression"),
    ],
)
def test_a_fault_in_the_template_is_reported_with_its_line(paper, text, said):
    template = paper / "paper.md.j2"
    append(template, f"\n{text}\n")
    (found,) = sources.faults(paper)
    assert found.startswith(f"{template}:3: ") and said in found


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("claims.yaml", "- {id: lonely}\n", "claims.yaml: lonely: "),
        ("numbers.yaml", "lonely: {table: none, column: a}\n", "lonely: table: unknown 'none'; allowed: "),
        ("attempts.csv", "lonely\n", "1 cells; allowed: 4, what, prediction, outcome, commit"),
    ],
)
def test_a_fault_in_another_file_is_reported_alone(paper, name, text, said):
    append(paper / name, text)
    found = sources.faults(paper)
    assert found and all(str(paper / name) in line for line in found) and said in found[0]


def test_all_faults_are_reported_at_once(paper):
    append(paper / "attempts.csv", "lonely\n")
    append(paper / "paper.md.j2", "It takes 77 of << n.derivd >>.\n")
    (paper / "claims.yaml").write_text("a: [", encoding="utf-8")
    (paper / "numbers.yaml").unlink()
    said = ("claims.yaml", "numbers.yaml: there is no such file", "attempts.csv", "typed by hand: 77")
    found = sources.faults(paper)
    assert len(found) == len(said) and all(one in line for one, line in zip(said, found, strict=True))


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_template_that_cannot_be_read_is_named(paper, content):
    (paper / "paper.md.j2").unlink()
    if content:
        (paper / "paper.md.j2").write_bytes(content)
    (found,) = sources.faults(paper)
    assert found.startswith(f"{paper / 'paper.md.j2'}: ")


def test_no_block_at_the_end_of_a_line_of_text_joins_two_paragraphs():
    text = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    joined = re.findall(r"(?m)^.*\S.*<% end\w+ %>\n\n+(?!\n).{1,60}", text)
    own = re.compile(r"^\s*(<%.*?%>\s*)+\n")
    assert [found for found in joined if not own.match(found)] == []
