"""The archive stands in for what cannot be measured here, and says so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from layernorm_backward.__main__ import main
from layernorm_backward.records import archive, tables
from layernorm_backward.studies import study
from workspace import ROOT


def promoted(folder: Path, which: str, date: str, *stems: str) -> Path:
    """A folder as promotion leaves it, with one empty table a stem."""
    folder.mkdir(parents=True)
    (folder / "provenance.json").write_text(json.dumps({"study": which, "promoted": date}))
    for stem in stems:
        (folder / f"{stem}.csv").write_text("kernel\n")
        (folder / f"{stem}.meta.json").write_text(json.dumps({"config": {}, "sha256": stem}))
    return folder


@pytest.fixture
def kept(tmp_path) -> Path:
    promoted(tmp_path / "old", "paper", "2026-01-01", "eps", "model")
    promoted(tmp_path / "new", "paper", "2026-02-01", "eps")
    promoted(tmp_path / "newest", "full", "2026-03-01", "eps")
    return tmp_path


def test_the_newest_table_of_the_study_is_found(kept):
    assert archive.latest("eps", "paper", kept) == kept / "new" / "eps.csv"
    assert archive.latest("model", "paper", kept) == kept / "old" / "model.csv"
    assert archive.latest("eps", "full", kept) == kept / "newest" / "eps.csv"
    assert archive.latest("variance", "paper", kept) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("{}", "holds no date"),
        ("[]", "must hold one JSON object, holds list"),
        ('{"study": "full"}', "holds no date"),
    ],
)
def test_a_spoilt_provenance_is_named(kept, text, message):
    spoilt = kept / "old" / "provenance.json"
    spoilt.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        archive.latest("eps", "paper", kept)
    assert str(caught.value).startswith(f"{spoilt}: ")


def test_a_file_beside_the_folders_is_passed_over(kept):
    (kept / "README.md").write_text("# Archived results")
    assert archive.folders("paper", kept) == [kept / "new", kept / "old"]


def test_checksums_are_verified_by_the_command_in_the_archives_readme():
    folders = sorted(path.parent for path in (ROOT / archive.ARCHIVE).glob("*/provenance.json"))
    text = (ROOT / archive.ARCHIVE / "README.md").read_text(encoding="utf-8")
    (listing,) = re.findall(r"^    python3 -c \"(.+)\" \| sha256sum --check$", text, flags=re.MULTILINE)
    for folder in folders:
        done = subprocess.run(
            [sys.executable, "-c", listing], cwd=folder, capture_output=True, text=True, check=True
        )
        lines = [line.split("  ") for line in done.stdout.splitlines()]
        held = [*folder.glob("*.csv"), *folder.glob("*.meta.json")]
        assert {name for _, name in lines} == {path.name for path in held}
        assert [name for digest, name in lines if tables.sha256(folder / name) != digest] == []


def test_a_table_that_is_taken_says_where_it_comes_from(kept, tmp_path):
    out = tmp_path / "tables" / "model.csv"
    out.parent.mkdir()
    archive.take(kept / "old" / "model.csv", out, "f00")
    assert out.read_text() == "kernel\n"
    told = {"archived": "old", "code_here": "f00"}
    assert tables.read_meta(out) == {"config": {}, "sha256": "model"} | told
    assert "archived" not in tables.read_meta(kept / "old" / "model.csv")


def test_the_command_tells_which_code_would_measure_the_table_here(tmp_path):
    source = ROOT / "results/archive/nvidia-h200/timing_gpu.csv"
    out = tmp_path / "tables" / source.name
    assert main(["take", str(source), str(out)]) == 0
    record = tables.read_meta(out)
    kernels = record["config"]["kernels"]
    assert record["archived"] == "nvidia-h200" and kernels
    assert record["code_here"] == study.recorded_hash("timing_gpu", kernels) != study.recorded_hash("eps", [])


def test_a_table_is_not_taken_as_another(tmp_path, capsys):
    source, out = ROOT / "results/archive/nvidia-h200/timing_gpu.csv", tmp_path / "tables" / "eps.csv"
    assert main(["take", str(source), str(out)]) == 1
    assert f"{out}: the table must be called as its schema is" in capsys.readouterr().err
    assert not out.parent.exists()


def sealed(folder: Path, stem: str) -> Path:
    """The record of a table, whose hash the folder's provenance holds from now on."""
    provenance, table = folder / "provenance.json", folder / f"{stem}.csv"
    told = {"tables": {stem: {archive.RECORD_HASH: archive.record_hash(table)}}}
    provenance.write_text(json.dumps(json.loads(provenance.read_text()) | told))
    return tables.meta_path(table)


def cut(meta: Path) -> None:
    meta.write_text(meta.read_text()[:-5])


def edited(meta: Path) -> None:
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"machine": {"cpu": "faster"}}))


@pytest.mark.parametrize("spoil", [cut, edited, Path.unlink])
def test_a_record_that_is_not_the_promoted_one_is_refused(kept, tmp_path, spoil):
    meta = sealed(kept / "old", "eps")
    assert archive.tables("eps", "paper", kept) == [kept / "new" / "eps.csv", kept / "old" / "eps.csv"]
    spoil(meta)
    message = re.escape(
        f"{meta}: the record was cut or edited after it was promoted (its sha256 differs from "
    )
    with pytest.raises(ValueError, match=message):
        archive.tables("eps", "paper", kept)
    with pytest.raises(ValueError, match=message):
        archive.take(kept / "old" / "eps.csv", tmp_path / "tables" / "eps.csv", "f00")
    assert archive.latest("model", "paper", kept) == kept / "old" / "model.csv"


@pytest.fixture
def optional(monkeypatch, kept):
    """stand_in("model", choice), with the experiment `model` in need of these packages."""

    def stand_in(choice: str, *packages: str) -> Path | None:
        monkeypatch.setattr(study, "constant", lambda module, name: packages)
        monkeypatch.setattr(study.archive, "latest", lambda stem, which: archived(stem, which, kept))
        return study.stand_in("model", choice)

    archived = archive.latest
    return stand_in


def test_the_archive_stands_in_where_a_package_is_missing(optional, kept):
    there, missing = ("json",), ("json", "no_such_package_at_all")
    assert optional("auto", *missing) == kept / "old" / "model.csv"
    assert optional("auto", *there) is None
    assert optional("live", *missing) is None
    assert optional("archive", *there) == kept / "old" / "model.csv"
    assert optional("archive") is None


def test_the_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr(study, "constant", lambda module, name: ("json", "no_such_package_at_all"))
    assert study.missing("model") == ["no_such_package_at_all"]
