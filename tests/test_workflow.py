"""The workflow: what each study plans, one smoke run through to its PDF, and what an edit runs again."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from layernorm_backward.experiments import EXPERIMENTS
from layernorm_backward.figures import FIGURES
from layernorm_backward.records import tables
from layernorm_backward.studies import study
from workspace import ROOT, Workspace, processor_s

DOCUMENTS = {"render", *(f"paper_{suffix}" for suffix in ("md", "tex", "html", "pdf"))}
JUDGED = {"comparison", "claims", "numbers", *DOCUMENTS}
DRAWN = {f"figure_{figure}" for figure in FIGURES}
SMOKE_SECONDS = 1500  # of a processor; alone it takes under 120, and with all that it may compile 420
IDLE_SECONDS = 60  # 5 alone, likewise


def drawn_from(stems: set[str]) -> set[str]:
    """The rules of the figures that show one of these tables."""
    return {f"figure_{figure}" for figure in FIGURES if stems & set(study.drawn_from(figure))}


def computed_from(stems: set[str]) -> set[str]:
    """These experiments and those computed from their tables."""
    return stems | {stem for stem in EXPERIMENTS if stems & set(study.needs(stem))}


@contextmanager
def edited(path: Path, line: str) -> Iterator[None]:
    """A file with one line more, its old contents put back afterwards."""
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}{line}\n", encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("name", study.CHOICES["study"])
def test_each_study_has_a_config_for_each_experiment(name):
    assert study.stems(name) == EXPERIMENTS


@pytest.mark.parametrize("name", study.CHOICES["study"])
def test_configs_of_the_studies_have_the_same_keys(name):
    for stem in EXPERIMENTS:
        here, paper = (
            yaml.safe_load((ROOT / study.config_path(which, stem)).read_text("utf-8"))
            for which in (name, "paper")
        )
        assert set(here) == set(paper), stem


def started(output):
    """Names of the jobs in their order, each with what was printed of it."""
    return re.findall(r"^Job \d+: (\w+): (.+)$", output, flags=re.MULTILINE)


def test_timed_experiments_exist():
    assert set(EXPERIMENTS) > study.TIMED and not any(map(study.on_device, study.TIMED))


def test_those_that_take_long_wait_for_no_table_and_are_begun_first(smoke):
    assert not any(map(study.runs_alone, study.LONG))
    assert not any(study.needs(stem) for stem in study.LONG)
    first = {stem for stem in study.LONG if not study.missing(stem)}
    together = max(len(first), len(os.sched_getaffinity(0)))  # begun at once, in any order
    assert first <= {name for name, _ in started(smoke.output)[:together]}


def test_each_job_says_what_it_does(smoke):
    said = dict(started(smoke.output))
    assert set(said) == set(EXPERIMENTS) | DRAWN | JUDGED | {"all"}
    module = "layernorm_backward.experiments.eps"
    assert said["eps"] == importlib.import_module(module).__doc__.splitlines()[0]
    assert "    input: " not in smoke.output


@pytest.mark.parametrize("name", study.CHOICES["study"])
def test_a_study_plans_every_experiment_figure_and_document(smoke, name):
    planned = smoke.workspace.planned("--forceall", study=name)
    assert planned == set(EXPERIMENTS) | DRAWN | JUDGED


def test_an_unknown_study_is_told_what_is_allowed(smoke):
    done = smoke.workspace.snakemake("--dry-run", study="smok")
    assert done.returncode != 0
    assert "--config study=smok: allowed: paper, smoke, full" in done.stdout


def test_faults_in_configs_and_in_the_papers_files_are_all_told_before_the_first_job(smoke):
    root = smoke.workspace.root
    with ExitStack() as edits:
        for name, line in (("eps", "sed: 1"), ("variance", "kernels: [a")):
            edits.enter_context(edited(root / f"config/smoke/{name}.yaml", line))
        edits.enter_context(edited(root / "paper/numbers.yaml", "spoilt"))
        done = smoke.workspace.run("make", "smoke")
    assert done.returncode != 0
    assert "\nerror: config/smoke/eps.yaml: sed: unknown key; allowed: " in done.stdout
    assert "\nerror: config/smoke/variance.yaml: line " in done.stdout
    assert "\nerror: paper/numbers.yaml: line " in done.stdout
    assert "Shell command: " not in done.stdout


def test_the_error_of_a_job_is_told_again_at_the_end(smoke, tmp_path):
    shutil.copytree(smoke.workspace.root, tmp_path / "tree")
    workspace = Workspace(tmp_path / "tree")
    with edited(workspace.root / "paper/paper.md.j2", "\n<< spoilt >>\n"):
        done = workspace.snakemake("results/smoke/paper.pandoc.md")
    assert done.returncode != 0
    last = done.stdout.rpartition("results/smoke/logs/render.log: error: ")[2]
    assert len(last.splitlines()) < 12 and "'spoilt' is undefined" in last


def test_the_workflow_runs_from_another_folder_and_past_hidden_files(smoke, tmp_path):
    root = smoke.workspace.root
    places = ("config/smoke/.#eps.yaml", "src/layernorm_backward/figures/.#eps.py", "paper/filters/.#a.lua")
    hidden = [root / place for place in places]
    for path in hidden:
        path.symlink_to("somebody@somewhere")
    try:
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "-n",
            "-s",
            root / "Snakefile",
            "--config",
            "study=smoke",
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=tmp_path, env=smoke.workspace.environment, check=False, **pipes)
    finally:
        for path in hidden:
            path.unlink()
    assert "Nothing to be done" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_the_environment_is_named(smoke):
    hiding = (
        "import sys; sys.modules['layernorm_backward'] = None; from snakemake.cli import main; main(['-n'])"
    )
    done = smoke.workspace.run(sys.executable, "-c", hiding)
    assert done.returncode != 0
    assert "layernorm_backward" in done.stdout and ". .venv/bin/activate" in done.stdout


def test_a_part_of_a_study_is_made_without_the_paper(smoke, tmp_path):
    workspace = Workspace.of_sources(tmp_path / "tree")
    done = workspace.run("make", "smoke", "ARGS=division_order")
    assert done.returncode == 0, done.stdout
    assert (workspace.root / "results/smoke/tables/division_order.csv").exists()


@pytest.mark.parametrize("options", ["division_order", "--dry-run"])
def test_a_part_of_a_study_tells_nothing_of_an_earlier_paper(tmp_path, options):
    workspace = Workspace.of_sources(tmp_path / "tree")
    results = workspace.root / "results/smoke"
    results.mkdir(parents=True)
    for suffix in ("md", "tex", "html", "pdf"):
        (results / f"paper.{suffix}").touch()
    done = workspace.run("make", "smoke", f"ARGS={options}")
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^(?:error|paper): .*", done.stdout, flags=re.MULTILINE) == []


@pytest.mark.skipif(not os.geteuid(), reason="root may write anywhere")
def test_a_tree_that_cannot_be_written_to_is_told_in_one_line(tmp_path):
    workspace = Workspace.of_sources(tmp_path / "tree")
    workspace.root.chmod(0o555)
    try:
        done = workspace.snakemake("--dry-run")
    finally:
        workspace.root.chmod(0o755)
    assert done.returncode != 0
    assert f"{workspace.root}: cannot be written to; allowed: a copy of it that can" in done.stdout


def test_smoke_run_makes_every_file_in_time(smoke, capsys):
    with capsys.disabled():
        print(f" smoke study: {smoke.processor_s:.0f} s of a processor ", end="")
    for stem in (*EXPERIMENTS, "comparison", "claims"):
        assert len(tables.read(smoke.results / "tables" / f"{stem}.csv")), stem
    files = [f"figures/{figure}.{suffix}" for figure in FIGURES for suffix in ("pdf", "png")]
    files += ["numbers.json", *(f"paper.{suffix}" for suffix in ("md", "tex", "html", "pdf"))]
    assert [name for name in files if not (smoke.results / name).stat().st_size] == []
    assert smoke.processor_s < SMOKE_SECONDS


def test_a_run_ends_with_the_paper_and_the_verdicts(smoke):
    assert "paper: results/smoke/paper.pdf" in smoke.output
    claims = tables.read(smoke.results / "tables" / "claims.csv")
    confirmed = int((claims["verdict"] == "confirmed").sum())
    assert f"claims: {confirmed} confirmed, " in smoke.output


def test_a_second_run_says_that_nothing_is_to_be_done(smoke):
    before_s = processor_s()
    done = smoke.workspace.run("make", "smoke")
    worked_s = processor_s() - before_s
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in done.stdout
    assert done.stdout.count("paper: results/smoke/paper.pdf") == 1
    assert worked_s < IDLE_SECONDS


def test_an_edited_config_runs_what_depends_on_it(smoke):
    with edited(smoke.workspace.root / "config/smoke/variance.yaml", "# edited"):
        planned = smoke.workspace.planned()
    changed = computed_from({"variance"})
    assert planned == changed | drawn_from(changed | {"claims"}) | JUDGED


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("config/smoke/variance.yaml", "variance"),
        ("paper/claims.yaml", "claims"),
        ("paper/numbers.yaml", "numbers"),
        ("paper/paper.md.j2", "render"),
        ("paper/refs.bib", "paper_pdf"),
        ("src/layernorm_backward/figures/style.mplstyle", "figure_variance"),
    ],
)
def test_an_edit_counts_whatever_the_time_of_the_file(smoke, name, rule):
    path = smoke.workspace.root / name
    times = path.stat()
    with edited(path, "# edited"):
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        planned = smoke.workspace.planned()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert rule in planned


def test_an_edited_figure_module_draws_that_figure_again(smoke):
    with edited(smoke.workspace.root / "src/layernorm_backward/figures/eps.py", "# edited"):
        assert smoke.workspace.planned() == {"figure_eps"} | DOCUMENTS


def test_an_edited_kernel_runs_the_experiments_that_name_it(smoke):
    configs = {
        path.stem: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.glob("config/smoke/*.yaml")
    }
    naming = {stem for stem, values in configs.items() if "recentred" in values.get("kernels", ())}
    assert {"timing_cpu", "backward_error"} <= naming
    with edited(smoke.workspace.root / "src/layernorm_backward/kernels/recentred.py", "# edited"):
        planned = smoke.workspace.planned()
    changed = computed_from(naming)
    assert planned & set(EXPERIMENTS) == changed
    assert planned - set(EXPERIMENTS) == drawn_from(changed | {"claims"}) | JUDGED


def test_touched_files_and_an_edited_readme_run_nothing(smoke):
    for name in (
        "config/smoke/variance.yaml",
        "src/layernorm_backward/kernels/published.py",
        "paper/refs.bib",
    ):
        os.utime(smoke.workspace.root / name)
    with edited(smoke.workspace.root / "README.md", "edited"):
        assert smoke.workspace.planned() == set()


def test_a_missing_table_is_made_again(smoke):
    table = smoke.results / "tables" / "eps.csv"
    kept = table.rename(table.with_suffix(".kept"))
    try:
        assert "eps" in smoke.workspace.planned()
    finally:
        kept.rename(table)


def test_workflow_needs_no_package_that_is_imported_for_measuring():
    heavy = {"numba", "scipy", "sympy", "matplotlib", "pandas"}
    names = "studies.study", "studies.lock", "paper.pandoc"
    code = f"import sys, {', '.join(f'layernorm_backward.{name}' for name in names)}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert heavy & set(done.stdout.split()) == set()
