"""Commands end in one line, with the path that it is about, and say what is wrong before they measure."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from layernorm_backward import __main__ as command
from layernorm_backward.__main__ import main
from layernorm_backward.experiments import EXPERIMENTS, division_order
from layernorm_backward.figures import FIGURES, variance
from layernorm_backward.records import revision
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.storage import files, jsonfile
from layernorm_backward.studies import config, study
from workspace import ROOT

LESS = "allowed: smaller sizes"
CONFIG = ROOT / "config/smoke/division_order.yaml"


@pytest.fixture
def told(capsys):
    """told(*words): what a command that fails says on standard error."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 1
        return capsys.readouterr().err

    return run


@pytest.fixture
def measuring(monkeypatch):
    """measuring(error): from then on every experiment ends in this error, or is not to be run at all."""

    def replace(error: BaseException | None = None) -> None:
        def run() -> None:
            raise error or AssertionError("it was measured")

        monkeypatch.setattr(config, "load", lambda path, run, needs: {})
        monkeypatch.setattr(division_order, "run", run)

    return replace


def test_a_table_of_another_name_is_refused_before_it_is_measured(told, measuring, tmp_path):
    measuring()
    table = tmp_path / "mine.csv"
    expected = (
        f"error: {table}: the table must be called as its schema is: {tmp_path / 'division_order'}.csv\n"
    )
    assert told("division_order", CONFIG, table) == expected


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("rounds is 0"), f"{CONFIG}: rounds is 0"),
        (OverflowError("math range error"), f"{CONFIG}: math range error"),
        (
            MemoryError("Unable to allocate 9 GiB"),
            f"{CONFIG}: out of memory: Unable to allocate 9 GiB; {LESS}",
        ),
        (MemoryError(), f"{CONFIG}: out of memory; {LESS}"),
        (OSError(28, "No space left on device"), "{table}: No space left on device"),
        (PermissionError(13, "Permission denied", "/there"), "/there: Permission denied"),
    ],
)
def test_what_ends_an_experiment_is_told_in_one_line(told, measuring, tmp_path, error, said):
    measuring(error)
    table = tmp_path / "division_order.csv"
    assert told("division_order", CONFIG, table) == f"error: {said.format(table=table)}\n"


def test_a_folder_that_is_a_file_is_named(told, tmp_path):
    (tmp_path / "tables").touch()
    assert str(tmp_path / "tables") in told(
        "division_order", CONFIG, tmp_path / "tables" / "division_order.csv"
    )


def test_a_folder_of_samples_that_cannot_be_made_is_named_before_anything_is_measured(told, tmp_path):
    (tmp_path / "samples").touch()
    said = told("variance_time", tmp_path / "not-read.yaml", tmp_path / "variance_time.csv")
    assert said == f"error: {tmp_path}/samples: File exists\n"


def test_an_unknown_figure_lists_those_there_are(told, tmp_path):
    said = told("figure", "epsilon", tmp_path, tmp_path / "epsilon.pdf")
    assert said == f"error: no figure is called 'epsilon'; there are: {', '.join(FIGURES)}\n"


@pytest.mark.parametrize("name", ["variance", "variance.png"])
def test_a_figure_is_a_pdf_file(told, tmp_path, name):
    said = f"{tmp_path / name}: allowed: a name that ends in .pdf; a .png file is written beside it"
    assert told("figure", "variance", tmp_path, tmp_path / name) == f"error: {said}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["TABLES", "CAPTION", "draw"])
def test_a_figure_without_one_of_its_parts_is_told_before_it_is_drawn(told, tmp_path, monkeypatch, part):
    monkeypatch.delattr(variance, part)
    said = told("figure", "variance", tmp_path, tmp_path / "variance.pdf")
    assert said.startswith(f"error: {variance.__file__}: no {part}; needed: ")


def test_a_figure_tells_the_files_that_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("layernorm_backward.figures._files.write", lambda *given: None)
    assert main(["figure", "variance", str(tmp_path), str(tmp_path / "mine.pdf")]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "mine.pdf"), str(tmp_path / "mine.png")]


