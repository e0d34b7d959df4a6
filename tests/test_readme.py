"""README, CONTRIBUTING and CITATION say what is there."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import layernorm_backward
from layernorm_backward import inputs, oracle
from layernorm_backward.errors import error_u
from layernorm_backward.figures import FIGURES
from layernorm_backward.studies import study
from workspace import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TEMPLATE = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)`( ⏱)? \|[^|]+\|([^|]*)\|([^|]+)\|$", flags=re.MULTILINE)
ROWS = {
    stem: (bool(clock), set(re.findall(r"`(\w+)`", figures)), section.strip())
    for stem, clock, figures, section in _ROW.findall(README)
}


def test_every_experiment_has_its_row():
    assert set(ROWS) == {*study.stems("paper"), "comparison", "claims"}


def test_every_figure_stands_beside_a_table_it_is_drawn_from():
    for stem, (_, named, _) in ROWS.items():
        assert named == {figure for figure in FIGURES if stem in study.drawn_from(figure)}, stem


def test_every_figure_is_shown_in_the_paper():
    assert set(re.findall(r'figure\("(\w+)"\)', TEMPLATE)) == set(FIGURES)


def test_a_clock_marks_the_experiments_that_run_alone():
    alone = {stem for stem in ROWS if study.runs_alone(stem)}
    assert {stem for stem, (clock, _, _) in ROWS.items() if clock} == alone


def test_the_sections_named_are_sections_of_the_paper():
    titles = set(re.findall(r"^#+ (.+?) \{[^}]*#", TEMPLATE, flags=re.MULTILINE))
    assert {section for _, _, section in ROWS.values()} <= titles


def test_links_lead_to_files():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README + CONTRIBUTING)
    assert len(links) >= 4
    assert [link for link in links if not (ROOT / link).exists()] == []


PAGES = [ROOT / "results" / "archive" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_other_pages_lead_to_files(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_every_page():
    assert [page.name for page in PAGES[1:] if f"](docs/{page.name})" not in README] == []


def test_paths_named_in_contributing_exist():
    source = ROOT / "src" / "layernorm_backward"
    named = [
        path
        for code in re.findall(r"`([^`]+)`", CONTRIBUTING)
        for path in code.split()
        if re.fullmatch(r"[\w/.]+\.[\w.]+", path) and ("/" in path or path.endswith(".py"))
    ]
    assert len(named) > 8
    assert [path for path in named if not any((base / path).exists() for base in (ROOT, source))] == []


def test_targets_named_are_targets_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    told = README + CONTRIBUTING + "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"^    make (\w+)|`make (\w+)", told, flags=re.MULTILINE))
    assert {first or second for first, second in named} <= targets


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_text_are_at_most_120_characters(page):
    """Tables, images and commands to copy may be longer."""
    lines = page.read_text(encoding="utf-8").splitlines()
    text = [line for line in lines if not line.startswith(("|", "![", "    "))]
    assert [line for line in text if len(line) > 120] == []


def test_contributing_is_short():
    assert len(CONTRIBUTING.splitlines()) <= 45
    assert max(map(len, CONTRIBUTING.splitlines())) <= 120


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load(Path(ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"] == layernorm_backward.__version__
    assert project["license"] == " AND ".join(citation["license"])


def test_the_answer_at_the_top_is_right_at_a_large_mean():
    """Its statements, carried out one after the other in float32, with what `save` names kept between."""
    block = README[README.index("    forward ") : README.index("Sum in float32 or wider")]
    forward, backward = block.replace("    forward ", "").split("    backward ")
    *forward, kept = re.split(r"\s{3,}", forward.strip())
    assert kept.startswith("save m + delta (in x's dtype), rstd")
    rng, eps = inputs.generator(5), np.float32(1e-5)
    x = inputs.rows(rng, 64, 1024, np.float32, mean=inputs.mean_of_kappa(1e6))
    gamma, dy = inputs.gamma(rng, "random", 1024, np.float32), inputs.upstream(rng, "shifted", x)
    names = {"x": x, "gamma": gamma, "dy": dy, "eps": eps, "sqrt": np.sqrt, "dgamma": 0, "dbeta": 0}
    names["mean"] = lambda values: values.mean(axis=-1, keepdims=True)
    for statement in forward:
        exec(statement, names)
    names["m"] = (names["m"] + names["delta"]).astype(x.dtype)
    for statement in re.split(r"\s{3,}", backward.strip()):
        exec(statement, names)
    exact = oracle.results(*(inputs.values(array) for array in (x, gamma, gamma, dy)), float(eps))
    found = names["dx"], names["dgamma"].sum(axis=0), names["dbeta"].sum(axis=0)
    for one, right in zip(found, exact[1:], strict=True):
        assert error_u(one, right).max() < 8
