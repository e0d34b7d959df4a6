"""A run is compared with the archived one cell by cell; what may differ is allowed, and nothing else."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from layernorm_backward import machine
from layernorm_backward.__main__ import main
from layernorm_backward.paper import comparison, partial
from layernorm_backward.paper.predicates.judgement import Judgement
from layernorm_backward.records import tables
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.studies.summary import main as summarize
from layernorm_backward.studies.summary import summary

CONFIG = {"seed": 1}
RECORD = {
    "study": "paper",
    "config": CONFIG,
    "date": "2026-02-02",
    "code_hash": "1",
    "commit": "abc",
    "duration_s": 1.0,
    "machine": {"cpu": "one"},
}


def edge_cases(**changes: object) -> pd.DataFrame:
    kernels = ["recentred", "numba_fused"]
    table = pd.DataFrame(
        {"kernel": kernels, "case": "one_row", "dtype": "float64", "passed": True, "value": [0.25, 1.0]}
    )
    return table.assign(reason=["", "measured again"]).assign(**changes)


class Runs:
    """A run of the study paper, and an archive that holds others."""

    def __init__(self, root: Path) -> None:
        self.tables, self.archive = root / "paper" / "tables", root / "archive"
        self.tables.mkdir(parents=True)
        self.folder = self.promoted("some-machine", "2026-01-01")

    def promoted(self, machine: str, date: str) -> Path:
        folder = self.archive / machine
        folder.mkdir(parents=True)
        (folder / "provenance.json").write_text(json.dumps({"study": "paper", "promoted": date}))
        return folder

    def compared(self, ours: pd.DataFrame, theirs: pd.DataFrame, **meta: object) -> pd.Series:
        tables.write(ours, self.tables / "edge_cases.csv", RECORD | meta)
        tables.write(theirs, self.folder / "edge_cases.csv", RECORD | {"date": "2026-01-01"})
        return self.again()

    def again(self) -> pd.Series:
        return comparison.run(self.tables, ["edge_cases"], self.archive).iloc[0]


@pytest.fixture
def runs(tmp_path) -> Runs:
    return Runs(tmp_path)


def test_equal_tables_agree_whatever_their_reasons_say(runs):
    row = runs.compared(edge_cases(), edge_cases(reason=["", "x"]))
    assert row["passed"]
    assert (row["rows"], row["cells"], row["equal"], row["beyond"]) == (2, 4, 4, 0)
    assert row["archive"] == "some-machine"


def test_a_difference_in_the_last_bit_is_detected_in_exact_tables(runs):
    row = runs.compared(edge_cases(value=[np.nextafter(0.25, 1), 1.0]), edge_cases())
    assert not row["passed"]
    assert (row["equal"], row["beyond"]) == (3, 1)
    assert 0 < row["largest_difference"] < 1e-15


def test_an_archived_table_with_the_columns_of_former_code_is_not_compared(runs, monkeypatch):
    now = SCHEMAS["edge_cases"]
    values = {name: kind for name, kind in now.values.items() if name != "value"}
    with monkeypatch.context() as before:
        before.setitem(SCHEMAS, "edge_cases", replace(now, values=values))
        theirs = edge_cases().drop(columns="value")
        tables.write(theirs, runs.folder / "edge_cases.csv", RECORD | {"date": "2026-01-01"})
    tables.write(edge_cases(), runs.tables / "edge_cases.csv", RECORD)
    row = runs.again()
    assert row["archive"] == "some-machine"
    assert row["reason"] == "the archived table has other columns: it is from other code, abc"
    assert pd.isna(row["passed"])


def test_a_difference_is_a_share_of_the_larger_number(runs):
    assert runs.compared(edge_cases(value=[0.25, 2.0]), edge_cases())["largest_difference"] == 0.5


def test_a_difference_within_what_the_schema_allows_is_none_beyond(runs, monkeypatch):
    monkeypatch.setitem(SCHEMAS, "edge_cases", replace(SCHEMAS["edge_cases"], repeats=0.1))
    row = runs.compared(edge_cases(value=[0.25, 1.05]), edge_cases())
    assert (row["passed"], row["beyond"], row["equal"]) == (True, 0, 3)
    assert row["allowed_difference"] == 0.1


def test_a_table_of_the_same_date_is_another_run_where_its_contents_differ(runs):
    row = runs.compared(edge_cases(value=[0.25, 2.0]), edge_cases(), date="2026-01-01")
    assert (row["archive"], row["beyond"]) == ("some-machine", 1)


def test_a_compiled_kernel_is_held_to_the_same_bits_as_any_other(runs):
    row = runs.compared(edge_cases(value=[0.25, np.nextafter(1.0, 2)]), edge_cases())
    assert (row["passed"], row["beyond"]) == (False, 1)


def test_a_verdict_that_turned_and_a_number_that_went_are_differences(runs):
    assert runs.compared(edge_cases(passed=[False, True]), edge_cases())["beyond"] == 1
    assert runs.compared(edge_cases(value=[np.nan, 1.0]), edge_cases())["beyond"] == 1
    assert runs.compared(edge_cases(value=[np.inf, 1.0]), edge_cases())["beyond"] == 1


def test_rows_without_a_partner_are_counted(runs):
    row = runs.compared(edge_cases(), edge_cases(case=["one_row", "no_rows"]))
    assert (row["rows"], row["unmatched_rows"]) == (1, 2)
    assert not row["passed"]


def test_tables_with_nothing_in_common_do_not_agree(runs):
    row = runs.compared(edge_cases(), edge_cases(case="no_rows"))
    assert row["rows"] == 0
    assert not row["passed"]


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ({"config": {"seed": 2}}, "the archived run had a different configuration"),
        ({"archived": "some-machine"}, "taken from the archive, not measured in this run"),
        ({"code_hash": "2"}, "other code, abc"),
    ],
)
def test_what_cannot_be_compared_says_why(runs, meta, reason):
    row = runs.compared(edge_cases(value=[9.0, 9.0]), edge_cases(), **meta)
    assert row["reason"] == reason
    assert pd.isna(row["passed"])


def test_a_record_of_this_run_without_what_is_compared_is_named(runs):
    with pytest.raises(tables.TableError, match=r"edge_cases\.meta\.json: commit must be text, holds None"):
        runs.compared(edge_cases(), edge_cases(), commit=None)


@pytest.mark.parametrize(
    ("commit", "named"), [("0123456789ab+changes", "0123456+changes"), ("", "an unknown commit")]
)
def test_other_code_is_reported_by_its_commit(runs, commit, named):
    runs.compared(edge_cases(value=[9.0, 9.0]), edge_cases(), code_hash="2")
    archived = runs.folder / "edge_cases.csv"
    tables.write(edge_cases(), archived, RECORD | {"date": "2026-01-01", "commit": commit})
    assert runs.again()["reason"] == f"other code, {named}"


def test_a_table_of_other_code_may_agree_and_need_not(runs):
    row = runs.compared(edge_cases(), edge_cases(), code_hash="2")
    assert (row["passed"], row["beyond"], row["reason"]) == (True, 0, "other code, abc")
    assert runs.compared(edge_cases(), edge_cases(value=[9.0, 1.0]), code_hash="2")["beyond"] == 1


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(comparison, "COMPILED", {"edge_cases"})


@pytest.mark.parametrize(
    "machine",
    [{"cpu": "another"}, {"cpu": "one", "vectors": "AVX-512"}, {"cpu": "one", "last_level_cache_bytes": 1}],
    ids=str,
)
def test_what_packages_compile_for_another_processor_need_not_agree(runs, compiled, machine):
    told = "packages compile for the processor: one there"
    row = runs.compared(edge_cases(), edge_cases(value=[9.0, 1.0]), machine=machine)
    assert (row["beyond"], row["reason"]) == (1, told) and pd.isna(row["passed"])
    row = runs.compared(edge_cases(), edge_cases(), machine=machine)
    assert (row["passed"], row["reason"]) == (True, told)


def test_two_designs_of_one_name_are_two_processors_where_both_runs_tell_them(runs, compiled):
    milan, genoa = ({"cpu": "one", "design": f"family 25, model {model}"} for model in (1, 17))
    runs.compared(edge_cases(), edge_cases(), machine=milan)
    archived = runs.folder / "edge_cases.csv"
    for design, alike in ((milan, True), (genoa, False), ({"cpu": "one"}, True)):
        tables.write(edge_cases(), archived, RECORD | {"date": "2026-01-01", "machine": design})
        assert (runs.again()["reason"] == "") == alike


def test_what_packages_compile_for_the_same_processor_is_to_agree(runs, compiled):
    assert not runs.compared(edge_cases(), edge_cases(value=[9.0, 1.0]))["passed"]


def test_all_other_tables_are_to_agree_on_any_processor(runs):
    assert not runs.compared(edge_cases(), edge_cases(value=[9.0, 1.0]), machine={"cpu": "x"})["passed"]


def test_the_newest_table_of_a_like_processor_comes_first(runs, compiled):
    newer = RECORD | {"date": "2026-01-03", "machine": {"cpu": "another"}}
    tables.write(edge_cases(value=[9.0, 1.0]), runs.promoted("newer", "2026-03-03") / "edge_cases.csv", newer)
    row = runs.compared(edge_cases(), edge_cases())
    assert (row["archive"], row["passed"]) == ("some-machine", True)
    row = runs.compared(edge_cases(), edge_cases(), machine={"cpu": "a third"})
    assert (row["archive"], row["reason"]) == ("newer", "packages compile for the processor: another there")


def test_what_packages_compile_is_a_table():
    assert set(SCHEMAS) > comparison.COMPILED > set()


def test_a_table_is_not_compared_with_its_own_copy(runs):
    """After a promotion the newest archived tables are those of the run itself."""
    assert runs.compared(edge_cases(), edge_cases(value=[9.0, 1.0]))["beyond"] == 1
    shutil.copytree(runs.tables, runs.promoted("this-machine", "2026-03-03"), dirs_exist_ok=True)
    row = runs.again()
    assert (row["archive"], row["beyond"]) == ("some-machine", 1)
    shutil.rmtree(runs.folder)
    row = runs.again()
    assert row["reason"] == "the archive has only a copy of this table"
    assert pd.isna(row["passed"])


def test_times_belong_to_the_machine_and_other_studies_are_not_in_the_archive(runs):
    assert SCHEMAS["timing_cpu"].repeats is None
    for stem in ("timing_cpu", "eps"):
        record = RECORD | {"rows": 1, "sha256": ""}
        (runs.tables / f"{stem}.meta.json").write_text(json.dumps(record), encoding="utf-8")
    found = comparison.run(runs.tables, ["timing_cpu", "eps"], runs.archive)
    assert list(found["reason"]) == [
        "belongs to the machine",
        "the archive has no such table of the study paper",
    ]


def ended(runs):
    """The end of a run with one claim, and a table that differs."""
    runs.compared(edge_cases(value=[9.0, 9.0]), edge_cases())
    tables.write(
        comparison.run(runs.tables, ["edge_cases"], runs.archive), runs.tables / "comparison.csv", {}
    )
    claims = {"claim": ["a"], "origin": "ours", "source": "x", "says": "y", "scope": "z", "section": "s"}
    judged = pd.DataFrame(claims | Judgement("confirmed", "", "", "")._asdict() | {"strict": True})
    tables.write(judged, runs.tables / "claims.csv", {})
    (runs.tables.parent / "paper.pdf").touch()
    with mock.patch.object(machine, "describe", return_value=RECORD["machine"]):
        return summary(runs.tables.parent)


PASSED = {"eps": "False", "model": "False", "stores": "True", "spells": "", "scaling": "", "claims": ""}


def test_the_summary_names_the_tables_that_differ(runs):
    text = ended(runs)
    assert "claims: 1 confirmed, 0 corrected, 0 refuted, 0 not measured" in text
    assert "archive: 0 tables agree, 1 differ (edge_cases), 0 not compared" in text


def test_the_summary_takes_no_table_that_was_not_compared_for_one_that_differs(runs):
    ended(runs)
    path = runs.tables / "comparison.csv"
    header, row, *_ = path.read_text(encoding="utf-8").splitlines()
    rows = [row.replace("edge_cases", stem).replace("False", passed) for stem, passed in PASSED.items()]
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    said = "archive: 1 tables agree, 2 differ (eps, model), 3 not compared"
    assert said in summary(runs.tables.parent).splitlines()


def test_the_summary_tells_a_verdict_that_there_is_no_more_and_leaves_half_written_records_alone(runs):
    ended(runs)
    claims = runs.tables / "claims.csv"
    claims.write_text(claims.read_text(encoding="utf-8").replace("confirmed", "open"), encoding="utf-8")
    (runs.tables / ".eps-1.meta.json").write_text("{", encoding="utf-8")
    said = "claims: 0 confirmed, 0 corrected, 0 refuted, 0 not measured, 1 open"
    assert said in summary(runs.tables.parent).splitlines()


def test_the_summary_of_a_comparison_without_rows_counts_none(runs):
    ended(runs)
    (runs.tables / "comparison.csv").write_text("table,passed\n", encoding="utf-8")
    assert "archive: 0 tables agree, 0 differ, 0 not compared" in summary(runs.tables.parent)


def test_the_summary_names_a_comparison_that_lacks_a_column(runs):
    ended(runs)
    path = runs.tables / "comparison.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("passed", "agrees"), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"comparison\.csv: has no column 'passed'; remove the file to have it made"
    ):
        summary(runs.tables.parent)


def test_the_summary_ends_with_what_the_rules_warned_of(runs, monkeypatch, capsys):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(partial, "_differs", lambda path: path.stem == "eps")
    assert ended(runs).endswith("0 not compared")
    logs = runs.tables.parent / "logs"
    logs.mkdir()
    for rule, thing, outcome in (("claims", "claim", "not measured"), ("numbers", "number", "n/a")):
        excuses = partial.Excuses(runs.tables)
        assert [excuses.reason(name, ["eps"]) for name in ("one", "two")]
        excuses.warn(thing, outcome)
        said = capsys.readouterr().err
        (logs / f"{rule}.log").write_text(f"before\n{said}after\n", encoding="utf-8")
    (logs / "paper_pdf.log").write_text("warning: a figure is cut\n", encoding="utf-8")
    assert ended(runs).partition(" not compared\n")[2].splitlines() == [
        "warning: 2 claims not measured: edited config files no longer measure their rows:",
        f"  config/{runs.tables.parent.name}/eps.yaml: one, two",
        "warning: 2 numbers n/a: edited config files no longer measure their rows:",
        f"  config/{runs.tables.parent.name}/eps.yaml: one, two",
        "warning: a figure is cut",
    ]


def test_a_folder_that_is_no_run_of_a_study_is_refused_by_its_name(tmp_path, capsys):
    assert main(["comparison", str(tmp_path), str(tmp_path / "comparison.csv")]) == 1
    allowed = "results/paper/tables or results/smoke/tables or results/full/tables"
    assert capsys.readouterr().err == f"error: {tmp_path}: its run is of no study; allowed: {allowed}\n"
    assert not list(tmp_path.iterdir())


def test_a_summary_of_what_is_not_there_fails_in_one_line(tmp_path, capsys):
    assert summarize([str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'paper.pdf'}: there is no such file; ")
