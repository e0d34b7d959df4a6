"""Tables are checked on write and on read; a message says which file, column and row, and what is allowed."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from layernorm_backward.records import tables
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.storage import files


def cases() -> pd.DataFrame:
    rows = [
        ("compact", "D = 1", "float64", True, 0.1, ""),
        ("compact", 'quoted "x", comma', "float32", False, np.nan, ""),
    ]
    return pd.DataFrame(rows, columns=[*SCHEMAS["edge_cases"].columns])


def exponents() -> pd.DataFrame:
    row = {"kernel": "compact", "direction": "forward", "axis": "rows", "quantity": "time"}
    return pd.DataFrame(
        [row | {"exponent": 1.0, "exponent_low": 0.9, "exponent_high": 1.1, "points": 7, "reason": ""}]
    )


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "edge_cases.csv"
    tables.write(cases(), path, {"study": "test"})
    return path


def rewrite(path, text):
    """Change the file and its recorded hash, as a program with a fault would."""
    path.write_text(text, encoding="utf-8")
    meta = tables.read_meta(path) | {"sha256": tables.sha256(path)}
    tables.meta_path(path).write_text(json.dumps(meta), encoding="utf-8")


def refusal(path) -> str:
    with pytest.raises(tables.TableError) as caught:
        tables.read(path)
    assert str(path.parent) in str(caught.value)
    return str(caught.value)


def test_what_is_written_is_read_back_in_the_same_types(path):
    back = tables.read(path)
    pd.testing.assert_frame_equal(back, cases(), check_dtype=False)
    assert back["passed"].dtype == "boolean"
    assert back["value"].dtype == "float64"


def test_floats_keep_every_bit(tmp_path):
    values = np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-250, 250)
    frame = pd.concat([exponents()] * 500, ignore_index=True)
    frame["kernel"] = [f"k{number}" for number in range(500)]
    frame["exponent"] = values
    tables.write(frame, tmp_path / "scaling.csv")
    assert (tables.read(tmp_path / "scaling.csv")["exponent"].to_numpy() == values).all()


def test_columns_are_put_in_the_order_of_the_schema(tmp_path):
    tables.write(exponents().iloc[:, ::-1], tmp_path / "scaling.csv")
    header = (tmp_path / "scaling.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(SCHEMAS["scaling"].columns)


def test_the_meta_file_holds_the_hash_and_what_was_given(path):
    meta = tables.read_meta(path)
    assert (meta["study"], meta["rows"], meta["sha256"]) == ("test", 2, tables.sha256(path))


@pytest.fixture
def of_a_study(tmp_path, monkeypatch):
    """Where the study smoke has its table edge_cases, below a root that is worked in."""
    monkeypatch.chdir(tmp_path)
    Path("config/smoke").mkdir(parents=True)
    return Path("results/smoke/tables/edge_cases.csv")


REMEDY = "snakemake results/smoke/tables/edge_cases.csv --config study=smoke"


def test_a_table_that_is_not_there_is_named_with_its_remedy(tmp_path, of_a_study):
    assert refusal(of_a_study).endswith(f"there is no such table; make it with: {REMEDY}")
    assert refusal(tmp_path / of_a_study).endswith(f"make it with: {REMEDY}")
    assert refusal(tmp_path / "eps.csv").endswith("there is no such table")
    assert refusal(Path("results/gpu/tables/timing_gpu.csv")).endswith("there is no such table")


def test_a_spoilt_table_of_a_study_is_to_be_removed_before_it_is_measured_again(of_a_study):
    tables.write(cases(), of_a_study)
    of_a_study.write_text("cut", encoding="utf-8")
    assert refusal(of_a_study).endswith(f"; measure it again: rm {of_a_study} && {REMEDY}")
    tables.meta_path(of_a_study).unlink()
    assert refusal(of_a_study).endswith(f"; measure it again: rm {of_a_study} && {REMEDY}")


def test_a_spoilt_table_of_the_archive_is_to_be_taken_back(of_a_study):
    archived = Path("results/archive/there/edge_cases.csv")
    tables.write(cases(), archived)
    archived.write_text("cut", encoding="utf-8")
    assert refusal(archived).endswith("take the published one back: git checkout -- results/archive/there")


def test_a_file_that_no_table_can_be_written_to_is_refused(tmp_path, monkeypatch):
    tables.require_name(tmp_path / "new" / "eps.csv", "eps")
    with pytest.raises(tables.TableError, match=r"mine\.csv: the table must be called .*new/eps\.csv"):
        tables.require_name(tmp_path / "new" / "mine.csv", "eps")
    with pytest.raises(tables.TableError, match=r"eps_placement\.csv: the table must be called"):
        tables.require_name(tmp_path / "new" / "eps_placement.csv", "eps")
    monkeypatch.setattr(tables.os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(tables.TableError, match=r"eps\.csv: its folder cannot be written to"):
        tables.require_name(tmp_path / "eps.csv", "eps")


def test_samples_lie_beside_a_folder_of_tables_and_else_in_the_folder_of_the_table(tmp_path, monkeypatch):
    study, flat = tmp_path / "smoke", tmp_path / "flat"
    assert tables.samples_path(study / "tables" / "eps.csv") == study / "samples" / "eps.csv"
    assert tables.samples_path(flat / "eps.csv") == flat / "samples" / "eps.csv"
    (study / "tables").mkdir(parents=True)
    monkeypatch.chdir(study / "tables")
    assert tables.samples_path(Path("eps.csv")) == study / "samples" / "eps.csv"


def test_a_name_that_no_table_has_lists_those_there_are(tmp_path):
    assert "no table is called 'epsilon'" in refusal(tmp_path / "epsilon.csv")
    with pytest.raises(tables.TableError, match="allowed: derivation, gradient_check"):
        tables.write(cases(), tmp_path / "epsilon.csv")


@pytest.mark.parametrize(
    "change",
    [lambda text: text[:-20], lambda text: text.replace("0.1", "0.2"), lambda text: ""],
    ids=["cut", "edited", "emptied"],
)
def test_a_table_that_was_changed_after_it_was_measured_is_refused(path, change):
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert "cut or edited after it was measured" in refusal(path)


def test_a_column_that_stands_twice_is_refused(path):
    rows = [line + "," + line.rpartition(",")[2] for line in path.read_text(encoding="utf-8").splitlines()]
    rewrite(path, "\n".join([*rows, ""]))
    assert "missing columns: none, unknown columns: none; allowed: kernel, case" in refusal(path)


def test_a_table_can_be_read_unverified(path):
    path.write_text(path.read_text(encoding="utf-8").replace("0.1", "0.2"), encoding="utf-8")
    assert tables.read(path, verify=False)["value"][0] == 0.2


def test_a_table_without_its_meta_file_is_refused(path):
    tables.meta_path(path).unlink()
    assert "edge_cases.meta.json is missing beside it" in refusal(path)


@pytest.mark.parametrize(
    ("text", "message"), [('{"sha', "not valid JSON"), ("{}", "holds no sha256"), ("[]", "holds no sha256")]
)
def test_a_spoilt_meta_file_is_refused(path, text, message):
    tables.meta_path(path).write_text(text, encoding="utf-8")
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("case,", "", "line 2 has 6 cells, its header 5"),
        ("\ncompact,D = 1,float64,True,0.1,\n", "\ncompact,D = 1\n", "line 2 has 2 cells"),
        ("passed,value", "passed,result", "missing columns: ['value'], unknown columns: ['result']"),
        ("passed,value", "passed,passed", "missing columns: ['value']"),
        ("True", "yes", "column 'passed' must hold bool: 'yes'"),
        ("True", "", "column 'passed', row 0: empty, and no reason is given"),
        ("0.1", "fast", "column 'value' must hold float: "),
        ("compact,D", ",D", "row 0 has an empty key; keys are kernel, case, dtype"),
        ('comma"', "comma", "not a table in UTF-8 CSV"),
    ],
)
def test_a_table_that_breaks_its_schema_is_refused(path, old, new, message):
    text = path.read_text(encoding="utf-8")
    assert old in text
    rewrite(path, text.replace(old, new, 1))
    assert message in refusal(path)


def test_an_empty_file_is_no_table(path):
    rewrite(path, "")
    assert refusal(path) == f"{path}: is empty; allowed: a header, then one line for each row"


def lack(path: Path, column: str, **record: str) -> None:
    """Write a table anew without a column, and add to its record."""
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    rewrite(path, cells.drop(columns=column).to_csv(index=False))
    meta = tables.read_meta(path) | record
    tables.meta_path(path).write_text(json.dumps(meta), encoding="utf-8")


def test_a_column_that_former_code_did_not_have_is_empty_in_an_archived_table(path):
    text = path.read_text(encoding="utf-8")
    lack(path, "value")
    assert "missing columns: ['value']" in refusal(path)
    rewrite(path, text)
    lack(path, "value", archived="there")
    assert tables.read(path)["value"].isna().all()
    assert tables.read(path)["passed"].notna().any()
    lack(path, "passed")
    assert "missing columns: ['passed']" in refusal(path)


def test_a_number_that_former_code_did_not_count_is_missing_in_an_archived_table(tmp_path):
    path = tmp_path / "scaling.csv"
    tables.write(exponents(), path)
    lack(path, "points", archived="there")
    assert "missing columns: ['points']" in refusal(path)


def test_a_repeated_key_is_refused_on_read(path):
    text = path.read_text(encoding="utf-8")
    rewrite(path, text + text.splitlines()[1] + "\n")
    assert "row 2 repeats the key {'kernel': 'compact', 'case': 'D = 1'" in refusal(path)


def test_an_integer_with_a_fraction_is_refused(tmp_path):
    path = tmp_path / "scaling.csv"
    tables.write(exponents(), path)
    rewrite(path, path.read_text(encoding="utf-8").replace(",7,", ",7.5,"))
    assert "column 'points' must hold int" in refusal(path)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("points", 7.5, "column 'points' must hold int, holds float64"),
        ("points", True, "column 'points' must hold int, holds bool"),
        ("exponent", "1", "column 'exponent' must hold float"),
        ("reason", None, "column 'reason'"),
        ("axis", "", "row 0 has an empty key"),
        ("extra", 1, "unknown columns: ['extra']; allowed: kernel, direction"),
    ],
)
def test_a_table_of_the_wrong_types_is_never_written(tmp_path, column, value, message):
    path = tmp_path / "scaling.csv"
    with pytest.raises(tables.TableError) as caught:
        tables.write(exponents().assign(**{column: value}), path)
    assert message in str(caught.value)
    assert not path.exists()


def test_rows_are_numbered_from_0_whatever_the_index(tmp_path):
    spoilt = exponents().assign(axis="").set_axis([5])
    with pytest.raises(tables.TableError, match="row 0 has an empty key"):
        tables.write(spoilt, tmp_path / "scaling.csv")


def test_one_text_does_not_make_a_column_of_text(tmp_path):
    mixed = pd.concat([exponents(), exponents().assign(kernel="other")]).assign(reason=["none", 1])
    with pytest.raises(tables.TableError, match="column 'reason' must hold str"):
        tables.write(mixed, tmp_path / "scaling.csv")


def test_an_integer_may_be_empty_only_with_a_reason(tmp_path):
    unmeasured = exponents().astype({"points": "Int64"}).assign(points=pd.array([pd.NA], dtype="Int64"))
    with pytest.raises(tables.TableError, match="'points', row 0: empty, and no reason is given"):
        tables.write(unmeasured, tmp_path / "scaling.csv")
    tables.write(unmeasured.assign(reason="too few points"), tmp_path / "scaling.csv")
    assert tables.read(tmp_path / "scaling.csv")["points"].isna().all()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_says_who_may_read_a_file(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with files.whole(tmp_path / "out.csv") as temporary:
            temporary.write_text("a", encoding="utf-8")
    finally:
        os.umask(before)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == mode


def test_a_file_is_whole_or_not_there(tmp_path):
    def interrupted():
        with files.whole(tmp_path / "new" / "table.csv") as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_that_fails_to_be_rewritten_keeps_its_old_content(tmp_path):
    path = tmp_path / "table.csv"
    with files.whole(path) as temporary:
        temporary.write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="disk full"), files.whole(path) as temporary:
        temporary.write_text("new", encoding="utf-8")
        raise OSError("disk full")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_every_schema_has_keys_and_every_table_of_measurements_a_reason():
    for stem, schema in SCHEMAS.items():
        assert schema.keys, stem
        assert not set(schema.keys) & set(schema.values), stem
        assert set(schema.columns.values()) <= {"str", "int", "float", "bool"}, stem
        if stem not in ("traffic_steps", "mutation_cover"):
            assert schema.values.get("reason") == "str", stem
