"""Promotion copies a whole run into the archive with its provenance, or nothing."""

import json
import shutil
from pathlib import Path

import pytest

from layernorm_backward import tables
from layernorm_backward.experiments import EXPERIMENTS
from layernorm_backward.promote import promote


@pytest.fixture
def run(smoke, tmp_path) -> Path:
    """The results of a run that may be changed."""
    return Path(shutil.copytree(smoke.results, tmp_path / "results" / "smoke"))


@pytest.fixture
def archive(tmp_path) -> Path:
    return tmp_path / "archive"


def allowed(results: Path, archive: Path, machine: str = "some-machine") -> Path:
    return promote(results, machine, archive, studies=("smoke",))


def test_tables_figure_and_provenance_are_copied(run, archive):
    folder = allowed(run, archive)
    assert folder == archive / "some-machine"
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert set(provenance["tables"]) == {*EXPERIMENTS, "claims"}
    for stem, record in provenance["tables"].items():
        assert record["sha256"] == tables.sha256(folder / f"{stem}.csv"), stem
        assert len(record["code_hash"]) == 16
        assert len(tables.read(folder / f"{stem}.csv")) == record["rows"]
    assert provenance["described"]["cpu"]
    assert provenance["study"] == "smoke"
    assert (folder / "timing_cpu.png").exists()
    assert (folder / "timing_cpu.png").exists()


def test_an_earlier_promotion_is_replaced(run, archive):
    (allowed(run, archive) / "stale.csv").touch()
    folder = allowed(run, archive)
    assert not (folder / "stale.csv").exists()
    assert [path.name for path in archive.iterdir()] == ["some-machine"]


@pytest.mark.parametrize("name", ["", "Xeon", "a b", "../a", "a--b", "-a"])
def test_a_bad_name_is_refused(run, archive, name):
    with pytest.raises(ValueError, match=r"MACHINE=.*allowed: lower-case letters"):
        allowed(run, archive, name)


def test_the_smoke_study_is_not_published(run, archive):
    with pytest.raises(ValueError, match="only these studies are published: paper, full"):
        promote(run, "some-machine", archive)


def test_a_missing_table_is_refused_and_the_archive_stays(run, archive):
    folder = allowed(run, archive)
    before = sorted(path.name for path in folder.iterdir())
    (run / "tables" / "eps.csv").unlink()
    with pytest.raises(ValueError, match=r"eps\.csv: there is no such table"):
        allowed(run, archive)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_an_edited_table_is_refused(run, archive):
    with (run / "tables" / "eps.csv").open("a", encoding="utf-8") as table:
        table.write("edited\n")
    with pytest.raises(ValueError, match=r"eps\.csv: the table was cut or edited"):
        allowed(run, archive)
    assert not archive.exists()


def test_tables_from_two_machines_are_refused(run, archive):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8"))
    record["machine"]["cpu"] = "another processor"
    meta.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=r"several machines: .*another processor"):
        allowed(run, archive)


def test_uncommitted_changes_are_told(run, archive, capsys):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8")) | {"commit": "0123456789ab+changes"}
    meta.write_text(json.dumps(record), encoding="utf-8")
    folder = allowed(run, archive)
    assert "warning: the tables were measured with uncommitted changes" in capsys.readouterr().err
    assert json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["edited"]
