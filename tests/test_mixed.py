"""Which tables of a run were measured on another processor, or with other versions, than the rest."""

import json
import os
import re
import shutil
from math import isnan, nan
from pathlib import Path

import pandas as pd
import pytest

from layernorm_backward.machine import PACKAGES, describe
from layernorm_backward.paper.render import environment
from layernorm_backward.records import mixed, tables, waited
from layernorm_backward.records.promote import promote
from layernorm_backward.studies import study
from layernorm_backward.studies.summary import summary
from workspace import ROOT

MACHINE = {
    "cpu": "one",
    "numpy": "2.4.6",
    "load_1min": 0.5,
    "memory_bytes": 1 << 34,
    "os": "Debian, Linux 6.1",
}


def records(*machines: dict[str, object]) -> dict[str, dict[str, object]]:
    """Tables called a, b, ... whose machines differ from MACHINE in these entries."""
    return {chr(97 + number): {"machine": MACHINE | it} for number, it in enumerate(machines)}


def record_of(smoke, stem: str) -> dict[str, object]:
    """The record of a table of the smoke run."""
    return tables.read_meta(smoke.results / "tables" / f"{stem}.csv")


def test_tables_of_one_machine_and_its_packages_do_not_differ():
    assert mixed.differences(records({}, {"load_1min": 2.0}, {"memory_bytes": 1, "snakemake": "9"})) == []
    assert mixed.differences({}) == []


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        (({}, {}, {"numpy": "2.3.1"}), "numpy 2.4.6 in 2 tables and 2.3.1 in c"),
        (({"numpy": "2.3.1"}, {"numpy": "2.3.1"}, {}, {}, {}), "numpy 2.4.6 in 3 tables and 2.3.1 in a, b"),
        (({}, {}, {"numpy": "1"}, {"numpy": "2"}), "numpy 2.4.6 in 2 tables and 1 in c and 2 in d"),
        (({}, {"cpu": "two"}), "processor one in 1 table and two in b"),
        (({"gpu": "x"}, {"gpu": "x"}, {"gpu": "y"}), "processor x in 2 tables and y in c"),
        (({"l2_bytes": 1}, {"l2_bytes": 2}), "l2_bytes 1 in 1 table and 2 in b"),
    ],
)
def test_a_fact_that_differs_is_reported_with_its_tables(machines, told):
    assert mixed.differences(records(*machines)) == [told]


@pytest.mark.parametrize(
    ("machines", "here", "told"),
    [
        (({}, {}), {"numpy": "2.5.0"}, ["numpy 2.4.6 in 2 tables and 2.5.0 here"]),
        (({}, {"numpy": "1"}), {"numpy": "2.5.0"}, ["numpy 2.4.6 in 1 table and 1 in b and 2.5.0 here"]),
        (({}, {"numpy": "1"}), {"numpy": "1"}, ["numpy 2.4.6 in 1 table and 1 in b"]),
        (({}, {}), {"numpy": "", "scipy": "1.17.0", "load_1min": 9.0}, []),
        (({"gpu": "x"}, {"gpu": "x"}), {"numpy": "2.5.0"}, []),
    ],
)
def test_what_is_here_now_is_reported_where_it_differs_from_what_was_measured(machines, here, told):
    assert mixed.differences(records(*machines), here=MACHINE | here) == told


def test_the_summary_tells_a_machine_that_is_another_now(smoke, monkeypatch):
    now = describe() | {"cores_usable": 1000}
    monkeypatch.setattr("layernorm_backward.machine.describe", lambda: now)
    assert re.search(
        rf"{WARNING}; .*\n  cores_usable \d+ in \d+ tables and 1000 here",
        summary(smoke.results),
    )


def test_each_fact_that_differs_is_reported_and_names_of_tables_may_be_marked():
    found = mixed.differences(records({}, {}, {"numpy": "2.3.1", "os": "Debian, Linux 6.2"}), mark="`")
    assert found == [
        "numpy 2.4.6 in 2 tables and 2.3.1 in `c`",
        "os Debian, Linux 6.1 in 2 tables and Debian, Linux 6.2 in `c`",
    ]


def test_what_was_taken_from_the_archive_or_is_not_told_is_not_compared():
    found = records({}, {"numpy": "2.3.1"}, {"numpy": ""})
    found["b"]["archived"] = "there"
    assert mixed.differences(found) == []


def test_variables_that_change_what_is_measured_are_compared_and_those_of_the_workflow_are_not(monkeypatch):
    monkeypatch.setattr(os, "environ", {"PATH": "here"})
    plain = {"variables": describe()["variables"]}
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(Path("a", "folder")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for each job of the workflow
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "True")  # by threadpoolctl
    assert describe()["variables"] == plain["variables"] == "none"
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("NUMBA_OPT", "0")
    found = records(plain, plain, {"variables": describe()["variables"]})
    said = "variables none in 2 tables and NUMBA_OPT=0 OMP_WAIT_POLICY=passive in c"
    assert mixed.differences(found, here=plain) == [said]
    assert mixed.differences(records({}, plain)) == []  # a record of former code does not tell


def test_tables_from_a_gpu_are_compared_among_themselves():
    gpu, other = {"gpu": "x", "os": "Linux"}, {"gpu": "x", "os": "Linux", "numpy": "2.3.1"}
    assert mixed.differences(records({}, {}, gpu)) == []
    assert mixed.differences(records({}, {}, gpu, gpu, other)) == ["numpy 2.4.6 in 2 tables and 2.3.1 in e"]


