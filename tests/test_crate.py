"""Every archive folder holds an RO-Crate: complete, linked, true to its files, the same on every writing."""

import json
import re
import shutil
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from rocrate.rocrate import ROCrate
from rocrate.vocabs import RO_CRATE

from layernorm_backward.__main__ import main
from layernorm_backward.records import crate, tables
from layernorm_backward.records.archive import ARCHIVE
from workspace import ROOT

FOLDERS = sorted(path.parent for path in (ROOT / ARCHIVE).glob("*/provenance.json"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def entities(folder: Path) -> dict[str, dict]:
    """The entities of a folder's crate by their @id, which stands once."""
    graph = json.loads((folder / crate.NAME).read_text(encoding="utf-8"))["@graph"]
    found = {entity["@id"]: entity for entity in graph}
    assert len(found) == len(graph)
    return found


def links(entity: dict) -> list[str]:
    """What an entity refers to."""
    values = (value if isinstance(value, list) else [value] for value in entity.values())
    return [one["@id"] for several in values for one in several if isinstance(one, dict)]


def linked(entity: dict, key: str) -> list[str]:
    return links({key: entity[key]})


def provenance(folder: Path) -> dict:
    return json.loads((folder / "provenance.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of an archive folder, which may be changed."""
    return Path(shutil.copytree(ROOT / ARCHIVE / "epyc-2core", tmp_path / "copy"))


def test_there_are_archives():
    assert FOLDERS


@each_folder
def test_the_committed_crate_is_up_to_date(folder):
    stale = f"stale; write it anew: python -m layernorm_backward crate {ARCHIVE / folder.name}"
    assert (folder / crate.NAME).read_text(encoding="utf-8") == crate.text(folder), stale


@each_folder
def test_the_library_reads_the_crate_and_every_term_is_in_its_context(folder):
    read = ROCrate(folder)
    assert read.version == crate.VERSION
    assert {part.id for part in read.data_entities} == {path.name for path in parts(folder)}
    for entity in entities(folder).values():
        assert {entity["@type"], *entity} - {"@id", "@type"} <= set(RO_CRATE["@context"]), entity["@id"]


@each_folder
def test_the_root_says_what_is_published_when_by_whom_and_under_which_licence(folder):
    found, record = entities(folder), provenance(folder)
    assert found[crate.NAME] == {
        "@id": crate.NAME,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.2"},
    }
    root = found["./"]
    assert root["@type"] == "Dataset"
    assert record["machine"] in root["name"] and record["study"] in root["name"]
    assert root["description"]
    assert root["datePublished"] == record["promoted"]
    assert root["version"] == CITATION["version"]
    assert record["commit"] in root["creditText"]
    (licence,) = linked(root, "license")
    assert found[licence]["name"] == "CC-BY-4.0"
    for key in ("author", "publisher"):
        (author,) = linked(root, key)
        assert found[author]["@type"] == "Organization"
        assert found[author]["name"] == "The layernorm-backward authors"
    assert "Person" not in {entity["@type"] for entity in found.values()}


@each_folder
def test_every_file_is_a_part_once_with_its_hash_size_and_format(folder):
    found = entities(folder)
    assert linked(found["./"], "hasPart") == [path.name for path in parts(folder)]
    for path in parts(folder):
        assert found[path.name]["@type"] == "File"
        assert found[path.name]["sha256"] == tables.sha256(path)
        assert found[path.name]["contentSize"] == str(path.stat().st_size)
        assert found[path.name]["encodingFormat"] == crate.FORMATS[path.suffix]


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != crate.NAME)


@each_folder
def test_every_table_has_its_rows_its_record_and_what_it_shows(folder):
    found = entities(folder)
    for stem, record in provenance(folder)["tables"].items():
        table, meta = found[f"{stem}.csv"], found[f"{stem}.meta.json"]
        assert table["encodingFormat"] == "text/csv"
        assert table["sha256"] == record["sha256"]
        assert len(table["description"]) > 20
        (size,) = linked(table, "size")
        assert (found[size]["value"], found[size]["unitText"]) == (record["rows"], "rows")
        assert linked(table, "subjectOf") == [meta["@id"]] and linked(meta, "about") == [table["@id"]]


@each_folder
def test_every_table_is_the_result_of_a_run_of_the_software_on_the_machine(folder):
    found, record = entities(folder), provenance(folder)
    for stem, one in record["tables"].items():
        run = found[f"#run-{stem}"]
        assert run["@type"] == "CreateAction"
        assert linked(run, "result") == [f"{stem}.csv", f"{stem}.meta.json"]
        machine, code = (found[link] for link in linked(run, "instrument"))
        assert (machine["@type"], machine["name"]) == ("IndividualProduct", record["machine"])
        assert (code["@type"], code["version"]) == ("SoftwareSourceCode", one["commit"])
        if "gpu" in record["described"]:  # a campaign may have been resumed: its beginning is not known
            assert run["endTime"] == one["date"] and "startTime" not in run
            continue
        took = datetime.fromisoformat(run["endTime"]) - datetime.fromisoformat(run["startTime"])
        assert run["startTime"] == one["date"]
        assert 0 <= one["duration_s"] - took.total_seconds() < 1
    told = {
        found[link]["name"]: found[link]["value"] for link in linked(found["#machine"], "additionalProperty")
    }
    assert {"cpu", "os"} <= set(told) and told.items() <= record["described"].items()


@each_folder
def test_the_software_is_that_of_the_citation_file(folder):
    found = entities(folder)
    software = found["#software"]
    assert (software["name"], software["version"]) == (CITATION["title"], CITATION["version"])
    assert [found[link]["name"] for link in linked(software, "license")] == CITATION["license"]


@each_folder
def test_what_is_referred_to_is_defined_or_a_uri_and_the_root_leads_to_all(folder):
    found = entities(folder)
    reached, todo = {crate.NAME}, ["./"]
    while todo:
        name = todo.pop()
        if name in found and name not in reached:
            reached.add(name)
            todo.extend(links(found[name]))
    assert reached == set(found)
    undefined = {link for entity in found.values() for link in links(entity)} - set(found)
    assert [link for link in undefined if not re.match(r"https://[\w.]+/", link)] == []


def test_the_same_folder_gives_the_same_bytes_wherever_it_lies(folder):
    committed = (ROOT / ARCHIVE / "epyc-2core" / crate.NAME).read_bytes()
    for _ in range(2):
        assert crate.write(folder).read_bytes() == committed


def test_a_campaign_on_a_gpu_is_of_the_gpu_and_dates_the_end_of_its_tables_only(folder):
    change(folder, described=provenance(folder)["described"] | {"gpu": "some GPU"})
    crate.write(folder)
    found = entities(folder)
    assert found["#machine"]["model"] == found["#gpu"]["value"] == "some GPU"
    assert found["#run-eps"]["endTime"] == provenance(folder)["tables"]["eps"]["date"]
    assert "startTime" not in found["#run-eps"]


def change(folder: Path, **keys: object) -> None:
    """Change keys of a folder's provenance."""
    text = json.dumps(provenance(folder) | keys)
    (folder / "provenance.json").write_text(text, encoding="utf-8")


def test_a_commit_that_is_not_known_leaves_the_software_as_such(folder):
    stems = {stem: one | {"commit": ""} for stem, one in provenance(folder)["tables"].items()}
    change(folder, tables=stems, commit="")
    crate.write(folder)
    found = entities(folder)
    assert linked(found["#run-eps"], "instrument") == ["#machine", "#software"]
    assert found["./"]["creditText"].endswith(CITATION["version"])


def test_a_table_outlives_its_experiment(folder):
    stems = provenance(folder)["tables"]
    change(folder, tables=stems | {"gone": stems["eps"]})
    for suffix in (".csv", ".meta.json"):
        shutil.copyfile(folder / f"eps{suffix}", folder / f"gone{suffix}")
    crate.write(folder)
    assert entities(folder)["gone.csv"]["description"] == "The table gone, of an experiment that is no more"


def test_a_folder_that_is_no_archive_is_refused(tmp_path, capsys):
    assert main(["crate", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert (
        f"{tmp_path / 'provenance.json'}: there is no such file; allowed: a folder that was promoted" in told
    )


def test_a_provenance_that_is_none_is_refused(folder):
    (folder / "provenance.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"provenance\.json: must hold one JSON object, holds list"):
        crate.text(folder)
    (folder / "provenance.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"provenance\.json: missing keys: machine, study.*needed: machine"):
        crate.text(folder)
    (folder / "provenance.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"provenance\.json: not valid JSON"):
        crate.text(folder)


@pytest.mark.parametrize("key", ["machine", "study", "promoted", "commit", "described", "tables"])
def test_each_key_that_a_provenance_lacks_is_named(folder, key):
    left = {name: value for name, value in provenance(folder).items() if name != key}
    (folder / "provenance.json").write_text(json.dumps(left), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"provenance\.json: missing keys: {key}; needed: "):
        crate.text(folder)


def test_a_record_that_was_edited_is_refused(folder):
    meta = folder / "eps.meta.json"
    meta.write_text(meta.read_text(encoding="utf-8").replace("EPYC", "EPIC"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"eps\.meta\.json: the record was cut or edited"):
        crate.text(folder)


def test_a_hidden_file_is_no_part(folder):
    before = crate.text(folder)
    (folder / ".DS_Store").touch()
    assert crate.text(folder) == before


def test_a_file_that_is_no_tables_is_refused(folder):
    (folder / "notes.csv").write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"copy: missing files: none, unknown files: notes\.csv; allowed: "):
        crate.text(folder)


def test_files_that_are_missing_unknown_or_edited_are_refused_and_the_crate_stays(folder):
    before = (folder / crate.NAME).read_bytes()
    (folder / "eps.csv").rename(folder / "other.csv")
    with pytest.raises(
        ValueError, match=r"copy: missing files: eps\.csv, unknown files: other\.csv; allowed: "
    ):
        crate.write(folder)
    (folder / "other.csv").unlink()
    (folder / "eps.csv").write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"eps\.csv: the table was edited: its sha256 differs"):
        crate.write(folder)
    assert (folder / crate.NAME).read_bytes() == before
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []
