"""What a study's folder holds, and what its jobs said."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from layernorm_backward import experiments, figures
from layernorm_backward.kernels import KERNELS
from layernorm_backward.records import provenance
from layernorm_backward.studies import study


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(study, "CONFIG", tmp_path)
    (tmp_path / "paper").mkdir()
    return tmp_path / "paper"


def test_hidden_files_are_no_experiments(folder, monkeypatch):
    monkeypatch.setattr(experiments, "EXPERIMENTS", ("eps",))
    (folder / "eps.yaml").touch()
    (folder / ".#eps.yaml").symlink_to("somebody@somewhere")
    assert study.stems("paper") == ("eps",)


def test_experiments_without_a_config_file_are_named(folder, monkeypatch):
    monkeypatch.setattr(experiments, "EXPERIMENTS", ("eps", "model", "variance"))
    (folder / "eps.yaml").touch()
    said = (
        f"{folder}/model.yaml, {folder}/variance.yaml: there is no such file; needed: one for each experiment"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        study.stems("paper")


@pytest.mark.parametrize(
    ("ask", "name", "where"),
    [(study.needs, "NEEDS", "experiments.eps"), (study.drawn_from, "TABLES", "figures.eps")],
)
def test_a_table_that_is_not_made_is_reported_with_who_wants_it(monkeypatch, ask, name, where):
    monkeypatch.setattr(study, "constant", lambda module, wanted: ("variancee",) * (wanted == name))
    said = f"layernorm_backward.{where}: {name}: there is no table 'variancee'; allowed: "
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        ask("eps")


def test_a_module_without_a_docstring_is_named(monkeypatch, tmp_path):
    (tmp_path / "new.py").write_text("TABLES = ()\n", encoding="utf-8")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"new\.py: no docstring; needed: one whose first line says"):
        provenance.title("layernorm_backward.new")


@pytest.mark.parametrize("content", [b"\xff", b"kernels: [[compact], 1]", b"kernels: [a"])
def test_a_spoilt_config_does_not_stop_the_plan(folder, content):
    (folder / "eps.yaml").write_bytes(content)
    assert len(study.experiment_hash("paper", "eps")) == 16


def test_the_code_behind_a_recorded_table_hangs_on_its_kernels():
    found = {
        names: study.recorded_hash("eps", names) for names in (("compact",), ("recentred",), ("no-such",))
    }
    assert found["no-such",] == ""
    assert len(set(found.values())) == 3


@pytest.mark.parametrize("module", ["eps", "style", "_files"])
def test_a_figure_hangs_on_what_draws_it_and_on_what_writes_it(monkeypatch, module):
    before, read = study.figure_hash("eps"), Path.read_bytes
    path = Path(figures.__file__).with_name(f"{module}.py")
    monkeypatch.setattr(Path, "read_bytes", lambda it: read(it) + b" " * (it == path))
    assert path.exists() and study.figure_hash("eps") != before


def test_the_errors_of_the_jobs_of_this_run_are_found(tmp_path):
    texts = {
        "done": "eps.csv: 12 rows\n",
        "told": "warning\nerror: a\nerror: b\n",
        "fault": "Traceback (most recent call last):\n  File\nKeyError: 'x'\n",
        "many": "error: a claim:\nflat: refuted\n",
        "old": "error: of an earlier run\n",
        "empty": "",
        "killed": "half of a table\n",
        "ended": "half\nFatal Python error: Segmentation fault\n\n  File theirs.py\n",
    }
    for stem, text in texts.items():
        (tmp_path / f"{stem}.log").write_text(text)
    os.utime(tmp_path / "old.log", (1, 1))
    os.utime(tmp_path / "told.log", (1000, 1000))
    said = "Error in rule told:\n    message: None\nError in rule killed:\nError in rule ended:\n"
    found = [line.removeprefix(f"{tmp_path}/") for line in study.errors(tmp_path, 1000, said)]
    assert found == [
        "ended.log: Fatal Python error: Segmentation fault",
        "fault.log: KeyError: 'x'",
        "killed.log: error: the process was killed; short of memory?",
        "many.log: error: a claim:",
        "many.log: flat: refuted",
        "told.log: error: a",
        "told.log: error: b",
    ]


def test_long_experiments_begin_first_and_all_go_before_the_figures():
    stems = ("mean_path", "audit_peers", "timing_cpu", "scaling")
    long, peers, timed, derived = map(study.priority, stems)
    assert long == peers > timed == derived > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu": "on"}, "--config gpu=on: allowed: auto, live, archive"),
        ({"gpus": "live"}, "--config gpus=live: unknown option; allowed: study, pdf, optional, gpu"),
    ],
)
def test_an_option_that_there_is_not_is_told(given, said):
    assert study.choose({"gpu": "live"}) == {
        "study": "paper",
        "pdf": "auto",
        "optional": "auto",
        "gpu": "live",
    }
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        study.choose(given)


def test_what_is_measured_on_a_gpu_has_an_option_of_its_own_and_runs_alone():
    chosen = {"gpu": "live", "optional": "archive"}
    assert [study.choice(stem, chosen) for stem in ("timing_gpu", "audit_peers")] == ["live", "archive"]
    assert study.on_device("timing_gpu") and not study.on_device("claims")
    for stem in ("timing_gpu", "timing_cpu"):
        assert study.threads(stem, max) is max
    assert study.threads("eps", max) == 1


def test_a_config_that_names_a_kernel_of_another_package_is_known(tmp_path, registered):
    path, name = tmp_path / "eps.yaml", registered(replace(KERNELS["compact"], name="theirs"))
    for names, foreign in ((["compact", name], True), (["compact", "none"], False)):
        path.write_text(f"kernels: [{', '.join(names)}]\n", encoding="utf-8")
        assert study.names_foreign(path) == foreign
