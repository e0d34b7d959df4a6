"""The documents: numbers read back from PDF and HTML agree; every fault stops the build and is told."""

import html
import re
import shutil
from pathlib import Path

import pypdf
import pytest

from layernorm_backward.paper import pandoc

ASSETS = Path(__file__).parents[1] / "paper"
PAPER = r"""---
title: A short paper
author: The layernorm-backward authors
date: 2026-11-21
abstract: |
  We refer to @fig:second here.
---

# Start {#sec:start}

The mean comes first, in
$$ \mu = \frac{1}{D} \sum_i x_i $$ {#eq:mean}
and then the rest, κ ≤ 2 [@higham2002; @chan1983].

$$
\begin{aligned}
z &= x - \mu \\
y &= \gamma z + \beta
\end{aligned}
$$ {#eq:rest}

![First, after @eq:rest](figures/plot){#fig:first width=40%}

## Deeper {#sec:deeper}

$$ a = b $$ {#eq:last}

![Second](figures/plot){#fig:second width=40%}

| kernel | value |
|--------|------:|
| `backward_error` | 2 |

: A table [@ba2016]. {#tbl:only .small}

Uses @eq:last, [@eq:mean; @eq:rest], [-@eq:rest], @fig:first,
[@fig:first; @fig:second], @tbl:only, @tbl:long and more.
Parts are @sec:start, @sec:deeper, @sec:more and @sec:detail.

# References {.unnumbered}

::: {#refs}
:::

# More {#sec:more .appendix}

## Detail {#sec:detail}

LONG

: A long table. {#tbl:long .small .wrap}
"""
ROWS = "\n".join(["| Claim | Says |", f"|{'-' * 60}|{'-' * 140}|", *(["| item | it says a lot |"] * 90)])
REFERENCES = [
    *("Equation (3)", "Equations (1) and (2)", "(2)"),
    *("Figure 1", "Figures 1 and 2", "Table 1", "Table 2"),
]


