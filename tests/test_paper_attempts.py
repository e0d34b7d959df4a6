"""Every attempt is in the appendix; an error names file, line and what is allowed."""

import re
from functools import partial
from pathlib import Path

import pytest

from layernorm_backward.paper import attempts
from layernorm_backward.paper.markdown_table import markdown_table
from layernorm_backward.paper.render import markdown

PAPER = Path(__file__).parents[1] / "paper"
CSV = PAPER / "attempts.csv"
HEADER = "what,prediction,outcome,commit"
GOOD = "four rows at a time,fewer loads of gamma,0.83 -> 0.85 on one thread,abc1234"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "attempts.csv"
    path.write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")
    return path


def test_an_attempt_is_read_as_it_stands(tmp_path):
    path = written(tmp_path, GOOD, '"tiles, of columns",less traffic,no change,')
    assert attempts.read(path) == [
        dict(zip(HEADER.split(","), GOOD.split(","), strict=True)),
        {"what": "tiles, of columns", "prediction": "less traffic", "outcome": "no change", "commit": ""},
    ]


def test_its_text_is_plain_and_its_commit_short(tmp_path):
    path = written(tmp_path, f"a_b <c> $d*,e,f,{'0123456789' * 4}", "g,h,i,")
    first, second = attempts.rows(path)
    assert first == {"what": r"a\_b \<c\> \$d\*", "prediction": "e", "outcome": "f", "commit": "`0123456`"}
    assert second["commit"] == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([GOOD, "a,b,,"], ":3: outcome is empty; allowed: text"),
        ([" ,b, ,"], ":2: what, outcome is empty; allowed: text"),
        (["a,b,c"], ":2: 3 cells; allowed: 4, what, prediction, outcome, commit"),
        (["a,b,c,d,"], ":2: 5 cells; allowed: 4, what, prediction, outcome, commit"),
        (
            ["a,b,c,master"],
            ":2: commit is 'master'; allowed: 7 to 40 digits of a hash, or empty if no commit adopted it",
        ),
        (["a,b,c,abc123"], ":2: commit is 'abc123'; allowed: 7 to 40 digits of a hash"),
        ([f"a,b,c,{'a' * 41}"], f":2: commit is '{'a' * 41}'; allowed: 7 to 40 digits of a hash"),
        (["a,b,c,abc1234+changes"], ":2: commit is 'abc1234+changes'; allowed: 7 to 40 digits of a hash"),
        (["a,b,c,ABC1234"], ":2: commit is 'ABC1234'; allowed: 7 to 40 digits of a hash"),
        ([GOOD, GOOD], ":3: what repeats line 2; allowed: each attempt once"),
        (["a,b,c,", ""], ":3: 0 cells; allowed: 4"),
        (['"a,b,c,'], ":2: not UTF-8 CSV: unexpected end of data"),
    ],
)
def test_a_fault_is_reported_with_file_line_and_what_is_allowed(tmp_path, lines, message):
    path = written(tmp_path, *lines)
    with pytest.raises(attempts.AttemptsError, match=re.escape(f"{path}{message}")):
        attempts.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: the header is missing; allowed: what,prediction,outcome,commit"),
        ("what,outcome,prediction,commit\n", ":1: the header is what,outcome,prediction,commit; allowed: "),
        ("what,prediction,outcome\na,b,c\n", ":1: the header is what,prediction,outcome; allowed: "),
    ],
)
def test_a_file_with_another_header_is_refused(tmp_path, text, message):
    path = tmp_path / "attempts.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(attempts.AttemptsError, match=re.escape(message)):
        attempts.read(path)


def test_a_file_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "attempts.csv"
    path.write_bytes(f"{HEADER}\na,b,\xfc,\n".encode("latin-1"))
    with pytest.raises(attempts.AttemptsError, match="not UTF-8 CSV"):
        attempts.read(path)


def test_all_faults_of_a_file_are_reported_at_once(tmp_path):
    path = written(tmp_path, "a,,c,", "b,c,d,x")
    with pytest.raises(attempts.AttemptsError) as caught:
        attempts.read(path)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [f"{path}:2", f"{path}:3"]


def test_a_missing_file_says_which_columns_it_has(tmp_path):
    with pytest.raises(attempts.AttemptsError, match="there is no such file; its columns are: what, pred"):
        attempts.read(tmp_path / "attempts.csv")


def test_the_appendix_prints_every_attempt(tmp_path):
    (call,) = re.findall(
        r"<< table\(attempts\(\).*?>>", (PAPER / "paper.md.j2").read_text("utf-8"), re.DOTALL
    )
    template = tmp_path / "paper.md.j2"
    template.write_text(call, encoding="utf-8")
    printed = markdown(template, {"table": markdown_table, "attempts": partial(attempts.rows, CSV)})
    lines = [line for line in printed.splitlines() if line.startswith("| ")][1:]
    tried = attempts.read(CSV)
    assert len(tried) >= 5
    assert len(lines) == len(tried)
    for line, attempt in zip(lines, attempts.rows(CSV), strict=True):
        assert all(" ".join(cell.split()).replace("|", r"\|") in line for cell in attempt.values())


def test_a_byte_order_mark_as_spreadsheets_write_it_is_no_part_of_the_header(tmp_path):
    path = written(tmp_path, "a,b,c,")
    read = attempts.read(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert attempts.read(path) == read
