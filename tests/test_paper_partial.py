"""What an edited configuration no longer measures is n/a, or not measured; all else missing is an error."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from layernorm_backward.__main__ import main
from layernorm_backward.experiments import EXPERIMENTS
from layernorm_backward.paper import claims, numbers
from layernorm_backward.paper.partial import SUMMARIES, Excuses, _needs
from layernorm_backward.paper.predicates.judgement import ClaimMisfit
from layernorm_backward.records import tables
from layernorm_backward.studies import study

PUBLISHED = {"kernels": ["compact", "overcached"]}
EDITED = {"kernels": ["compact"]}
CLAIM = {
    "id": "flat",
    "origin": "ours",
    "source": "this paper",
    "says": "the memory stays small",
    "tables": {"scaling": {"kernel": "overcached"}},
    "predicate": "grows_linearly",
    "tolerance": 0.1,
    "scope": "any machine",
    "section": "sec:results",
    "strict": True,
}
NUMBER = {"table": "scaling", "where": {"kernel": "overcached"}, "column": "exponent"}
BASE = {"table": "scaling", "where": {"kernel": "compact"}, "column": "exponent"}
LOST = "config/paper/{}.yaml no longer measures this"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables of a run of the study `paper` in a tree with an archived run; not in CI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    archive = tmp_path / "results" / "archive" / "board"
    archive.mkdir(parents=True)
    for stem in ("scaling", "scaling_points"):
        meta = {"config": PUBLISHED, "sha256": ""}
        (archive / f"{stem}.csv").touch()
        (archive / f"{stem}.meta.json").write_text(json.dumps(meta), encoding="utf-8")
    record = {"study": "paper", "promoted": "2026-11-21T10:00:00+00:00"}
    (archive / "provenance.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path / "results" / "paper" / "tables"


def measured(folder: Path, config: dict, **more: object) -> None:
    """The table `scaling`, of the kernel `compact` alone."""
    row = {"kernel": "compact", "direction": "forward", "axis": "rows", "quantity": "memory", "reason": ""}
    fit = {"exponent": 1.0, "exponent_low": 1.0, "exponent_high": 1.0, "points": 7}
    tables.write(pd.DataFrame([row | fit | more]), folder / "scaling.csv", {"config": config})


def judged(folder: Path, **changes: object) -> dict:
    path = Path("claims.yaml")
    path.write_text(yaml.safe_dump([CLAIM | changes]), encoding="utf-8")
    return claims.run(path, folder).iloc[0].to_dict()


def collected(folder: Path, **entries: dict) -> dict:
    Path("numbers.yaml").write_text(yaml.safe_dump(entries), encoding="utf-8")
    numbers.write(Path("numbers.yaml"), folder, Path("numbers.json"))
    return json.loads(Path("numbers.json").read_text(encoding="utf-8"))


def derived_from_an_edited_table(folder: Path) -> None:
    """`scaling` as it was configured, computed from a table `scaling_points` that was not."""
    measured(folder, PUBLISHED)
    points = {"config": EDITED, "sha256": ""}
    (folder / "scaling_points.csv").touch()
    (folder / "scaling_points.meta.json").write_text(json.dumps(points), encoding="utf-8")


def test_a_claim_that_an_edited_table_has_no_rows_for_is_not_measured_and_names_the_file(folder, capsys):
    measured(folder, EDITED)
    row = judged(folder)
    assert (row["verdict"], row["reason"]) == ("not measured", LOST.format("scaling"))
    assert capsys.readouterr().err == (
        "warning: 1 claim not measured: edited config files no longer measure their rows:\n"
        "  config/paper/scaling.yaml: flat\n"
    )


def test_only_the_archive_shows_whether_a_table_was_edited(folder, tmp_path, monkeypatch):
    measured(folder, EDITED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ValueError, match="results/archive: there is no such folder; allowed: the repository"):
        judged(folder)


def test_a_number_that_an_edited_table_has_no_rows_for_is_not_available_nor_what_it_divides(folder, capsys):
    measured(folder, EDITED)
    found = collected(folder, one=NUMBER, two=BASE | {"per": "one"}, three=BASE)
    assert {name: it["text"] for name, it in found.items()} == {"one": "n/a", "two": "n/a", "three": "1.00"}
    assert found["one"]["value"] is None
    assert capsys.readouterr().err == (
        "warning: 2 numbers n/a: edited config files no longer measure their rows:\n"
        "  config/paper/scaling.yaml: one, two\n"
    )


def test_a_number_over_a_list_is_not_available_once_an_edited_table_lacks_one_of_its_names(folder, capsys):
    row = {"direction": "forward", "axis": "rows", "quantity": "memory", "reason": ""}
    fit = {"exponent": 1.0, "exponent_low": 1.0, "exponent_high": 1.0, "points": 7}
    published = pd.DataFrame([{"kernel": name} | row | fit for name in PUBLISHED["kernels"]])
    tables.write(published, folder.parents[1] / "archive" / "board" / "scaling.csv", {"config": PUBLISHED})
    measured(folder, EDITED)
    over = BASE | {"reduce": "max"}
    both = over | {"where": {"kernel": PUBLISHED["kernels"]}}
    either = over | {"where": {"kernel": ["compact", "no_such_kernel"]}}
    found = collected(folder, both=both, either=either)
    assert {name: it["text"] for name, it in found.items()} == {"both": "n/a", "either": "1.00"}
    assert capsys.readouterr().err.endswith("  config/paper/scaling.yaml: both\n")


def test_a_table_computed_from_an_edited_one_may_lack_rows_too(folder, capsys):
    derived_from_an_edited_table(folder)
    assert judged(folder)["reason"] == LOST.format("scaling_points")
    assert collected(folder, one=NUMBER)["one"]["text"] == "n/a"
    assert capsys.readouterr().err.count("  config/paper/scaling_points.yaml: ") == 2


def test_what_lost_its_rows_in_two_edited_tables_is_counted_once_and_names_both_files(folder, capsys):
    derived_from_an_edited_table(folder)
    measured(folder, EDITED)
    excuses = Excuses(folder)
    both = [f"config/paper/{stem}.yaml" for stem in ("scaling", "scaling_points")]
    assert excuses.reason("one", ["scaling"]) == f"{' and '.join(both)} no longer measure this"
    excuses.warn("number", "n/a")
    first, *lines = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: 1 number n/a: ") and lines == [f"  {path}: one" for path in both]


def test_what_a_table_is_computed_from_is_what_the_workflow_says():
    assert {stem: _needs(stem) for stem in EXPERIMENTS} == {stem: study.needs(stem) for stem in EXPERIMENTS}


def test_a_summary_of_all_tables_may_lack_rows_where_one_table_was_edited(folder):
    measured(folder, EDITED)
    for stem in SUMMARIES:
        (folder / f"{stem}.csv").touch()
    assert Excuses(folder).edited(["comparison"]) == ["scaling"]
    measured(folder, PUBLISHED)
    assert Excuses(folder).edited(["claims"]) == []


@pytest.mark.parametrize("config", [PUBLISHED, EDITED])
def test_nothing_is_excused_in_a_table_as_it_was_configured_nor_in_ci(folder, config, monkeypatch, capsys):
    measured(folder, config)
    if config == EDITED:
        monkeypatch.setenv("CI", "true")
    advice = r"measure such rows \(config/paper/scaling\.yaml\), or change the"
    with pytest.raises(claims.ClaimError, match=rf"^claims\.yaml: flat: scaling has no .*; {advice} claim$"):
        judged(folder)
    with pytest.raises(numbers.NumberError, match=rf"^numbers\.yaml: one: scaling\..*; {advice} entry$"):
        collected(folder, one=NUMBER)
    assert capsys.readouterr().err == ""


def test_nothing_is_excused_in_a_table_of_another_study(folder):
    measured(folder, EDITED)
    full = folder.parents[1] / "archive" / "full"
    measured(full, PUBLISHED)
    record = {"study": "full", "promoted": "2026-11-21T10:00:00+00:00"}
    (full / "provenance.json").write_text(json.dumps(record), encoding="utf-8")
    said = r"^numbers\.yaml: one: scaling\..*; measure such rows \(the archive\), or change the entry$"
    with pytest.raises(numbers.NumberError, match=said):
        collected(folder, one=NUMBER | {"study": "full"})


def test_in_ci_an_edited_table_is_no_fault_of_the_machine(folder, monkeypatch):
    measured(folder, PUBLISHED)
    config = Path("config/paper/scaling.yaml")
    config.parent.mkdir(parents=True)
    config.write_text(yaml.safe_dump(PUBLISHED), encoding="utf-8")
    assert judged(folder, scope="this machine")["reason"] == "no such cell could be measured on this machine"
    measured(folder, EDITED)
    assert judged(folder, scope="this machine")["reason"] == LOST.format("scaling")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(claims.ClaimError, match="flat: scaling has no rows"):
        judged(folder, scope="this machine")


def test_in_ci_the_smoke_study_is_excused_and_no_warning_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CI", "true")
    smoke = tmp_path / "results" / "smoke" / "tables"
    measured(smoke, EDITED)
    assert judged(smoke)["reason"] == "the smoke study does not measure these rows"
    assert collected(smoke, one=NUMBER)["one"]["text"] == "n/a"
    assert capsys.readouterr().err == ""


def test_a_verdict_about_the_rows_that_are_left_stops_the_paper_all_the_same(folder):
    measured(folder, EDITED, exponent=2.0, exponent_low=2.0, exponent_high=2.0)
    Path("claims.yaml").write_text(yaml.safe_dump([CLAIM | {"tables": {"scaling": {}}}]), encoding="utf-8")
    assert main(["claims", "claims.yaml", str(folder), "claims.csv"]) == 1


def test_all_faulty_claims_and_numbers_are_reported_at_once(folder):
    measured(folder, PUBLISHED)
    with pytest.raises(numbers.NumberError, match=r"^numbers\.yaml: one: .*\nnumbers\.yaml: two: ") as caught:
        collected(folder, one=NUMBER, two=NUMBER, three=BASE)
    assert "three" not in str(caught.value)


def test_a_selection_that_a_predicate_refuses_is_reported_with_its_claim(folder, monkeypatch):
    def refuses(scaling: pd.DataFrame, *, tolerance: float) -> None:
        raise ClaimMisfit("two are compared")

    monkeypatch.setitem(claims.PREDICATES, "grows_linearly", refuses)
    everything = {"tables": {"scaling": {}}, "scope": "this machine"}
    measured(folder, PUBLISHED)
    with pytest.raises(claims.ClaimError, match=r"^claims\.yaml: flat: two are compared; measure"):
        judged(folder, **everything)
    measured(folder, EDITED)
    assert judged(folder, **everything)["reason"] == LOST.format("scaling")


def test_the_paper_names_the_config_files_that_were_edited(folder, monkeypatch):
    measured(folder, PUBLISHED)
    assert Excuses(folder).edited_files() == []
    measured(folder, EDITED)
    assert Excuses(folder).edited_files() == ["config/paper/scaling.yaml"]
    monkeypatch.setenv("CI", "true")
    assert Excuses(folder).edited_files() == []


@pytest.mark.parametrize("name", ["smoke", "full"])
def test_another_study_is_no_edited_one(folder, name):
    other = folder.parents[1] / name / "tables"
    measured(other, EDITED)
    assert Excuses(other).edited_files() == []


def test_a_table_whose_record_holds_no_configuration_is_not_an_edited_one(folder):
    measured(folder, EDITED)
    assert Excuses(folder).edited_files() == ["config/paper/scaling.yaml"]
    record = tables.read_meta(folder / "scaling.csv")
    del record["config"]
    tables.meta_path(folder / "scaling.csv").write_text(json.dumps(record), encoding="utf-8")
    assert Excuses(folder).edited_files() == []
