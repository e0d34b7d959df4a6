"""The campaign on a GPU, on a board without one: what it writes, keeps, resumes, does when things fail."""

import json
import shutil
import subprocess
import sys
from itertools import count

import numpy as np
import pytest
import yaml

from emulated import needs_compiler
from host_board import HostBoard
from layernorm_backward import archive, peers_on_gpu, tables
from layernorm_backward.__main__ import main
from layernorm_backward.experiments import ceiling_gpu, checks_gpu, timing_gpu
from layernorm_backward.gpu import campaign, command
from layernorm_backward.promote import promote
from workspace import ROOT

pytestmark = needs_compiler

CONFIG = {
    "checks_gpu": {
        "kernels": ["cuda_fused"],
        "dtypes": ["float32", "bfloat16"],
        "hidden": [3, 40],
        "rows": [9, 1],
        "large": [["bfloat16", 20, 24]],
        "repeated": [40],
        "tools": ["memcheck"],
        "sanitized": [40],
        "limits_u": {"float32": 8, "bfloat16": 1.5},
        "runs": 3,
        "eps": 1e-5,
        "seed": 1,
    },
    "ceiling_gpu": {
        "dtypes": ["float32"],
        "sizes": [8192],
        "flop_dtypes": [],
        "repeats": 7,
        "at_least": 7,
        "budget_s": 1.0,
        "seed": 1,
    },
    "timing_gpu": {
        "kernels": ["cuda_fused"],
        "variants": ["cuda_uncentred"],
        "peers": ["torch_eager"],
        "sets": {
            "a": {
                "kernels": ["cuda_fused", "cuda_uncentred", "torch_eager"],
                "directions": ["backward", "forward"],
                "hidden": [40],
                "array_bytes": 4000,
                "dtypes": ["float32"],
                "gamma_dtypes": ["same"],
            },
            "b": {
                "kernels": ["cuda_fused"],
                "directions": ["backward"],
                "hidden": [40, 41],
                "rows": [3],
                "dtypes": ["bfloat16"],
                "gamma_dtypes": ["same", "float32"],
            },
        },
        "repeats": 7,
        "at_least": 7,
        "budget_s": 1.0,
        "error_limit_u": {"float32": 8, "bfloat16": 1.5},
        "eps": 1e-5,
        "seed": 1,
    },
    "backward_error_gpu": {
        "kernels": ["cuda_fused"],
        "peers": ["torch_eager"],
        "dtypes": ["float32"],
        "kappas": [1.0, 1e4],
        "hidden": 40,
        "hidden_sweep": [],
        "hidden_kappas": [],
        "upstreams": ["shifted"],
        "rows": 8,
        "eps": 1e-5,
        "seed": 1,
    },
    "traffic_gpu": {
        "kernels": ["cuda_fused"],
        "peers": [],
        "directions": ["backward"],
        "dtypes": ["float32"],
        "hidden": [40],
        "array_bytes": 4000,
        "seed": 1,
    },
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of all GPU experiments, tiny."""
    folder = tmp_path_factory.mktemp("study") / "tiny"
    folder.mkdir()
    for stem, values in CONFIG.items():
        (folder / f"{stem}.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_peers():
    """Peers are said to be missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers_on_gpu, "missing", lambda name: f"not installed: {name}")
        yield


def run(study, out, stems=command.STEMS, *, minutes=5.0, resume=False):
    return command.run(HostBoard(), out, study, stems, minutes, resume)


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    """A finished campaign."""
    out = tmp_path_factory.mktemp("campaign") / "out"
    assert run(study, out) == 0
    return out


@pytest.fixture
def measured(finished, tmp_path):
    """A copy of a finished campaign."""
    return shutil.copytree(finished, tmp_path / "out")


def table(out, stem):
    return tables.read(out / "tables" / f"{stem}.csv")


def test_a_campaign_writes_every_table_with_its_record(measured):
    for stem in command.STEMS:
        assert len(table(measured, stem))
        record = tables.read_meta(measured / "tables" / f"{stem}.csv")
        assert record["machine"]["gpu"] == "none: emulated"
        assert record["config"] == CONFIG[stem]
        assert {"code_hash", "commit", "date", "duration_s", "study"} <= set(record)
    assert len((measured / "samples" / "timing_gpu.csv").read_text().splitlines()) > 7


def test_all_checks_of_our_kernel_pass(measured):
    checks = table(measured, "checks_gpu")
    done = checks[checks["reason"] == ""]
    assert set(done["check"]) == {"results", "repeats"}
    assert done["passed"].all()
    assert (done["value"] <= done["limit"]).all()
    assert set(checks.loc[checks["reason"] != "", "check"]) == {"memcheck"}


