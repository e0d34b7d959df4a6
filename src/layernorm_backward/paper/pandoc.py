"""Turns the filled-in Markdown into the paper: .md for reading, .tex, .html in one file, and .pdf.

Pandoc comes from its wheel. The PDF is made by pdfLaTeX where latexmk and the packages of the template are
installed, else by Typst from its wheel. The folder of templates, filter and references is `assets`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, get_args

import pypandoc

from layernorm_backward.storage.files import whole

Engine = Literal["auto", "latex", "typst"]
_PACKAGES = re.compile(r"\\usepackage(?:\[[^]]*\])?\{([^}]*)\}")
_TOO_FULL = re.compile(r"^Overfull \\vbox \(([\d.]+)pt too high\)", re.MULTILINE)
_COMMON = (
    *("--from=markdown", "--standalone", "--wrap=preserve"),
    *("--fail-if-warnings", "--syntax-highlighting=none"),
)
_FORMATS = {
    ".md": ("--to=gfm", "--shift-heading-level-by=1", "--default-image-extension=png"),
    ".tex": ("--to=latex", "--default-image-extension=pdf"),
    ".typ": ("--to=typst", "--default-image-extension=pdf"),
    ".html": (
        *("--to=html5", "--shift-heading-level-by=1", "--default-image-extension=png"),
        *("--mathml", "--embed-resources", "--toc", "--toc-depth=3"),
    ),
}
_TEMPLATES = {".md": "paper.gfm", ".tex": "paper.latex", ".typ": "paper.typst", ".html": "paper.html"}


class PaperError(ValueError):
    """A document that cannot be made; the message holds what the tool said, without its stack."""


def convert(source: Path, out: Path, assets: Path = Path("paper"), pdf: Engine = "auto") -> None:
    """Convert filled-in Markdown to `out`, by its suffix; figures are found beside `source`.

    A warning of Pandoc (a missing citation, formula or picture) is an error. `out` is whole or untouched.
    PaperError where it cannot be made, as where there is no source or no folder of assets.
    """
    if not source.is_file():
        raise PaperError(f"{source}: there is no such file")
    if not assets.is_dir():
        raise PaperError(f"{assets}: there is no such folder of templates; it is in the repository's root")
    if pdf not in get_args(Engine):
        raise PaperError(f"pdf: {pdf!r}, allowed: {', '.join(get_args(Engine))}")
    if out.suffix not in (*_FORMATS, ".pdf"):
        raise PaperError(f"{out}: unknown format, allowed: {', '.join((*_FORMATS, '.pdf'))}")
    with whole(out) as temporary:
        if out.suffix != ".pdf":
            _pandoc(source, temporary, assets)
        elif engine(pdf, assets) == "latex":
            _latex(source, temporary, assets)
        else:
            _typst(source, temporary, assets)


def engine(pdf: Engine, assets: Path) -> Literal["latex", "typst"]:
    """What the PDF is made with; "auto" is LaTeX where it has all that the template needs."""
    if pdf == "typst":
        return "typst"
    missing = missing_tex(assets)
    if pdf == "latex" and missing:
        raise PaperError(f"pdf=latex lacks {', '.join(missing)}; run `make tex`, or take pdf=typst")
    return "typst" if missing else "latex"


def missing_tex(assets: Path) -> list[str]:
    """The programs and packages that the LaTeX template needs and this machine lacks."""
    programs = [name for name in ("latexmk", "pdflatex", "kpsewhich") if shutil.which(name) is None]
    if programs:
        return programs
    template = (assets / "templates" / _TEMPLATES[".tex"]).read_text(encoding="utf-8")
    packages = [f"{name.strip()}.sty" for names in _PACKAGES.findall(template) for name in names.split(",")]
    found = subprocess.run(["kpsewhich", *packages], capture_output=True, text=True, check=False).stdout
    return sorted(set(packages) - {Path(line).name for line in found.splitlines()})


def _pandoc(source: Path, out: Path, assets: Path) -> None:
    """Run Pandoc beside the source, with relative paths: with LC_ALL=C it can open none but ASCII."""
    folder = source.parent.resolve()
    assets, out = (Path(os.path.relpath(path.resolve(), folder)) for path in (assets, out))
    options = [
        *_COMMON,
        *_FORMATS[out.suffix],
        f"--template={assets / 'templates' / _TEMPLATES[out.suffix]}",
        f"--css={assets / 'templates' / 'paper.css'}",
        f"--lua-filter={assets / 'filters' / 'number.lua'}",
        "--citeproc",
        f"--bibliography={assets / 'refs.bib'}",
        f"--lua-filter={assets / 'filters' / 'references.lua'}",
        f"--lua-filter={assets / 'filters' / 'tables.lua'}",
        "--metadata=link-citations:true",
    ]
    _run([pypandoc.get_pandoc_path(), *options, f"--output={out}", source.name], folder)


def _latex(source: Path, out: Path, assets: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _pandoc(source, folder / "paper.tex", assets)
        options = ["-pdf", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error", "-quiet"]
        try:
            _run(["latexmk", *options, f"-outdir={folder}", str(folder / "paper.tex")], source.parent)
        except PaperError as error:
            raise PaperError(_latex_errors(folder / "paper.log") or str(error)) from None
        _require_whole_pages(folder / "paper.log")
        shutil.copyfile(folder / "paper.pdf", out)


def _latex_errors(log: Path) -> str:
    """The errors in LaTeX's log, each with the two lines that follow it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    starts = [index for index, line in enumerate(lines) if re.match(r"!|\S+\.(tex|sty):\d+: ", line)]
    return "\n".join(line for start in starts for line in lines[start : start + 3])


def _require_whole_pages(log: Path) -> None:
    """A warning where something runs off a page of the PDF; with the environment variable CI a PaperError."""
    text = log.read_text(encoding="utf-8", errors="replace")
    over = [float(points) for points in _TOO_FULL.findall(text)]
    if over:
        said = f"paper.pdf: a page is {max(over):.0f} pt too full, so that a figure or table on it is cut"
        if os.environ.get("CI"):
            raise PaperError(said)
        print(f"warning: {said}", file=sys.stderr)


def _typst(source: Path, out: Path, assets: Path) -> None:
    import typst

    with tempfile.TemporaryDirectory(prefix=".typst-", dir=source.parent) as name:
        text = Path(name) / "paper.typ"
        _pandoc(source, text, assets)
        try:
            pdf = typst.compile(text.read_bytes(), root=source.parent, ignore_system_fonts=True)
        except typst.TypstError as error:
            raise PaperError(f"Typst: {error}") from None
    out.write_bytes(pdf)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).split("stack traceback:")[0].splitlines()
        lines = [line for line in said if line.strip() and not line.startswith("Error running filter")]
        raise PaperError("\n".join(lines[-20:]))
