"""The table of machines: this run, then the archived runs of its study, cell by cell what they measured."""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.paper import machines
from layernorm_backward.records import tables

ARCHIVE = Path(__file__).parents[1] / "results/archive"
SOURCE = "xeon6-2core"


def changed(folder: Path, change, machine: str) -> Path:
    """A copy of an archived table of timing in a folder, changed, as that of another machine."""
    folder.mkdir(parents=True)
    path = ARCHIVE / SOURCE / f"{machines.STEM}.csv"
    table = change(tables.read(path))
    record = tables.read_meta(path)
    caches = {"l1d_bytes": 32 << 10, "l2_bytes": 64 << 20, "last_level_cache_bytes": 256 << 20}
    record["machine"] |= {"cpu": machine, "cores_usable": 3} | caches
    for later in ("design", "vectors"):
        del record["machine"][later]
    copy = folder / path.name
    table.to_csv(copy, index=False)
    copy.with_suffix(".meta.json").write_text(json.dumps(record | {"sha256": tables.sha256(copy)}))
    return copy


def archived(*names: str) -> list[str]:
    """The names that rows of archived machines have: with the commit of their table."""
    commit = tables.read_meta(ARCHIVE / SOURCE / f"{machines.STEM}.csv")["commit"][:7]
    return [f"`{name}`, {commit}" for name in names]


def promoted(folder: Path, study: str, date: str) -> None:
    (folder / "provenance.json").write_text(json.dumps({"study": study, "promoted": date}))


@pytest.fixture
def run(tmp_path):
    """The folder of a run's tables, and an archive of two machines, a third of another study."""
    changed(tmp_path / "paper/tables", lambda table: table, "Here")
    for name, study, date in [
        ("old", "paper", "2026-01"),
        ("new", "paper", "2026-02"),
        ("dense", "full", "2026-03"),
    ]:
        folder = tmp_path / "archive" / name
        changed(folder, lambda table: table.assign(roof_fraction=table.roof_fraction / 2), name)
        promoted(folder, study, date)
    return tmp_path / "paper/tables", tmp_path / "archive"


def test_this_run_comes_first_and_then_the_machines_of_its_study_the_latest_first(run):
    found = machines.rows(*run)
    assert [row["machine"] for row in found] == ["this run", *archived("new", "old")]
    assert found[0]["processor"] == "Here, vectors not recorded, 3 cores; 32 KiB, 64 MiB, 256 MiB"


def test_a_machine_that_tells_its_vector_instructions_has_them_beside_its_processor(run):
    meta = (run[0] / f"{machines.STEM}.csv").with_suffix(".meta.json")
    record = json.loads(meta.read_text())
    meta.write_text(json.dumps(record | {"machine": record["machine"] | {"vectors": "AVX2"}}))
    assert machines.rows(*run)[0]["processor"].startswith("Here, AVX2, 3 cores; ")


def test_a_machine_that_tells_its_design_has_it_behind_the_name_that_a_hypervisor_may_give_to_several(run):
    meta = (run[0] / f"{machines.STEM}.csv").with_suffix(".meta.json")
    record = json.loads(meta.read_text())
    told = {"design": "family 25, model 1", "l2_bytes": 512 << 10}
    meta.write_text(json.dumps(record | {"machine": record["machine"] | told}))
    found = machines.rows(*run)[0]["processor"]
    assert found.startswith("Here (family 25, model 1), ") and "; 32 KiB, 512 KiB, 256 MiB" in found


def test_a_cache_of_unknown_size_is_not_printed_as_0(run):
    meta = (run[0] / f"{machines.STEM}.csv").with_suffix(".meta.json")
    record = json.loads(meta.read_text())
    meta.write_text(json.dumps(record | {"machine": record["machine"] | {"last_level_cache_bytes": 0}}))
    assert machines.rows(*run)[0]["processor"].endswith("; 32 KiB, 64 MiB, not reported")


@pytest.mark.parametrize(
    ("commit", "named"), [("0123456789ab+changes", "0123456+changes"), ("", "an unknown commit")]
)
def test_a_machine_is_named_with_the_commit_of_its_table(run, commit, named):
    path = run[1] / "new" / f"{machines.STEM}.csv"
    path.with_suffix(".meta.json").write_text(json.dumps(tables.read_meta(path) | {"commit": commit}))
    assert machines.rows(*run)[1]["machine"] == f"`new`, {named}"


def test_an_archive_of_this_very_run_is_left_out(run):
    changed(run[1] / "this", lambda table: table, "Here")
    promoted(run[1] / "this", "paper", "2026-04")
    assert [row["machine"] for row in machines.rows(*run)] == ["this run", *archived("new", "old")]


def test_a_cell_is_the_least_and_the_most_of_its_measurements(run):
    table = tables.read(run[0] / f"{machines.STEM}.csv")
    chosen = table[
        (table.kernel == "numba_fused")
        & (table.direction == "backward")
        & table.dtype.isin(["float32", "float64"])
        & table.hidden.isin([256, 1024])
        & (table.threads == 2)
        & (table.residency == "memory")
    ].roof_fraction
    assert len(chosen) >= 4 and chosen.min() < chosen.max()
    here, new, _ = machines.rows(*run)
    assert here["short"] == f"{chosen.min():.2f} to {chosen.max():.2f}"
    assert new["short"] == f"{chosen.min() / 2:.2f} to {chosen.max() / 2:.2f}"
    assert here["compact"] == new["compact"] and here["half"] != new["half"]


def test_each_cell_has_its_direction_dtypes_and_row_lengths(run):
    """A fraction is log2(D) / 100, 0.1 more by narrower dtype, 0.4 more forward; the ratio 10 times."""
    path = run[0] / f"{machines.STEM}.csv"
    record, table = tables.read_meta(path), tables.read(path)
    ours = (table.kernel == "numba_fused") & (table.residency == "memory") & table.roof_fraction.notna()
    sizes = (64, 256, 1024, 2048, 4096, 16384, 32768)
    cells = list(product(("forward", "backward"), DTYPE_NAMES, sizes))
    keys = pd.DataFrame(cells, columns=["direction", "dtype", "hidden"])
    table = table[ours].iloc[[0] * len(cells)].assign(**{name: list(keys[name]) for name in keys})
    narrower, forward = table.dtype.map(DTYPE_NAMES.index), table.direction == "forward"
    fraction = np.log2(table.hidden) / 100 + 0.1 * narrower + 0.4 * forward
    shape = [f"1x8x{size}" for size in table.hidden]
    table = table.assign(shape=shape, roof_fraction=fraction, compact_ratio=10 * fraction)
    tables.write(table, path, record)
    here, *_ = machines.rows(*run)
    assert {name: here[name] for name in machines.SPANS} == {
        "short": "0.08 to 0.20",
        "long": "0.12 to 0.24",
        "forward": "0.48 to 0.64",
        "half": "0.28 to 0.44",
        "compact": "0.8 to 2.4",
    }


def test_the_fraction_is_that_of_numba_fused_alone(run):
    path = run[0] / f"{machines.STEM}.csv"
    here, *_ = machines.rows(*run)
    record, table = tables.read_meta(path), tables.read(path)
    theirs = table[table.kernel == "numba_fused"].assign(kernel="theirs", roof_fraction=7.0)
    tables.write(pd.concat([table, theirs], ignore_index=True), path, record)
    assert machines.rows(*run)[0] == here


def test_a_cache_of_one_mebibyte_is_told_in_mebibytes(run):
    meta = (run[0] / f"{machines.STEM}.csv").with_suffix(".meta.json")
    record = json.loads(meta.read_text())
    meta.write_text(json.dumps(record | {"machine": record["machine"] | {"l2_bytes": 1 << 20}}))
    assert machines.rows(*run)[0]["processor"].endswith("; 32 KiB, 1 MiB, 256 MiB")


def test_rows_that_are_no_whole_cache_lines_of_every_dtype_do_not_count(run):
    here, *_ = machines.rows(*run)
    folder, stem = run[0], f"{machines.STEM}.csv"
    table = tables.read(folder / stem)
    odd = table[table.hidden == 256].assign(hidden=288, roof_fraction=7.0)
    odd["shape"] += " of 288"
    record = tables.read_meta(folder / stem)
    tables.write(pd.concat([table, odd], ignore_index=True), folder / stem, record)
    assert machines.rows(*run)[0] == here


def test_what_was_not_measured_is_a_dash(run):
    path = run[0] / f"{machines.STEM}.csv"
    record = tables.read_meta(path)
    table = tables.read(path)
    table[table.direction != "forward"].to_csv(path, index=False)
    path.with_suffix(".meta.json").write_text(json.dumps(record | {"sha256": tables.sha256(path)}))
    here, *_ = machines.rows(*run)
    assert here["forward"] == "\N{EN DASH}" != here["short"]


def test_threads_that_a_machine_has_not_are_not_all_threads(run):
    path = run[0] / f"{machines.STEM}.csv"
    record, table = tables.read_meta(path), tables.read(path)
    values = [name for name in table.columns if table[name].dtype == float]
    more = table.assign(threads=64, reason="64 threads, 2 cores", **dict.fromkeys(values, float("nan")))
    pd.concat([table, more[table.threads == 2]]).to_csv(path, index=False)
    path.with_suffix(".meta.json").write_text(json.dumps(record | {"sha256": tables.sha256(path)}))
    here, new, _ = machines.rows(*run)
    assert here["short"] != "\N{EN DASH}" and here["compact"] == new["compact"]


def test_a_machine_whose_table_lacks_a_later_column_has_its_row(run, tmp_path):
    """Of numbers or text, which may be empty; without one of whole numbers it cannot be read."""
    folder = tmp_path / "results/archive"
    for name, column in (("former", "pages_fraction"), ("ancient", "rows")):
        changed(folder / name, lambda table, column=column: table.drop(columns=column), name)
        promoted(folder / name, "paper", "2026-01")
    assert [row["machine"] for row in machines.rows(run[0], folder)] == ["this run", *archived("former")]


def test_a_table_that_was_cut_is_left_out(run):
    old = run[1] / "old" / f"{machines.STEM}.csv"
    pd.read_csv(old).drop(columns="noise").to_csv(old, index=False)
    assert [row["machine"] for row in machines.rows(*run)] == ["this run", *archived("new")]


def test_the_cost_of_recentring_is_that_of_the_table_beside_the_times(run):
    assert {row["recentring"] for row in machines.rows(*run)} == {"\N{EN DASH}"}
    source, target = ARCHIVE / SOURCE / "kernel_costs.csv", run[0] / "kernel_costs.csv"
    for ending in (".csv", ".meta.json"):
        shutil.copy(source.with_name("kernel_costs" + ending), target.with_name("kernel_costs" + ending))
    costs = tables.read(source).set_index("variant").loc["no_recentring", "cost"].dropna()
    assert len(costs) > 4 and costs.min() < 0 < costs.max()
    here, new, _ = machines.rows(*run)
    assert here["recentring"] == f"{100 * costs.min():.1f} to {100 * costs.max():.1f} %"
    assert new["recentring"] == "\N{EN DASH}"