def test_what_a_record_tells_is_compared_but_for_what_changes_no_number():
    told = set(mixed.facts(dict.fromkeys(describe(), "told")))
    assert {"processor", "architecture", "os", "python", "cores_usable", "last_level_cache_bytes"} <= told
    assert set(PACKAGES) - told == {"matplotlib", "snakemake"}
    assert not told & {"load_1min", "memory_bytes", "affinity"}


@pytest.fixture
def run(smoke, tmp_path) -> Path:
    """The results of a run, of which two tables were measured with another numpy."""
    results = Path(shutil.copytree(smoke.results, tmp_path / "results" / "smoke"))
    for stem in ("eps", "variance"):
        meta = tables.meta_path(results / "tables" / f"{stem}.csv")
        record = json.loads(meta.read_text(encoding="utf-8"))
        record["machine"]["numpy"] = "2.3.1"
        meta.write_text(json.dumps(record), encoding="utf-8")
    return results


WARNING = "warning: tables were measured in different environments, or in another than the present one"


def test_the_summary_ends_with_what_differs_and_a_run_of_one_kind_says_nothing(run, smoke, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert WARNING not in summary(smoke.results)
    *_, told, difference = summary(run).splitlines()
    assert told == f"{WARNING}; remove a table to have it measured again:"
    assert re.fullmatch(r"  numpy \S+ in \d+ tables and 2\.3\.1 in eps, variance", difference)


@pytest.mark.parametrize(("share", "told"), [(0.1, False), (0.36, True)])
def test_the_summary_tells_what_was_timed_while_something_else_ran(share, told, smoke, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    results = Path(shutil.copytree(smoke.results, tmp_path / "results" / "smoke"))
    for stem in study.TIMED:
        meta = tables.meta_path(results / "tables" / f"{stem}.csv")
        record = json.loads(meta.read_text(encoding="utf-8")) if meta.exists() else {}
        record |= {"waited_share": share if stem == "stores" else 0.0}
        meta.write_text(json.dumps(record), encoding="utf-8")
    said = "were timed: something ran, here or on the host; remove a table to have"
    line = "  stores: in 36% of the samples"
    assert (said in summary(results) and line in summary(results).splitlines()) is told


def test_the_largest_share_of_this_run_is_found_with_its_table():
    told = {"a": {"waited_share": 0.021}, "b": {"waited_share": 0.9, "archived": "epyc"}, "c": {}}
    assert waited.largest(told) == ("a", 0.021)
    assert waited.largest({"c": {}}) is None


def test_samples_that_do_not_tell_of_waiting_have_no_share():
    samples = pd.DataFrame({"wait_s": [0.0, 0.9, nan, 0.0], "waited": [False, True, False, False]})
    assert waited.share(samples) == pytest.approx(1 / 3, abs=1e-4)
    assert isnan(waited.share(samples.assign(wait_s=nan)))


def test_the_record_of_what_was_timed_holds_how_often_a_core_was_missing(smoke):
    held = {stem for stem in study.TIMED if 0 <= record_of(smoke, stem).get("waited_share", -1) <= 1}
    assert held >= {"timing_cpu", "stores", "spells", "handover", "kernel_costs", "roof_steps"}
    assert "waited_share" not in record_of(smoke, "eps")


def test_a_record_that_is_cut_is_named_by_the_summary(run):
    meta = run / "tables" / "eps.meta.json"
    meta.write_text(meta.read_text(encoding="utf-8")[:40], encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{meta}: not valid JSON")):
        summary(run)


def test_a_promotion_tells_what_differs(run, tmp_path, capsys):
    promote(run, "some-machine", tmp_path / "archive", studies=("smoke",))
    said = "warning: the tables were measured in different environments"
    assert re.search(rf"{said}: numpy .* and 2\.3\.1 in eps, variance\n", capsys.readouterr().err)


def test_the_paper_says_where_the_size_of_the_cache_is_not_told():
    source = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    (block,) = re.findall(r"<% if machine.last_level_cache_bytes %>.*?<% endif %>", source)
    phrase = environment(ROOT / "paper").from_string(block)
    told = [phrase.render(machine=describe() | {"last_level_cache_bytes": n}) for n in (33554432, 0)]
    assert told == ["33.6 MB of last-level cache", "a last-level cache of unknown size"]


def test_the_paper_has_a_sentence_only_where_tables_differ():
    source = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    (block,) = re.findall(r"\n<% if mixed %>\n.*?<% endif %>\n", source, flags=re.DOTALL)
    sentence = environment(ROOT / "paper").from_string(block)
    assert sentence.render(mixed=[]).strip() == ""
    assert sentence.render(mixed=["numpy 2 in 2 tables and 1 in `c`", "os a in 2 tables and b in `c`"]) == (
        "\nThe tables of this run were measured in different environments: "
        "numpy 2 in 2 tables and 1 in `c`; os a in 2 tables and b in `c`.\n"
    )


def test_the_table_whose_threads_waited_most_is_reported():
    shares = {stem: {waited.WAITED: share} for stem, share in (("a", 0.02), ("b", 0.125), ("c", 0.0))}
    assert waited.largest(shares) == ("b", 0.125)
