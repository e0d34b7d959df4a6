"""The numbers of the prose come from the tables, and a wrong entry says what is wrong with it."""

import json
import re

import pandas as pd
import pytest
import yaml

from layernorm_backward.paper import numbers
from layernorm_backward.paper.partial import SUMMARIES
from layernorm_backward.paper.selection import select
from layernorm_backward.paper.wanted_values import lost, unknown
from layernorm_backward.records import archive, tables
from layernorm_backward.records.tabulate import table
from workspace import ROOT

DERIVATION = pd.DataFrame(
    {
        "derivation": ["projection", "projection", "chain_rule"],
        "shape": ["2x4x8", "4x8x16", "2x4x8"],
        "gamma_kind": "random",
        "quantity": "dx",
        "rel_error": [1e-16, 3e-16, float("nan")],
        "proved": False,
        "reason": ["", "", "left out"],
    }
)


@pytest.fixture
def run(tmp_path):
    """Writes the table into a study's folder and evaluates entries over it."""

    def evaluate(entries, study="paper", table=DERIVATION):
        folder = tmp_path / study / "tables"
        tables.write(table, folder / "derivation.csv")
        source = tmp_path / "numbers.yaml"
        source.write_text(yaml.safe_dump(entries), encoding="utf-8")
        numbers.write(source, folder, tmp_path / "numbers.json")
        return json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))

    return evaluate


def entry(**changes):
    projection = {"derivation": "projection"}
    return {"table": "derivation", "where": projection, "column": "rel_error", "reduce": "max"} | changes


def test_a_number_is_the_reduction_of_the_selected_rows(run):
    got = run({"worst": entry(format="power"), "best": entry(reduce="min", format="power")})
    assert got["worst"]["value"] == 3e-16
    assert got["best"]["value"] == 1e-16
    assert got["worst"]["text"] == r"$3.00 \times 10^{-16}$"
    assert got["worst"]["table"] == "derivation"
    assert got["worst"]["cells"] == 2


@pytest.mark.parametrize("name", ["edge_passed", "edge_failed"])
def test_the_prose_on_edge_cases_counts_no_kernel_of_a_reader(name):
    kernels = ["compact", "numba_fused", "theirs"]
    cases = table(
        [
            {
                "kernel": kernel,
                "case": "width_1",
                "dtype": "float64",
                "passed": passed,
                "value": 1.0,
                "reason": "",
            }
            for kernel in kernels
            for passed in (True, False)
        ],
        "edge_cases",
    )
    entry = numbers.load(ROOT / "paper" / "numbers.yaml")[name]
    assert set(select(cases, entry.where)["kernel"]) == {"compact", "numba_fused"}


@pytest.mark.parametrize(
    ("reduce", "value"), [("min", 1), ("median", 2), ("max", 9), ("sum", 14), ("count", 4), ("distinct", 3)]
)
def test_each_reduction_is_that_of_its_name(run, reduce, value):
    four = DERIVATION.iloc[[0] * 4].assign(shape=list("abcd"), rel_error=[1.0, 2.0, 9.0, 2.0])
    assert run({"it": entry(reduce=reduce)}, table=four)["it"]["value"] == value


def test_only_takes_exactly_one_row(run):
    one = entry(reduce="only", where={"derivation": "projection", "shape": "2x4x8"}, format="power")
    assert run({"one": one})["one"]["value"] == 1e-16
    with pytest.raises(
        numbers.NumberError,
        match=r"one: derivation\.rel_error .* 2 of 2 selected rows .* 'only' needs exactly one",
    ):
        run({"one": entry(reduce="only")})


def test_a_ratio_divides_by_another_number(run):
    entries = {"worst": entry(), "best": entry(reduce="min"), "ratio": entry(per="best")}
    assert run(entries)["ratio"]["value"] == pytest.approx(3)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": entry(column="quantity")}, r"numbers\.yaml: a: 'dx' per None, format three"),
        (
            {"a": entry(column="quantity", reduce="median", format="text")},
            r"a: derivation\.quantity: reduce: median",
        ),
        (
            {"a": entry(per="none"), "none": entry(scale=0.0)},
            "a: 3e-16 per none, format three: float division",
        ),
        (
            {"a": entry(per="b"), "b": entry(per="c"), "c": entry()},
            "a: per: b is itself a quotient; allowed: a number that is not",
        ),
    ],
)
def test_a_number_that_cannot_be_worked_out_or_printed_is_told_by_name(run, entries, message):
    with pytest.raises(numbers.NumberError, match=message):
        run(entries)