@pytest.mark.parametrize("command", ["division_order", "figure"])
def test_what_is_written_for_a_reader_that_has_gone_is_no_error(command, tmp_path):
    table = tmp_path / "tables" / "division_order.csv"
    words = {
        "division_order": ["division_order", str(CONFIG), str(table)],
        "figure": ["figure", "pipeline", str(ROOT / "results/archive/xeon5-2core"), str(tmp_path / "it.pdf")],
    }
    reader, writer = os.pipe()
    os.close(reader)
    run = [sys.executable, "-m", "layernorm_backward", *words[command]]
    done = subprocess.run(run, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(writer)
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr


def test_a_table_that_another_folder_of_the_archive_holds_is_named(told, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    folder = Path("results/archive/xeon5-2core")
    said = f"error: {folder}/ceiling_gpu.csv: there is no such table, but results/archive/nvidia-h200/"
    assert told("figure", "roofline", folder, tmp_path / "roofline.pdf").startswith(said)


def test_numbers_are_worked_out_in_the_folder_that_holds_the_archive(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = "error: results/archive: there is no such folder; allowed: the repository's"
    entries = tmp_path / "numbers.yaml"
    entries.write_text("one: {table: eps, study: full, column: eps}", encoding="utf-8")
    assert told("numbers", entries, tmp_path, tmp_path / "numbers.json").startswith(said)


def test_elsewhere_a_figure_tells_the_table_that_is_not_there(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = f"error: {tmp_path}/variance.csv: there is no such table"
    assert told("figure", "variance", tmp_path, tmp_path / "variance.pdf").startswith(said)


def test_a_file_that_cannot_be_written_is_named_and_not_the_one_before_it(tmp_path, monkeypatch):
    def refuse(path, **how):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(PermissionError) as caught, files.whole(tmp_path / "out.csv"):
        pass
    assert caught.value.filename == str(tmp_path / "out.csv")


def test_a_folder_in_the_place_of_a_file_is_named_and_nothing_is_left_beside_it(tmp_path):
    folder = tmp_path / "out.csv"
    folder.mkdir()
    with pytest.raises(IsADirectoryError) as caught, files.whole(folder) as temporary:
        temporary.touch()
    assert caught.value.filename == str(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_record_names_the_code_that_ran(tmp_path, monkeypatch):
    path = tmp_path / "tables" / "division_order.csv"
    before, commit = study.experiment_hash("smoke", "division_order"), revision.commit()
    honest, read = division_order.run, Path.read_bytes

    def run(**arguments):
        """The experiment, whose module is edited and committed meanwhile."""
        monkeypatch.setattr(Path, "read_bytes", lambda it: read(it) + b" " * (it.stem == "division_order"))
        monkeypatch.setenv(revision.VARIABLE, "edited")
        return honest(**arguments)

    run.__signature__ = inspect.signature(honest)
    run.__annotations__ = honest.__annotations__
    monkeypatch.setattr(division_order, "run", run)
    monkeypatch.chdir(ROOT)
    assert main(["division_order", str(CONFIG), str(path)]) == 0
    record = jsonfile.load(path.with_suffix(".meta.json"))
    assert (record["code_hash"], record["commit"]) == (before, commit)


@pytest.mark.parametrize(
    ("step", "said"), [("variance", "writes table, samples"), ("crate", "Rewrite the machine-readable met")]
)
def test_the_help_of_a_step_says_what_it_does(step, said, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([step, "--help"])
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", study.CHOICES["study"])
def test_the_configs_of_the_studies_have_no_fault(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["check", name]) == 0


def test_an_unknown_study_cannot_be_checked(told):
    assert told("check", "smok") == "error: no study is called 'smok'; there are: paper, smoke, full\n"


def test_a_folder_without_config_files_is_no_study_without_faults(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = "error: config/smoke: there are no config files; allowed: the repository's folder\n"
    assert told("check", "smoke") == said


def test_a_bad_set_of_a_timing_on_a_gpu_is_told_without_one(told, tmp_path, monkeypatch):
    folder = tmp_path / "config" / "smoke"
    folder.mkdir(parents=True)
    (tmp_path / "paper").symlink_to(ROOT / "paper")
    sound = (ROOT / "config/smoke/timing_gpu.yaml").read_text()
    (folder / "timing_gpu.yaml").write_text(sound.replace("directions: [", "directions: [sideways, "))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.experiments, "EXPERIMENTS", ("timing_gpu",))
    said = "'sideways'; allowed: forward, backward\n"
    found = told("check", "smoke")
    assert found.startswith("error: config/smoke/timing_gpu.yaml: sets: ") and found.endswith(said)


def test_an_experiment_without_a_schema_is_told_before_it_is_measured(told, measuring, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.delitem(SCHEMAS, "division_order")
    said = "error: division_order: its table has no schema; give it one in "
    assert told("check", "smoke").startswith(said)
    measuring()
    assert told("division_order", CONFIG, tmp_path / "division_order.csv").startswith(said)


@pytest.fixture
def configs(tmp_path, monkeypatch) -> Path:
    """The folder of a study of two experiments, whose config files are both at fault."""
    monkeypatch.setattr(command.experiments, "EXPERIMENTS", ("division_order", "eps"))
    monkeypatch.chdir(tmp_path)
    Path("paper").symlink_to(ROOT / "paper")
    folder = Path("config/smoke")
    folder.mkdir(parents=True)
    (folder / "division_order.yaml").write_text("sed: 1\n")
    (folder / "eps.yaml").write_bytes(b"\xff")
    return folder


def test_all_faults_of_a_study_are_told_at_once(told, configs):
    lines = told("check", "smoke").splitlines()
    assert any(line.startswith(f"error: {configs}/division_order.yaml: sed: unknown key") for line in lines)
    assert lines[-1].startswith(f"error: {configs}/eps.yaml: not UTF-8 text")
    assert all(line.startswith("error: ") for line in lines)


def test_faults_of_the_papers_files_are_told_with_those_of_configs(told, configs):
    Path("paper").unlink()
    lines = told("check", "smoke").splitlines()
    assert any(line.startswith(f"error: {configs}/eps.yaml: ") for line in lines)
    assert lines[-1] == "error: paper/paper.md.j2: No such file or directory"


def test_packages_that_are_missing_do_not_stop_the_check(configs, monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'cupy'")

    monkeypatch.setattr(command.importlib, "import_module", missing)
    monkeypatch.setattr(study, "missing", lambda stem: ["cupy"])
    assert main(["check", "smoke"]) == 0
    monkeypatch.setattr(study, "missing", lambda stem: [])
    with pytest.raises(ModuleNotFoundError):
        main(["check", "smoke"])


def test_all_faults_of_a_config_are_told_as_errors(told, configs):
    (configs / "division_order.yaml").write_text("sed: 1\ndyptes: 2\n")
    lines = told("division_order", configs / "division_order.yaml", "division_order.csv").splitlines()
    assert len(lines) > 2 and all(line.startswith("error: config/smoke/") for line in lines)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("bnch", "no command is called 'bnch'; is bench meant? --help lists all"),
        ("timing_cpus", "is timing_cpu or timing_gpu"),
        ("zzz", "no command is called 'zzz'; --help lists all"),
    ],
)
def test_an_unknown_command_is_answered_by_similar_names(word, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([word, "x"])
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 2


def test_every_command_shows_its_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("bench", "audit", "gpu", *command._COMMANDS, *EXPERIMENTS))