@pytest.fixture(scope="module")
def plots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder figures with one plot, in the three formats that the documents embed."""
    from matplotlib.figure import Figure

    folder = tmp_path_factory.mktemp("plots") / "figures"
    folder.mkdir()
    drawing = Figure(figsize=(2, 1))
    drawing.subplots().set_xticks([]).clear()
    for suffix in ("pdf", "png"):
        drawing.savefig(folder / f"plot.{suffix}")
    return folder


@pytest.fixture
def source(tmp_path: Path, plots: Path) -> Path:
    shutil.copytree(plots, tmp_path / "figures")
    path = tmp_path / "filled.md"
    path.write_text(PAPER.replace("LONG", ROWS), encoding="utf-8")
    return path


def needs_tex(function: object) -> object:
    missing = ", ".join(pandoc.missing_tex(ASSETS))
    return pytest.mark.skipif(bool(missing), reason=f"TeX is not installed: {missing}")(function)


def read(path: Path) -> str:
    """The visible text of a document, its white space and ligatures made plain."""
    if path.suffix == ".pdf":
        text = "\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    elif path.suffix == ".html":
        body = path.read_text(encoding="utf-8").partition("<main>")[2]
        text = html.unescape(re.sub(r"<annotation.*?</annotation>|<[^>]+>", " ", body, flags=re.DOTALL))
    else:
        text = re.sub(r"<img[^>]*>", "", path.read_text(encoding="utf-8"))
        text = re.sub(r"\\tag\{(\d+)\}", r" (\1)", text)
    return re.sub(r"\s+", " ", text.replace("ﬁ", "fi").replace("- ", "-"))


def check_numbers(text: str) -> None:
    """Equations, figures and tables count from 1 in their order; references say the same numbers."""
    before_references = re.sub(r"(Equations?|and) \(\d\)|, \(\d\),", "", text.partition("Uses Equation")[0])
    assert re.findall(r"\((\d)\)", before_references) == ["1", "2", "3"]
    assert sorted(re.findall(r"Figure (\d)\.", text)) == ["1", "2"]
    assert re.findall(r"Table (\d)\.", text) == ["1", "2"]
    flat = re.sub(r"\s", "", text)
    assert re.sub(r"\s", "", f"Uses{','.join(REFERENCES)}andmore.") in flat
    assert re.sub(r"\s", "", "PartsareSection 1,Section 1.1,AppendixAandAppendixA.1.") in flat
    for heading in ("1Start", "1.1Deeper", "AMore", "A.1Detail"):
        assert heading in flat
    assert "(Higham2002;Chanetal.1983)" in flat
    assert "†Notreadinfull" in flat


@pytest.mark.parametrize("suffix", [".md", ".html", ".pdf"])
def test_numbers_and_references_are_equal_in_every_document(source: Path, suffix: str) -> None:
    out = source.with_name(f"paper{suffix}")
    pandoc.convert(source, out, ASSETS, "typst")
    check_numbers(read(out))


def test_three_references_are_a_list_an_unnumbered_heading_has_no_number_and_a_doi_stays_a_link(
    source: Path,
) -> None:
    three = PAPER.replace("[-@eq:rest]", "[@eq:mean; @eq:rest; @eq:last]").replace("LONG", ROWS)
    source.write_text(three, encoding="utf-8")
    out = source.with_name("paper.md")
    pandoc.convert(source, out, ASSETS)
    text = out.read_text(encoding="utf-8")
    assert "Equations (1), (2), and (3)" in text.replace("\u00a0", " ").replace("\n", " ")
    assert re.search(r"^#+ References$", text, re.MULTILINE)
    assert "](https://doi.org/" in text or "<https://doi.org/" in text


@needs_tex
def test_numbers_and_references_are_equal_in_the_pdf_from_latex(source: Path) -> None:
    out = source.with_name("paper.pdf")
    pandoc.convert(source, out, ASSETS, "latex")
    check_numbers(read(out))
    assert pypdf.PdfReader(out).metadata.title == "A short paper"


def test_the_page_stands_alone(source: Path) -> None:
    out = source.with_name("paper.html")
    pandoc.convert(source, out, ASSETS)
    text = out.read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!#|data:|https://(?:doi\.org|arxiv\.org)/)[^"]*"', text)
    assert text.count("<math") == 3
    assert '<a href="#eq:last"' in text
    assert 'id="eq:last"' in text


@pytest.mark.parametrize("suffix", [".html", ".pdf"])
def test_a_folder_whose_name_is_not_ascii_needs_no_utf_8(
    source: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    folder = source.parent / "größe"
    for part in (ASSETS, source.parent / "figures"):
        shutil.copytree(part, folder / part.name)
    out = folder / f"paper{suffix}"
    pandoc.convert(source.rename(folder / source.name), out, folder / "paper", "typst")
    check_numbers(read(out))


def test_a_short_table_stays_in_one_piece_and_a_long_one_breaks(source: Path) -> None:
    out = source.with_name("paper.tex")
    pandoc.convert(source, out, ASSETS)
    text = out.read_text(encoding="utf-8")
    assert text.count(r"\begin{table}") == text.count(r"\begin{longtable}") == 1
    assert (
        r"\texttt{backward\_error} & 2 \\" in text.partition(r"\begin{table}")[2].partition(r"\end{table}")[0]
    )


def test_no_page_has_only_the_header_and_the_rule_of_a_long_table(source: Path) -> None:
    """longtable breaks before its last foot, so the rule is in the body and stays with the last row."""
    out = source.with_name("paper.tex")
    pandoc.convert(source, out, ASSETS)
    table = out.read_text(encoding="utf-8").partition(r"\endlastfoot")
    assert r"\bottomrule" not in table[0].partition(r"\begin{longtable}")[2]
    assert " \\\\*\n\\bottomrule\n\\end{longtable}" in table[2]


def test_a_long_table_repeats_its_header_on_each_page(source: Path) -> None:
    out = source.with_name("paper.pdf")
    pandoc.convert(source, out, ASSETS, "typst")
    pages = [page.extract_text() for page in pypdf.PdfReader(out).pages]
    with_rows = [page for page in pages if "it says a lot" in page]
    assert len(with_rows) > 1
    assert all(re.search(r"Claim\s+Says", page) for page in with_rows)


def test_templates_that_are_not_there_are_named_in_one_line(source: Path) -> None:
    out = source.with_name("paper.html")
    with pytest.raises(pandoc.PaperError, match=r"^nowhere: there is no such folder of templates; it is in"):
        pandoc.convert(source, out, Path("nowhere"))
    assert not out.exists()


def test_a_source_that_is_not_there_is_named_in_one_line(source: Path) -> None:
    absent = source.with_name("absent.md")
    with pytest.raises(pandoc.PaperError) as caught:
        pandoc.convert(absent, source.with_name("paper.html"), ASSETS)
    assert str(caught.value) == f"{absent}: there is no such file"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@tbl:only,", "@tbl:onyl,", "filled.md:37: there is no tbl:onyl; labels are: tbl:only, tbl:long"),
        ("{#eq:rest}", "{#eq:mean}", "the label eq:mean is given twice"),
        ("[@fig:first; @fig:second]", "none", None),
        ("@fig:first,\n[@fig:first; @fig:second]", "none", "filled.md:22: fig:first is never referred to"),
        ("@tbl:only,", "", "filled.md:34: tbl:only is never referred to; say @tbl:only in the text"),
        (
            "![Second](figures/plot)",
            "![Second](figures/plop)",
            "filled.md:28: there is no file figures/plop.png",
        ),
        (
            "{#fig:second width=40%}",
            "{width=40%}",
            "filled.md:28: a figure needs a label {#fig:name}: Second",
        ),
        (
            ": A table [@ba2016]. {#tbl:only .small}",
            ": A table.",
            "a table needs a label {#tbl:name}: A table.",
        ),
        ("[@higham2002; @chan1983]", "[@higham2003]", "Citeproc: citation higham2003 not found"),
        ("[@higham2002; @chan1983]", "[@higham2002; @eq:mean]", "a citation and a reference in one bracket"),
        ("$$ a = b $$", r"$$ a = \nonsense{b} $$", "Could not convert TeX math"),
    ],
)
def test_a_fault_in_the_text_is_told_and_stops_the_build(
    old: str, new: str, message: str | None, source: Path
) -> None:
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new), encoding="utf-8")
    out = source.with_name("paper.html")
    out.write_text("the last good one", encoding="utf-8")
    if message is None:
        pandoc.convert(source, out, ASSETS)
        return
    with pytest.raises(pandoc.PaperError, match=re.escape(message)):
        pandoc.convert(source, out, ASSETS)
    assert out.read_text(encoding="utf-8") == "the last good one"
    assert {path.name for path in source.parent.iterdir()} == {"figures", "filled.md", "paper.html"}


@needs_tex
def test_an_error_of_latex_is_told_with_its_line(source: Path) -> None:
    text = source.read_text(encoding="utf-8").replace("κ ≤ 2", "☃")
    source.write_text(text, encoding="utf-8")
    with pytest.raises(pandoc.PaperError, match=r"paper.tex:\d+: LaTeX Error: Unicode character ☃"):
        pandoc.convert(source, source.with_name("paper.pdf"), ASSETS, "latex")


def test_an_error_of_typst_is_told(source: Path) -> None:
    (source.parent / "figures" / "plot.pdf").write_bytes(b"no PDF")
    with pytest.raises(pandoc.PaperError, match="Typst: "):
        pandoc.convert(source, source.with_name("paper.pdf"), ASSETS, "typst")
    assert {path.name for path in source.parent.iterdir()} == {"figures", "filled.md"}


def test_without_tex_the_pdf_falls_back_to_typst_and_latex_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert pandoc.engine("auto", ASSETS) == "typst"
    with pytest.raises(pandoc.PaperError, match=r"pdf=latex lacks latexmk, .*; run `make tex`, or take"):
        pandoc.engine("latex", ASSETS)


@pytest.mark.parametrize(
    ("out", "engine", "message"),
    [
        ("paper.docx", "auto", "unknown format, allowed: .md, .tex, .typ, .html, .pdf"),
        ("paper.pdf", "word", "pdf: 'word', allowed: auto, latex, typst"),
    ],
)
def test_an_unknown_format_or_engine_says_what_is_allowed(
    out: str, engine: pandoc.Engine, message: str, source: Path
) -> None:
    with pytest.raises(pandoc.PaperError, match=re.escape(message)):
        pandoc.convert(source, source.with_name(out), ASSETS, engine)


TALL = """
ABOVE