def test_rows_without_a_measurement_do_not_count(run):
    everything = entry(where={}, reduce="count", format="integer")
    assert run({"worst": entry(where={})})["worst"]["cells"] == 2
    assert run({"rows": everything})["rows"]["text"] == "2"
    with pytest.raises(numbers.NumberError, match="0 of 1 selected rows hold a measurement"):
        run({"rows": entry(where={"derivation": "chain_rule"})})


def test_a_count_is_0_where_there_are_rows_but_for_the_last_condition(run):
    none = entry(where={"derivation": "projection", "shape": "no such"}, reduce="count", format="integer")
    assert run({"rows": none})["rows"]["text"] == "0"
    for where in ({"derivation": "no such", "shape": "no such"}, {"derivation": "no such"}):
        with pytest.raises(numbers.NumberError, match=r"0 of . selected rows hold a measurement"):
            run({"rows": entry(where=where, reduce="count", format="integer")})


def test_a_value_of_a_list_that_nothing_has_is_told_where_the_others_have_rows(run):
    lists = entry(where={"derivation": ["projection", "projektion"]})
    said = r"bad: derivation: where\.derivation: no row, config file or archived table has 'projektion'; "
    with pytest.raises(numbers.NumberError, match=said):
        run({"bad": lists})
    assert run({"bad": lists}, study="smoke")["bad"]["value"] == 3e-16


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Promotes tables of errors, study -> error, each study later than the one before it."""
    monkeypatch.chdir(tmp_path)

    def promote(errors):
        for month, (study, error) in enumerate(errors.items(), 1):
            folder = tmp_path / "results" / "archive" / f"the_{study}"
            tables.write(DERIVATION.assign(rel_error=error), folder / "derivation.csv")
            record = {"study": study, "promoted": f"2026-0{month}-01"}
            (folder / "provenance.json").write_text(json.dumps(record), encoding="utf-8")

    return promote


def test_a_number_of_the_full_study_is_that_of_its_archived_table(run, kept):
    kept({"full": 7.0, "paper": 5.0})
    found = run({"here": entry(), "dense": entry(study="full")})
    assert (found["here"]["value"], found["dense"]["value"]) == (3e-16, 7.0)


def test_a_number_of_a_study_that_the_archive_has_not_is_told(run, kept):
    kept({"paper": 5.0})
    with pytest.raises(numbers.NumberError, match="derivation: the archive has no such table of the study f"):
        run({"dense": entry(study="full")})


@pytest.mark.parametrize("value", [True, "", "any", "max"])
def test_a_verdict_or_a_keyword_is_no_misspelt_value(kept, value):
    kept({"paper": 5.0})
    assert unknown(DERIVATION, "derivation", {"gamma_kind": value}) == ""


@pytest.mark.parametrize("error", [5.0, 7.0])
def test_a_value_of_either_study_in_the_archive_is_no_misspelt_one(kept, error):
    kept({"full": 7.0, "paper": 5.0})
    assert unknown(DERIVATION, "derivation", {"rel_error": error}) == ""
    assert unknown(DERIVATION, "derivation", {"rel_error": 9.0}).endswith("there are: 1e-16, 3e-16")


def test_a_list_has_lost_a_value_where_the_archive_has_one_of_those_that_are_missing(kept):
    kept({"paper": 5.0})
    assert lost(DERIVATION, "derivation", {"rel_error": [6.0, 5.0]})
    assert not lost(DERIVATION, "derivation", {"rel_error": [6.0, 7.0]})


def test_the_smoke_study_prints_what_it_does_not_hold_as_not_available(run):
    missing = entry(where={"shape": "8x16x32"})
    assert run({"big": missing}, study="smoke")["big"] == {
        "text": "n/a",
        "value": None,
        "table": "derivation",
        "cells": 0,
    }
    with pytest.raises(numbers.NumberError, match="big"):
        run({"big": missing})


def test_what_a_machine_cannot_hold_or_lacks_is_not_available_and_a_wrong_selection_is_told(tmp_path):
    keys = {
        "direction": "backward",
        "dtype": "float32",
        "gamma_dtype": "float32",
        "threads": 1,
        "reason": "x",
    }
    rows = [("compact", "1x8x64", "partly", 0.5), ("absent", "1x8x64", "memory", float("nan"))]
    rows += [("twice", shape, "memory", 0.5) for shape in ("1x8x64", "1x8x128")]
    cells = pd.DataFrame(rows, columns=["kernel", "shape", "residency", "roof_fraction"]).assign(**keys)
    folder = tmp_path / "paper" / "tables"
    tables.write(table(cells.to_dict("records"), "timing_cpu"), folder / "timing_cpu.csv")

    def text(**where):
        one = {"table": "timing_cpu", "where": where, "column": "roof_fraction", "format": "two"}
        (tmp_path / "numbers.yaml").write_text(yaml.safe_dump({"one": one}), encoding="utf-8")
        numbers.write(tmp_path / "numbers.yaml", folder, tmp_path / "numbers.json")
        return json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["one"]["text"]

    assert text(kernel="compact", residency="partly") == "0.50"
    assert text(kernel="compact", residency="memory") == "n/a"
    assert text(kernel="absent", residency="memory") == "n/a"
    assert text(kernel="absent", residency="memory", reason="") == "n/a"
    with pytest.raises(numbers.NumberError, match="of 0 selected"):
        text(kernel="compcat", residency="memory")
    with pytest.raises(
        numbers.NumberError, match="2 of 2 selected rows hold a measurement; 'only' needs exactly one"
    ):
        text(kernel="twice", residency="memory")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"colour": 1}, r"numbers\.yaml: bad\.colour: unknown key; allowed: table, study, where, column"),
        ({"reduce": "mean"}, r"bad\.reduce: Input should be 'only', 'min'"),
        ({"format": "hex"}, r"bad: unknown format 'hex'; allowed: power, "),
        ({"per": "nothing"}, r"bad: per: there is no number 'nothing'"),
        ({"where": {"dtype": "float32"}}, r"bad: derivation: no column 'dtype'; allowed: derivation, shape"),
        ({"table": "derivation_"}, r"numbers\.yaml: bad: table: unknown 'derivation_'; allowed: derivati"),
        ({"column": "error"}, r"bad: derivation: no column 'error'; allowed: derivation, shape"),
    ],
)
def test_a_wrong_entry_is_told_by_name_and_key(run, wrong, message):
    with pytest.raises(numbers.NumberError, match=message):
        run({"bad": entry(**wrong)})


def test_a_name_that_stands_twice_is_told_with_its_line(tmp_path):
    path = tmp_path / "numbers.yaml"
    path.write_text("one: {table: model}\none: {table: eps}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"numbers\.yaml: line 2: .*'one' stands twice"):
        numbers.load(path)


def test_a_number_written_as_text_in_yaml_selects_the_same_rows(run):
    got = run({"exact": entry(where={"rel_error": "3e-16"}, reduce="count", format="integer")})
    assert got["exact"]["value"] == 1


def test_every_number_is_written_in_the_paper_or_divides_one_that_is():
    entries = numbers.load(ROOT / "paper" / "numbers.yaml")
    template = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    written = set(re.findall(r"\bn\.(\w+)", template))
    divisors = {entry.per for entry in entries.values()}
    assert [name for name in entries if name not in written | divisors] == []


def test_each_value_that_a_number_wants_of_an_archived_table_is_there_or_in_a_config_file():
    entries = numbers.load(ROOT / "paper" / "numbers.yaml")
    wanted = {name: it for name, it in entries.items() if it.table not in SUMMARIES}
    archived = {it.table: archive.latest(it.table, archive.WHOLE) for it in wanted.values()}
    frames = {stem: tables.read(path) for stem, path in archived.items() if path}
    assert len(frames) > 20
    said = {
        name: unknown(frames[it.table], it.table, it.where)
        for name, it in wanted.items()
        if it.table in frames
    }
    assert {name: fault for name, fault in said.items() if fault} == {}


def test_max_stands_for_the_largest_number_that_is_left():
    cells = pd.DataFrame({"kernel": ["a", "a", "b"], "threads": [1, 4, 8], "time": [1.0, 2.0, 3.0]})
    assert select(cells, {"kernel": "a", "threads": "max"})["time"].tolist() == [2.0]
    assert select(cells, {"threads": ["max", 1]})["time"].tolist() == [1.0, 3.0]
    assert select(cells, {"kernel": "c", "threads": "max"}).empty


def test_any_stands_for_whatever_is_not_empty():
    cells = pd.DataFrame({"kernel": ["a", None, "any"], "time": [1.0, 2.0, None]})
    assert select(cells, {"kernel": "any"})["time"].head(1).tolist() == [1.0]
    assert select(cells, {"kernel": "any", "time": "any"})["kernel"].tolist() == ["a"]


@pytest.mark.parametrize(("text", "kind"), [("- {id: flat}", "list"), ("", "NoneType")])
def test_a_file_that_holds_no_numbers_is_refused_in_one_line(tmp_path, text, kind):
    path = tmp_path / "numbers.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(numbers.NumberError) as caught:
        numbers.load(path)
    assert str(caught.value) == f"{path}: must hold numbers by name, holds {kind}"