def test_times_stand_beside_the_roof_of_their_cell(measured):
    times = table(measured, "timing_gpu")
    ours = times[times["kernel"] == "cuda_fused"]
    assert (ours["reason"] == "").all()
    assert (ours["roof_fraction_low"] <= ours["roof_fraction"]).all()
    assert (ours["ours_ratio"] == 1).all()
    assert (ours["method"] == "graph").all()
    assert set(ours["roof_operation"].str.partition("_")[0]) == {"copy", "triad"}
    rates = ours["bytes"].astype(float) / ours["median_s"] / 1e9
    assert np.allclose(ours["useful_gb_per_s"], rates)
    assert set(times.loc[times["kernel"] == "torch_eager", "reason"]) == {"not installed: torch_eager"}


def test_an_error_that_is_measured_is_that_of_the_kernel(measured):
    errors = table(measured, "backward_error_gpu")
    ours = errors[(errors["kernel"] == "cuda_fused") & (errors["quantity"] == "dx")]
    assert len(ours) == 2
    assert ours["error_u_max"].between(0.1, 4).all()


def test_resuming_measures_only_what_is_left(study, measured, monkeypatch):
    before = table(measured, "timing_gpu")
    tried = []
    monkeypatch.setattr(timing_gpu, "measure", lambda *given, **_: tried.append(given[2]))
    assert run(study, measured, ["timing_gpu"], resume=True) == 0
    assert tried == []
    assert table(measured, "timing_gpu").equals(before)


def test_without_resume_all_is_measured_again(study, measured, monkeypatch):
    tried = []
    honest = ceiling_gpu.measure
    monkeypatch.setattr(
        ceiling_gpu, "measure", lambda *given, **how: tried.append(1) or honest(*given, **how)
    )
    run(study, measured, ["ceiling_gpu"])
    assert tried == [1]


def test_when_time_is_up_the_rest_says_so_and_is_measured_later(study, tmp_path, monkeypatch, capsys):
    clock = count()
    monkeypatch.setattr(command, "monotonic", lambda: 25.0 * next(clock))
    out = tmp_path / "out"
    assert run(study, out, ["timing_gpu"], minutes=2) == 1
    assert "go on with --resume" in capsys.readouterr().out
    first = table(out, "timing_gpu")
    late = first["reason"] == campaign.LATER
    assert 0 < late.sum() < len(first)
    monkeypatch.undo()
    assert run(study, out, ["timing_gpu"], resume=True) == 0
    whole = table(out, "timing_gpu")
    assert not (whole["reason"] == campaign.LATER).any()
    kept = first[~late & (first["reason"] == "")]
    assert kept["median_s"].isin(whole["median_s"]).all()


def test_a_cell_that_fails_costs_no_other_and_is_tried_again(study, tmp_path, monkeypatch):
    honest = timing_gpu.measure

    def failing(board, pool, cell, *given, **how):
        if cell.hidden == 41:
            raise MemoryError("out of memory allocating 5 bytes")
        return honest(board, pool, cell, *given, **how)

    monkeypatch.setattr(timing_gpu, "measure", failing)
    out = tmp_path / "out"
    assert run(study, out, ["timing_gpu"]) == 0
    times = table(out, "timing_gpu")
    lost = times[times["hidden"] == 41]
    assert set(lost["reason"]) == {"MemoryError: out of memory allocating 5 bytes"}
    assert (times.loc[(times["hidden"] == 40) & (times["kernel"] == "cuda_fused"), "reason"] == "").all()
    monkeypatch.setattr(timing_gpu, "measure", honest)
    run(study, out, ["timing_gpu"], resume=True)
    assert (table(out, "timing_gpu").query("hidden == 41")["reason"] == "").all()


def test_a_wrong_kernel_is_not_timed(study, tmp_path, monkeypatch):
    monkeypatch.setattr(timing_gpu.exact, "errors", lambda *_: timing_gpu.exact.Errors(99.0, 99.0, 0.0, 0.0))
    run(study, tmp_path / "out", ["timing_gpu"])
    ours = table(tmp_path / "out", "timing_gpu").query("kernel == 'cuda_fused'")
    assert set(ours["reason"]) == {"wrong: error of dx is 99 u", "wrong: error of y is 99 u"}
    assert ours["median_s"].isna().all()


