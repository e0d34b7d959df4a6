"""The template is filled with a run's numbers; an unknown name stops with file, line and near names."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from layernorm_backward.figures import FIGURES, _captions
from layernorm_backward.paper.context import Names, constant, context
from layernorm_backward.paper.devices import sources
from layernorm_backward.paper.markdown_table import markdown_table
from layernorm_backward.paper.partial import Excuses
from layernorm_backward.paper.render import TemplateError, markdown, render
from layernorm_backward.records import tables
from layernorm_backward.records.schemas import SCHEMAS
from test_figures import module, sample

CLAIM = {"claim": "slope", "origin": "ours", "says": "a|b", "value": "2"}

RECORD = {
    "study": "smoke",
    "config": {},
    "code_hash": "0",
    "date": "2026-11-21T10:00:00+00:00",
    "duration_s": 1.0,
    "commit": "abc",
    "machine": {"cpu": "one processor"},
}


@pytest.fixture
def run(tmp_path: Path) -> dict[str, Path]:
    """A run with one number, one table and one figure."""
    folder = tmp_path / "results" / "smoke"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "variance.pdf").touch()
    empty = {"str": "", "int": 1, "float": 1.0, "bool": True}
    row = {name: empty[kind] for name, kind in SCHEMAS["claims"].columns.items()}
    claims = pd.DataFrame([row | CLAIM | {"verdict": "confirmed", "reason": "none of 3_4 miss"}])
    tables.write(claims, folder / "tables" / "claims.csv", RECORD)
    numbers = {
        "naive_slope": {"text": "$2.0 \\times 10^{3}$", "value": 2000.0, "table": "variance", "cells": 7}
    }
    (folder / "numbers.json").write_text(json.dumps(numbers), encoding="utf-8")
    return {
        "numbers": folder / "numbers.json",
        "tables_dir": folder / "tables",
        "figures_dir": folder / "figures",
    }


def filled(text: str, run: dict[str, Path], tmp_path: Path) -> str:
    template = tmp_path / "paper.md.j2"
    template.write_text(text, encoding="utf-8")
    return markdown(template, context(**run, folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("<< n.naive_slope >>", r"$2.0 \times 10^{3}$"),
        ("$x = << n.naive_slope.tex >>$", r"$x = 2.0 \times 10^{3}$"),
        ("<% if n.naive_slope.value > 5 %>steep<% endif %>", "steep"),
        ("<< n.naive_slope.table >>", "variance"),
        ("<< n.naive_slope.cells >>", "7"),
        ('<< judged["slope"] >>', "claim `slope`, confirmed"),
        ('<< c("16") >> and << c("1e-5") >>', "16 and $10^{-5}$"),
        ("<% for claim in claims %><< claim.verdict >><% endfor %>", "confirmed"),
        ("<< rows('claims')[0].claim >>", "slope"),
        ("<< study >> << date >> << commit >>", "smoke 2026-11-21 abc"),
        ("<< machine.cpu >>, << meta.claims.commit >>", "one processor, abc"),
        ('<< figure("variance") >>', "figures/variance"),
        ('<< came_from("claims") >>', "measured in this run"),
    ],
)
def test_names_are_filled_in(text: str, result: str, run: dict[str, Path], tmp_path: Path) -> None:
    assert filled(text, run, tmp_path) == result


@pytest.mark.parametrize(("here", "changed"), [("f00", ""), ("f01", "; the code has changed since")])
def test_a_table_from_the_archive_is_named_with_its_machine_and_date_and_whether_its_code_is_todays(
    run, tmp_path, here, changed
):
    meta = run["tables_dir"] / "claims.meta.json"
    archived = {"archived": "there", "code_hash": "f00", "code_here": here}
    meta.write_text(json.dumps(json.loads(meta.read_text(encoding="utf-8")) | archived), encoding="utf-8")
    assert filled('<< came_from("claims") >>', run, tmp_path) == (
        f"taken from the archive `there`, measured on 2026-11-21 on one processor, code hash `f00`{changed}"
    )


OF_ONE_SIZE = (
    *("backward_error", "backward_error_gpu", "handover", "kernel_costs", "mean_path", "representation"),
    *("page_offset", "saved_statistics", "stores", "variance", "variance_time"),
)


@pytest.mark.parametrize("stem", FIGURES)
def test_a_caption_has_no_field_but_those_that_are_filled_in(stem):
    prose = re.sub(r"\$[^$]*\$", "", module(stem).CAPTION)
    assert set(re.findall(r"\{\w*\}", prose)) <= set(_captions._UNKNOWN)


def test_no_caption_names_a_row_length_by_hand():
    assert [stem for stem in FIGURES if "$D = 1" in module(stem).CAPTION] == []


@pytest.mark.parametrize("stem", OF_ONE_SIZE)
@pytest.mark.parametrize(("sizes", "named"), [([64], 64), ([64, 2048], 2048), ([5, 1 << 15], 1 << 15)])
def test_a_caption_names_the_row_length_that_its_figure_draws(run, tmp_path, stem, sizes, named):
    name = module(stem).TABLES[0]
    table = sample(name)
    if "hidden" in table:
        first = table[table["hidden"] == table["hidden"].iloc[0]]
        table = pd.concat([first.assign(hidden=size) for size in sizes])
    asked = [7, *sizes] if hasattr(module(stem), "captioned") else named  # the rows tell, else the config
    tables.write(table, run["tables_dir"] / f"{name}.csv", RECORD | {"config": {"hidden": asked}})
    caption = filled(f"<< captions.{stem} >>", run, tmp_path)
    assert f"$D = {named}$" in caption and "1024" not in caption and "{" + "hidden}" not in caption


@pytest.mark.parametrize(
    ("upstream", "named"), [("shifted", r"$dy\sim N(1,1)$"), ("normal", r"$dy\sim N(0,1)$")]
)
def test_a_caption_names_the_upstream_gradient_of_its_table(run, tmp_path, upstream, named):
    table = run["tables_dir"] / "saved_statistics.csv"
    tables.write(sample("saved_statistics"), table, RECORD | {"config": {"upstream": upstream}})
    assert named in filled("<< captions.saved_statistics >>", run, tmp_path)


GPU = {"gpu": "a GPU", "driver": "1.0"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "a GPU 1.0 abc eps,slopes;"),
        ({"machine": GPU | {"driver": "2.0"}}, "a GPU 1.0 abc eps;a GPU 2.0 abc slopes;"),
        ({"machine": GPU | {"gpu": "another"}}, "a GPU 1.0 abc eps;another 1.0 abc slopes;"),
        ({"commit": "abd"}, "a GPU 1.0 abc eps;a GPU 1.0 abd slopes;"),
    ],
)
def test_where_tables_on_a_gpu_are_from_is_told_whoever_measured_them(run, tmp_path, changed, told):
    for name, more in (("eps", {}), ("slopes", changed)):
        (run["tables_dir"] / f"{name}.csv").touch()
        record = RECORD | {"machine": GPU, "rows": 1, "sha256": ""} | more
        (run["tables_dir"] / f"{name}.meta.json").write_text(json.dumps(record), encoding="utf-8")
    each = "<< it.gpu >> << it.driver >> << it.commit >> << it.tables | join(',') >>;"
    text = f"<% for it in sources(['eps', 'slopes']) %>{each}<% endfor %>"
    assert filled(text, run, tmp_path) == told


def test_the_source_of_most_tables_comes_first():
    records = {stem: {"machine": {"gpu": gpu}} for stem, gpu in (("a", "one"), ("b", "two"), ("c", "two"))}
    assert [it.tables for it in sources(records, "abc")] == [["b", "c"], ["a"]]


def test_the_date_of_a_run_is_that_of_its_latest_table(run, tmp_path):
    for name, date in (("eps", "2026-11-20T10:00:00+00:00"), ("slopes", "2026-11-22T10:00:00+00:00")):
        (run["tables_dir"] / f"{name}.csv").touch()
        record = RECORD | {"date": date, "commit": name, "rows": 1, "sha256": ""}
        (run["tables_dir"] / f"{name}.meta.json").write_text(json.dumps(record), encoding="utf-8")
    assert filled("<< date >> << commit >>", run, tmp_path) == "2026-11-22 slopes"


def test_tables_that_were_not_measured_alike_are_named(run, tmp_path):
    assert filled("<< mixed >>", run, tmp_path) == "[]"
    for name, processor in (("eps", "one processor"), ("slopes", "another")):
        (run["tables_dir"] / f"{name}.csv").touch()
        record = RECORD | {"machine": {"cpu": processor}, "rows": 1, "sha256": ""}
        (run["tables_dir"] / f"{name}.meta.json").write_text(json.dumps(record), encoding="utf-8")
    told = "processor one processor in 2 tables and another in `slopes`"
    assert filled("<< mixed[0] >>", run, tmp_path) == told


def test_the_config_files_that_were_edited_can_be_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Excuses, "edited_files", lambda self: ["config/paper/eps.yaml"])
    assert filled('<< edited | join(", ") >>', run, tmp_path) == "config/paper/eps.yaml"


def test_in_which_share_of_samples_threads_waited_at_most_is_rounded_up(run, tmp_path):
    assert filled("<< waited >>", run, tmp_path) == ""
    (run["tables_dir"] / "eps.csv").touch()
    record = RECORD | {"rows": 1, "sha256": "", "waited_share": 0.6835}
    (run["tables_dir"] / "eps.meta.json").write_text(json.dumps(record), encoding="utf-8")
    assert filled("<< waited >>", run, tmp_path) == "68.4\u00a0% (table `eps`)"


def test_a_record_that_lacks_a_key_is_named(run, tmp_path):
    meta = run["tables_dir"] / "claims.meta.json"
    meta.write_text(meta.read_text(encoding="utf-8").replace('"machine"', '"machin"'), encoding="utf-8")
    with pytest.raises(tables.TableError) as caught:
        filled("", run, tmp_path)
    assert str(caught.value) == f"{meta}: machine must be an object, is missing; measure the table again"


def test_numbers_that_were_cut_are_named(run, tmp_path):
    run["numbers"].write_text('{"naive_slope": ', encoding="utf-8")
    with pytest.raises(ValueError, match="not valid JSON") as caught:
        filled("", run, tmp_path)
    assert str(caught.value).startswith(f"{run['numbers']}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n<< n.naive_slop >>", "paper.md.j2:3: there is no number 'naive_slop'; near: naive_slope"),
        ("\n<< nothing >>", "paper.md.j2:2: 'nothing' is undefined"),
        ("<< meta.claim.date >>", "paper.md.j2:1: there is no table 'claim'; near: claims"),
        ('<< figure("variants") >>', "paper.md.j2:1: there is no figure 'variants'; near: variance"),
        ("\n<% if %>", "paper.md.j2:2: Expected an expression, got 'end of statement block'"),
        ("\nabout 17", "paper.md.j2:2: number typed by hand: 17; print a measured one"),
        ("<< c(17) >>", 'paper.md.j2:1: c(17): a constant is written as text: c("17")'),
        ("<< rows('variance') >>", "paper.md.j2:1: "),
    ],
)
def test_an_error_names_file_and_line(text: str, message: str, run: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as caught:
        filled(text, run, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_nothing_is_written_where_the_template_is_wrong(run: dict[str, Path], tmp_path: Path) -> None:
    template, out = tmp_path / "paper.md.j2", tmp_path / "out" / "paper.md"
    template.write_text("<< n.naive_slope >>", encoding="utf-8")
    render(template, *run.values(), out)
    template.write_text("<< n.none >>", encoding="utf-8")
    with pytest.raises(TemplateError):
        render(template, *run.values(), out)
    assert out.read_text(encoding="utf-8") == r"$2.0 \times 10^{3}$"
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("1e-5", "$10^{-5}$"),
        ("5.04e-11", r"$5.04 \times 10^{-11}$"),
        ("-1e+08", "$-10^{8}$"),
        ("65504", "65504"),
        ("4x8x16", "4x8x16"),
    ],
)
def test_a_constant_is_printed_as_a_power_of_ten_where_it_is_one(typed: str, printed: str) -> None:
    assert constant(typed) == printed


def test_names_without_a_near_one_tell_some() -> None:
    with pytest.raises(ValueError, match="there is no number 'zzz'; near: a, b, c"):
        Names("number", dict.fromkeys("abcd"))["zzz"]


def table(**options: Any) -> list[str]:
    rows = [CLAIM, CLAIM | {"value": float("nan"), "says": "two\nlines"}]
    return markdown_table(rows, {"says": "Says", "value": "Value"}, **options).split("\n")


def test_a_table_escapes_bars_and_line_ends_and_leaves_empty_cells() -> None:
    assert table(label="x", caption="Caption.", align="lr")[1:] == [
        "| Says | Value |",
        "|:----|----:|",
        r"| a\|b | 2 |",
        "| two lines |  |",
        "",
        ": Caption. {#tbl:x}",
        "",
    ]


def test_widths_stand_in_the_rule_of_a_table_that_wraps() -> None:
    lines = table(label="x", caption="Caption.", widths=[3, 1], small=True)
    left, right = lines[2].strip("|").split("|")
    assert len(left) / len(right) == pytest.approx(3, rel=0.05)
    assert lines[6] == ": Caption. {#tbl:x .small .wrap}"


def test_a_table_without_label_leaves_its_caption_to_the_text() -> None:
    assert not any(line.startswith(":") for line in table())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"align": "l"}, "table x: align 'l' needs one of l, r, c for each column of 2"),
        ({"widths": [1]}, "table x: 1 widths for 2 columns"),
    ],
)
def test_a_table_whose_layout_does_not_fit_says_so(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(label="x", **options)


def test_a_row_without_the_key_of_a_column_says_what_it_has() -> None:
    with pytest.raises(ValueError, match=r"table x: a row has no \['b'\]; it has: a"):
        markdown_table([{"a": 1}], {"a": "A", "b": "B"}, label="x")


def test_a_template_that_is_not_utf_8_is_named(tmp_path):
    template = tmp_path / "paper.md.j2"
    template.write_bytes("größe".encode("latin-1"))
    with pytest.raises(TemplateError, match=re.escape(f"{template}: not UTF-8 text: ")):
        markdown(template, {})
