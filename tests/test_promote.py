"""Promotion copies a whole run into the archive with its provenance, or nothing."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from layernorm_backward.experiments import EXPERIMENTS
from layernorm_backward.records import candidates, crate, tables
from layernorm_backward.records.archive import verify
from layernorm_backward.records.promotable import require_later, require_name
from layernorm_backward.records.promote import promote
from layernorm_backward.records.recorded import read_record
from layernorm_backward.records.schemas import SCHEMAS
from workspace import ROOT


@pytest.fixture
def run(smoke, tmp_path) -> Path:
    """The results of a run that may be changed."""
    return Path(shutil.copytree(smoke.results, tmp_path / "results" / "smoke"))


@pytest.fixture
def archive(tmp_path) -> Path:
    return tmp_path / "archive"


def measured(path: Path) -> bool:
    """Whether a table is not one of those that a run without a GPU leaves empty."""
    return not path.stem.endswith("_gpu") or (tables.read(path)["reason"] == "").any()


def allowed(results: Path, archive: Path, machine: str = "some-machine") -> Path:
    return promote(results, machine, archive, studies=("smoke",))


def parts(folder: Path, *archived: str) -> Path:
    """The results of a run of the study full that has measured these tables of the archive."""
    (folder / "full" / "tables").mkdir(parents=True)
    for name in archived:
        for suffix in (".csv", ".meta.json"):
            shutil.copy(ROOT / f"results/archive/{name}{suffix}", folder / "full" / "tables")
    return folder / "full"


def test_tables_figure_and_provenance_are_copied(run, archive):
    folder = allowed(run, archive)
    assert folder == archive / "some-machine"
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    taken = {stem for stem in EXPERIMENTS if "archived" in tables.read_meta(run / "tables" / f"{stem}.csv")}
    empty = {path.stem for path in (run / "tables").glob("*.csv") if not measured(path)}
    assert set(provenance["tables"]) == {*EXPERIMENTS, "claims"} - taken - empty
    for stem, record in provenance["tables"].items():
        assert record["sha256"] == tables.sha256(folder / f"{stem}.csv"), stem
        assert len(record["code_hash"]) == 16
        assert len(tables.read(folder / f"{stem}.csv")) == record["rows"]
    records = [tables.read_meta(folder / f"{stem}.csv") for stem in provenance["tables"]]
    assert provenance["described"] == max(records, key=lambda record: record["date"])["machine"]
    assert provenance["study"] == "smoke"
    assert (folder / "timing_cpu.png").exists()
    assert (folder / "paper.pdf").read_bytes() == (run / "paper.pdf").read_bytes()
    assert (folder / crate.NAME).read_text(encoding="utf-8") == crate.text(folder)


def test_an_earlier_promotion_is_replaced(run, archive):
    (allowed(run, archive) / "stale.csv").touch()
    folder = allowed(run, archive)
    assert not (folder / "stale.csv").exists()
    assert [path.name for path in archive.iterdir()] == ["some-machine"]


def test_what_a_run_did_not_measure_stays_from_an_earlier_promotion(run, archive, capsys):
    folder = allowed(run, archive)
    earlier = (folder / "eps.csv").read_bytes()
    meta = tables.meta_path(run / "tables" / "eps.csv")
    record = json.loads(meta.read_text(encoding="utf-8"))
    meta.write_text(json.dumps(record | {"archived": "some-machine"}), encoding="utf-8")
    again = allowed(run, archive)
    assert (again / "eps.csv").read_bytes() == earlier
    kept = json.loads((again / "provenance.json").read_text(encoding="utf-8"))["tables"]["eps"]
    assert kept["commit"] == record["commit"] and kept["sha256"] == tables.sha256(again / "eps.csv")
    assert f"kept, not measured in this run: {folder / 'eps.csv'}" in capsys.readouterr().err
    assert "archived" not in tables.read_meta(again / "eps.csv")


def test_an_earlier_table_that_cannot_be_used_any_more_is_left_out_and_told(run, archive, capsys):
    folder = allowed(run, archive)
    (folder / "eps.csv").write_text("a\n1\n", encoding="utf-8")
    meta = tables.meta_path(run / "tables" / "eps.csv")
    record = json.loads(meta.read_text(encoding="utf-8"))
    meta.write_text(json.dumps(record | {"archived": "some-machine"}), encoding="utf-8")
    assert not (allowed(run, archive) / "eps.csv").exists()
    assert "left out: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "Xeon", "a b", "../a", "a--b", "-a"])
def test_a_bad_name_is_refused(run, archive, name):
    with pytest.raises(ValueError, match=r"MACHINE=.*allowed: lower-case letters"):
        allowed(run, archive, name)


def test_a_name_that_ends_in_full_without_a_hyphen_is_allowed():
    require_name("cpu-brimfull")


def test_what_is_made_is_as_late_as_its_tables_or_later(tmp_path):
    made, table = tmp_path / "paper.pdf", tmp_path / "eps.csv"
    table.touch()
    with pytest.raises(ValueError, match=r"paper\.pdf: there is no such file; run make paper first"):
        require_later(made, [table])
    made.touch()
    for path in (made, table):
        os.utime(path, ns=(10**18, 10**18))
    require_later(made, [table])


def test_a_name_of_folders_of_the_study_full_is_refused(tmp_path, archive):
    full = parts(tmp_path, "xeon5-2core-full/kernel_costs")
    with pytest.raises(
        ValueError, match=r"MACHINE=.*allowed: a name without -full, which the study full adds"
    ):
        promote(full, "xeon5-2core-full", archive)


@pytest.mark.parametrize(
    ("published", "there"),
    [
        ("xeon5-2core", "a run of the study paper"),
        ("nvidia-h200", "a campaign on a GPU of the study paper"),
    ],
)
def test_tables_of_another_study_stay(tmp_path, archive, published, there):
    full = parts(tmp_path, "xeon5-2core-full/kernel_costs")
    target = archive / "some-machine-full"
    shutil.copytree(ROOT / "results/archive" / published, target)
    said = f"{target}: holds {there}, not a run of the study full; allowed: another name"
    with pytest.raises(ValueError, match=re.escape(said)):
        promote(full, "some-machine", archive)
    assert {path.name for path in target.iterdir()} == {
        path.name for path in (ROOT / "results/archive" / published).iterdir()
    }


def test_a_folder_that_is_not_there_is_named(tmp_path, archive):
    with pytest.raises(ValueError, match=r"nowhere: there is no such folder; allowed: results/STUDY"):
        promote(tmp_path / "nowhere", "xeon-2core", archive)


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


@pytest.mark.parametrize(
    ("table", "made"),
    [
        ("eps", "tables/claims.csv"),
        ("timing_cpu", "figures/timing_cpu.png"),
        ("claims", "paper.pdf"),
    ],
)
def test_a_paper_of_older_tables_is_refused(run, archive, table, made):
    later = (run / "paper.pdf").stat().st_mtime_ns + 1
    os.utime(run / "tables" / f"{table}.csv", ns=(later, later))
    said = f"{run / made}: is older than {table}.csv; remove it, and run make paper first"
    with pytest.raises(ValueError, match=re.escape(said)):
        allowed(run, archive)
    assert not archive.exists()


def test_tables_from_two_machines_are_refused(run, archive):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8"))
    record["machine"]["cpu"] = "another processor"
    meta.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=r"several machines: .*another processor"):
        allowed(run, archive)


def test_a_run_may_hold_tables_of_the_processor_and_of_one_gpu(tmp_path, archive):
    full = parts(tmp_path, "epyc-2core/variance_time", "nvidia-h200/ceiling_gpu", "nvidia-h200/timing_gpu")
    folder = promote(full, "some-machine", archive)
    assert {path.stem for path in folder.glob("*.csv")} == {"variance_time", "ceiling_gpu", "timing_gpu"}
    described = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["described"]
    assert described == tables.read_meta(folder / "variance_time.csv")["machine"]
    meta = tables.meta_path(full / "tables" / "ceiling_gpu.csv")
    meta.write_text(meta.read_text(encoding="utf-8").replace("NVIDIA H200", "another GPU"), encoding="utf-8")
    with pytest.raises(ValueError, match="several machines: NVIDIA H200, another GPU"):
        promote(full, "some-machine", archive)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("machine", "fast", "machine must be an object, holds 'fast'"),
        ("date", 2026, "date must be text, holds 2026"),
        ("duration_s", None, "duration_s must be a number, holds None"),
    ],
)
def test_a_record_with_a_wrong_key_is_refused_with_file_and_key(run, archive, key, value, message):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8")) | {key: value}
    meta.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{meta}: {message}; measure")):
        allowed(run, archive)
    assert not archive.exists()


@pytest.mark.parametrize(
    "key", ["study", "config", "code_hash", "commit", "date", "duration_s", "machine", "rows"]
)
def test_each_key_that_a_record_lacks_is_named(tmp_path, key):
    table = parts(tmp_path, "epyc-2core/variance_time") / "tables" / "variance_time.csv"
    left = {name: value for name, value in tables.read_meta(table).items() if name != key}
    tables.meta_path(table).write_text(json.dumps(left), encoding="utf-8")
    with pytest.raises(tables.TableError, match=rf"{key} must be .*, is missing; measure the table again"):
        read_record(table)


def test_a_promoted_record_is_held_to_its_hash(run, archive, capsys):
    folder = allowed(run, archive)
    verify(folder / "eps.csv")
    meta = folder / "eps.meta.json"
    meta.write_text(meta.read_text(encoding="utf-8").replace('"numpy"', '"numpi"'), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{meta}: the record was cut or edited")):
        verify(folder / "eps.csv")
    record = tables.read_meta(run / "tables" / "eps.csv") | {"archived": "some-machine"}
    (run / "tables" / "eps.meta.json").write_text(json.dumps(record), encoding="utf-8")
    assert not (allowed(run, archive) / "eps.csv").exists()
    assert f"left out: {meta}: the record was cut or edited" in capsys.readouterr().err


def test_uncommitted_changes_are_reported(run, archive, capsys):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8")) | {"commit": "0123456789ab+changes"}
    meta.write_text(json.dumps(record), encoding="utf-8")
    folder = allowed(run, archive)
    assert "warning: the tables were measured with uncommitted changes" in capsys.readouterr().err
    assert json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["edited"]


def test_parts_of_the_full_study_are_promoted_beside_the_whole_run(run, archive):
    full = run.rename(run.with_name("full"))
    for path in (full / "tables").iterdir():
        if path.name.partition(".")[0] not in ("eps", "variance"):
            path.unlink()
    folder = promote(full, "some-machine", archive)
    assert folder == archive / "some-machine-full"
    assert {path.name for path in folder.iterdir()} == {
        "provenance.json",
        crate.NAME,
        *(f"{stem}.{suffix}" for stem in ("eps", "variance") for suffix in ("csv", "meta.json")),
    }


def test_a_large_table_of_the_full_study_is_left_out_and_told(run, archive, monkeypatch, capsys):
    full = run.rename(run.with_name("full"))
    own = [path for path in (full / "tables").glob("*.csv") if "archived" not in tables.read_meta(path)]
    sizes = {path.stem: path.stat().st_size for path in filter(measured, own) if path.stem in EXPERIMENTS}
    monkeypatch.setattr("layernorm_backward.records.candidates.MOST_BYTES", sizes["variance"])
    folder = promote(full, "some-machine", archive)
    kept = {stem for stem, size in sizes.items() if size <= sizes["variance"]}
    large = max(sizes, key=sizes.__getitem__)
    assert "variance" in kept and large not in kept
    assert {path.stem for path in folder.glob("*.csv")} == kept
    assert f"left out: {full / 'tables' / large}.csv" in capsys.readouterr().err


def test_a_full_study_without_tables_is_refused(tmp_path, archive):
    full = tmp_path / "full"
    full.mkdir()
    with pytest.raises(ValueError, match="holds no table; run the study full, or parts of it, first"):
        promote(full, "some-machine", archive)


def test_tables_of_a_gpu_in_the_full_study_are_no_campaign(tmp_path, archive):
    folder = promote(parts(tmp_path, "nvidia-h200/timing_gpu"), "some-machine", archive)
    assert folder == archive / "some-machine-full"
    assert {path.name for path in folder.iterdir()} == {
        "provenance.json",
        crate.NAME,
        "timing_gpu.csv",
        "timing_gpu.meta.json",
    }


def test_a_campaign_holds_tables_of_a_gpu_and_none_that_was_taken_from_the_archive(tmp_path):
    assert not candidates.is_campaign(tmp_path)
    results = parts(tmp_path, "nvidia-h200/ceiling_gpu")
    assert candidates.is_campaign(results)
    table = results / "tables" / "ceiling_gpu.csv"
    record = tables.read_meta(table) | {"archived": "nvidia-h200"}
    tables.meta_path(table).write_text(json.dumps(record), encoding="utf-8")
    assert not candidates.is_campaign(results)


def test_a_table_with_more_rows_replaces_one_of_a_later_date(tmp_path):
    path = parts(tmp_path, "nvidia-h200/ceiling_gpu") / "tables" / "ceiling_gpu.csv"
    fewer = tmp_path / "ceiling_gpu.csv"
    tables.write(tables.read(path).iloc[:-1], fewer, tables.read_meta(path) | {"date": "9999-01-01"})
    assert candidates.holds_less(fewer, path) and not candidates.holds_less(path, fewer)
    path.write_text("spoilt\n", encoding="utf-8")
    assert not candidates.holds_less(fewer, path)


def test_an_earlier_table_with_other_columns_is_left_out_and_told(tmp_path, archive, monkeypatch, capsys):
    target = promote(parts(tmp_path, "nvidia-h200/ceiling_gpu"), "some-machine", archive)
    assert candidates.kept(["ceiling_gpu"], target, set()) == [target / "ceiling_gpu.csv"]
    monkeypatch.setitem(SCHEMAS, "ceiling_gpu", SCHEMAS["timing_gpu"])
    capsys.readouterr()
    assert candidates.kept(["ceiling_gpu"], target, set()) == []
    assert capsys.readouterr().err.startswith(f"left out: {target / 'ceiling_gpu.csv'}")


def test_a_table_whose_commit_is_not_known_is_told(tmp_path, archive, capsys):
    full = parts(tmp_path, "epyc-2core/variance_time", "nvidia-h200/ceiling_gpu")
    table, said = full / "tables" / "variance_time.csv", "warning: the commit of some tables is not known"
    for commit, told in ((tables.read_meta(table)["commit"], False), ("", True)):
        record = tables.read_meta(table) | {"commit": commit}
        tables.meta_path(table).write_text(json.dumps(record), encoding="utf-8")
        promote(full, "some-machine", archive)
        assert (said in capsys.readouterr().err) == told


def test_what_was_taken_from_the_archive_is_not_promoted_again(run, archive):
    meta = run / "tables" / "eps.meta.json"
    record = json.loads(meta.read_text(encoding="utf-8")) | {"archived": "another-machine"}
    meta.write_text(json.dumps(record), encoding="utf-8")
    assert not (allowed(run, archive) / "eps.csv").exists()


def test_an_archive_stays_where_a_promotion_is_interrupted(run, archive, monkeypatch):
    folder = allowed(run, archive)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    rename = Path.rename

    def interrupted(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        allowed(run, archive)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in archive.iterdir()] == [folder.name]