def test_a_check_fails_where_bits_differ_or_numbers_are_wrong(monkeypatch):
    board = HostBoard()
    pool = checks_gpu.Pool(board, 1)
    how = CONFIG["checks_gpu"]
    honest = checks_gpu.contenders.prepare

    def drifting(*given):
        one = honest(*given)
        results = one.results()

        def backward():
            results.dx[0, 0] += 1

        return one._replace(passes={"backward": checks_gpu.contenders.Timed(backward)})

    monkeypatch.setattr(checks_gpu.contenders, "prepare", drifting)
    cell = checks_gpu.Cell("repeats", "float32", "float32", 9, 40)
    (row,), _ = checks_gpu.measure(board, pool, cell, ["cuda_fused"], **how)
    assert (row["passed"], row["value"]) == (False, 2.0)

    def poisoned(*given):
        one = honest(*given)
        one.results().dx[3, 3] = np.nan
        return one

    monkeypatch.setattr(checks_gpu.contenders, "prepare", poisoned)
    (row,), _ = checks_gpu.measure(board, pool, cell._replace(check="results"), ["cuda_fused"], **how)
    assert row["passed"] is False
    assert np.isnan(row["value"])


def test_outputs_are_poisoned_before_a_kernel_is_checked():
    board = HostBoard()
    given = checks_gpu.Pool(board, 1).arrays(4, 8, "bfloat16", "float32")
    array = checks_gpu.contenders._poisoned(np.zeros_like(given.x))
    assert np.isnan(array.astype(np.float32)).all()


def test_the_ledger_tells_configurations_and_code_apart(tmp_path):
    entry = campaign.Entry([{"a": 1}], [])
    kept = campaign.Ledger(tmp_path, "timing_gpu", {"seed": 1}, "hash")
    kept.keep(("cell",), ["kernel"], entry)
    assert kept.find(("cell",), ["kernel"]) == entry
    assert kept.find(("cell",), ["other"]) is None
    assert campaign.Ledger(tmp_path, "timing_gpu", {"seed": 2}, "hash").find(("cell",), ["kernel"]) is None
    assert campaign.Ledger(tmp_path, "timing_gpu", {"seed": 1}, "else").find(("cell",), ["kernel"]) is None


def test_a_campaign_is_promoted_with_the_tables_that_hold_measurements(measured, tmp_path):
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert set(provenance["tables"]) == set(command.STEMS) - {"traffic_gpu"}  # no Nsight Compute here
    assert provenance["described"]["gpu"] == "none: emulated"
    assert archive.latest("timing_gpu", "tiny", tmp_path / "archive") == folder / "timing_gpu.csv"
    assert archive.latest("traffic_gpu", "tiny", tmp_path / "archive") is None


NO_DEVICE = "no CUDA device here"


def test_without_a_device_the_command_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "device_missing", lambda: NO_DEVICE)
    assert main(["gpu", "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"error: {NO_DEVICE}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out"),
        (["--out", "x", "--minutes", "0"], "allowed: a number above 0"),
        (["--out", "x", "--only", "timing_cpu"], "invalid choice"),
    ],
)
def test_bad_arguments_are_told(words, message, capsys):
    with pytest.raises(SystemExit):
        main(["gpu", *words])
    assert message in capsys.readouterr().err


def test_the_workflow_gets_rows_with_the_reason_where_there_is_no_device(monkeypatch):
    monkeypatch.setattr(campaign, "device_missing", lambda: NO_DEVICE)
    found, samples = timing_gpu.run(**CONFIG["timing_gpu"])
    assert set(found["reason"]) == {NO_DEVICE}
    assert found["median_s"].isna().all()
    assert samples.empty


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kernels": ["cuda_fussed"]},
            r"b: kernels: \['cuda_fussed'\]; allowed: cuda_fused, cuda_uncentred, torch_eager",
        ),
        ({"directions": ["sideways"]}, "allowed: forward, backward"),
        ({"dtypes": ["int8"]}, "allowed: float64, float32, float16, bfloat16"),
        ({"rows": [0]}, "allowed: whole numbers, at least 1"),
        ({"array_bytes": 5}, "and rows or array_bytes"),
        ({"colour": 5}, "sets: b: has"),
    ],
)
def test_a_bad_set_is_told(change, message):
    config = json.loads(json.dumps(CONFIG["timing_gpu"]))
    config["sets"]["b"] |= change
    with pytest.raises(ValueError, match=message):
        timing_gpu.cells(**config)


HEAVY = {"scipy", "numba", "psutil", "pydantic", "matplotlib", "snakemake", "tqdm", "sympy", "threadpoolctl"}
HEAVY |= {"jinja2", "flint", "typst", "torch", "jax", "triton", "cupy"}


def test_the_command_imports_nothing_but_the_few_packages_that_it_may():
    stems = ", ".join(f"layernorm_backward.experiments.{stem}" for stem in command.STEMS)
    code = f"import sys, layernorm_backward.gpu.command, {stems}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"numpy", "pandas", "yaml", "ml_dtypes"} <= loaded
    assert loaded & HEAVY == set()