![One.](figures/tall){#fig:one}

BETWEEN

| A | B |
|---|---|
| 1 | 2 |

: Breaks over pages. {#tbl:long .wrap}

![Two.](figures/tall){#fig:two}

BELOW
"""


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A paper in which a figure above and one below a long table do not fit on its page together."""
    from matplotlib.figure import Figure

    (tmp_path / "figures").mkdir()
    Figure(figsize=(6, 4)).savefig(tmp_path / "figures" / "tall.pdf")
    text = TALL
    for place, words in (("ABOVE", 300), ("BETWEEN", 100), ("BELOW", 500)):
        text = text.replace(place, "Some words. " * words)
    head = PAPER.partition("# ")[0].replace("@fig:second", "@fig:one, @fig:two and @tbl:long")
    path = tmp_path / "filled.md"
    path.write_text(head + text, encoding="utf-8")
    return path


@needs_tex
def test_nothing_runs_off_a_page_with_a_long_table(crowded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    pandoc.convert(crowded, crowded.with_name("paper.pdf"), ASSETS, "latex")
    text = read(crowded.with_name("paper.pdf"))
    assert "Figure 1. One." in text and "Figure 2. Two." in text


@needs_tex
def test_a_page_that_is_too_full_is_told_and_stops_the_build_where_none_reads_it(
    crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assets = shutil.copytree(ASSETS, tmp_path / "assets")
    template = assets / "templates" / "paper.latex"
    whole = template.read_text(encoding="utf-8")
    template.write_text(re.sub(r"\\patchcmd.*\n", "", whole), encoding="utf-8")
    monkeypatch.delenv("CI", raising=False)
    pandoc.convert(crowded, crowded.with_name("paper.pdf"), assets, "latex")
    assert re.search(r"^warning: paper\.pdf: a page is \d+ pt too full", capsys.readouterr().err)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pandoc.PaperError, match="pt too full"):
        pandoc.convert(crowded, crowded.with_name("paper.pdf"), assets, "latex")
