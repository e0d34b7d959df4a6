"""The campaign on a GPU, on a board without one: what it writes, keeps, and does not measure again."""

import json
import re
import shutil
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from emulated import needs_compiler
from gpu_study import CONFIG, run, table, tiny_study, without_peers
from host_board import HostBoard
from layernorm_backward import peers_on_gpu
from layernorm_backward.__main__ import main
from layernorm_backward.experiments import ceiling_gpu, checks_gpu, timing_gpu, traffic_gpu
from layernorm_backward.gpu import campaign, command, deadline, part, precompile, tools
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.gpu.ledger import Entry, Ledger
from layernorm_backward.gpu.reasons import Fault, Transient
from layernorm_backward.records import archive, tables
from layernorm_backward.records.promote import promote
from selection import held_row_by_row

pytestmark = needs_compiler
no_peers = pytest.fixture(scope="module", autouse=True)(without_peers)
study = pytest.fixture(scope="module")(tiny_study)
LATE = "not measured: time was up"


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


@pytest.fixture
def tried(monkeypatch):
    """The cells that an experiment measures."""

    def watch(experiment):
        found, honest = [], experiment.measure
        monkeypatch.setattr(
            experiment, "measure", lambda *given, **how: found.append(given[2]) or honest(*given, **how)
        )
        return found

    return watch


def test_candidate_mappings_are_timed_on_demand(study, measured, tmp_path):
    compiled = []
    board = HostBoard()
    board.compile = lambda programs: compiled.extend(programs) or 0
    assert not (measured / "tables" / "maps_gpu.csv").exists()
    assert run(study, tmp_path / "maps", ["maps_gpu"], board=board) == 0
    found = table(tmp_path / "maps", "maps_gpu")
    assert set(found["reason"]) == {""} and set(found["hidden"]) == {40, 61}
    assert {one.kernel for one in compiled} == {"forward", "backward", "add_partials", "stream"}
    assert len(set(compiled)) == len(compiled) > 4


def test_a_campaign_writes_every_table_with_its_record(measured):
    for stem in command.STEMS:
        assert len(table(measured, stem))
        record = tables.read_meta(measured / "tables" / f"{stem}.csv")
        assert record["machine"]["gpu"] == "none: emulated"
        assert record["config"] == CONFIG[stem]
        assert {"code_hash", "commit", "date", "duration_s", "study"} <= set(record)
    samples = pd.read_csv(measured / "samples" / "timing_gpu.csv")
    assert len(samples) > 7 and set(samples["sm_mhz"]) == {1980}


def test_all_checks_of_our_kernel_pass(measured):
    checks = table(measured, "checks_gpu")
    done = checks[checks["reason"] == ""]
    assert set(done["check"]) == {"results", "far", "apart", "strided", "unaligned", "repeats"}
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
    held_row_by_row(errors, "bound_ratio_max", "error_u_max", "bound_u")


def test_resuming_measures_only_what_is_left(study, measured, tried):
    before = table(measured, "timing_gpu")
    cells = tried(timing_gpu)
    assert run(study, measured, ["timing_gpu"], resume=True) == 0
    assert cells == []
    assert table(measured, "timing_gpu").equals(before)


def test_a_table_that_is_requested_twice_is_measured_once(study, tmp_path, tried):
    cells = tried(ceiling_gpu)
    assert run(study, tmp_path / "out", ["ceiling_gpu", "ceiling_gpu"]) == 0
    assert len(cells) == 1


def test_a_table_that_cannot_be_written_keeps_no_other_from_it(study, tmp_path, monkeypatch):
    honest = tables.write

    def write(found, path, *record):
        if path.stem == "ceiling_gpu":
            raise tables.TableError("a key stands twice")
        honest(found, path, *record)

    monkeypatch.setattr(tables, "write", write)
    with pytest.raises(tables.TableError, match="a key stands twice"):
        run(study, tmp_path / "out", ["ceiling_gpu", "traffic_gpu"])
    reasons = set(table(tmp_path / "out", "traffic_gpu")["reason"])
    assert reasons == {"not measured: TableError: a key stands twice"}


def test_existing_tables_are_kept_or_measured_again_as_requested_and_never_lost_silently(
    study, measured, tried
):
    cells = tried(ceiling_gpu)
    with pytest.raises(ValueError, match=r"holds cells of ceiling_gpu: --resume goes on .*, --anew measures"):
        run(study, measured, ["ceiling_gpu"])
    assert cells == [] and list((measured / "ledger" / "ceiling_gpu").glob("*.json"))
    run(study, measured, ["ceiling_gpu"], anew=True)
    assert len(cells) == 1


@pytest.mark.parametrize("stem", ["timing_gpu", "ceiling_gpu", "maps_gpu"])
def test_all_that_a_table_launches_is_compiled_before(study, tmp_path, monkeypatch, stem):
    board, launched = HostBoard(), set()
    honest = board.machine.launch
    compiled = []
    board.compile = lambda programs: compiled.extend(programs) or 0
    board.machine.launch = lambda program, *given: launched.add(program) or honest(program, *given)
    assert run(study, tmp_path / "out", [stem], board=board) == 0
    assert "streams" in {one.source for one in launched}
    assert launched <= set(compiled)


def test_what_the_workflow_measures_is_compiled_before_and_has_no_end(monkeypatch):
    board, compiled, left = HostBoard(), [], []
    board.compile = lambda programs: compiled.extend(programs) or 0
    monkeypatch.setattr(campaign, "Gpu", lambda: board)
    monkeypatch.setattr(campaign, "device_missing", lambda: "")
    honest = ceiling_gpu.measure

    def measure(*given, time_left, **how):
        left.append((len(compiled), time_left()))
        return honest(*given, time_left=time_left, **how)

    monkeypatch.setattr(ceiling_gpu, "measure", measure)
    found, samples = campaign.live(ceiling_gpu, CONFIG["ceiling_gpu"])
    assert left == [(4, float("inf"))]
    assert set(found["reason"]) == {""} and len(samples)


def test_programs_that_do_not_compile_are_counted(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(precompile, "monotonic", lambda: 0.0)
    board = HostBoard()
    board.compile = lambda programs: len(list(programs)) and 1
    run(study, tmp_path / "out", ["ceiling_gpu"], board=board)
    assert "\n3 of 4 programs compiled in 0 s, 1 failed\n" in capsys.readouterr().out


def test_compiling_ends_when_time_is_up(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(precompile, "monotonic", lambda: 0.0)
    board, deadline, taken = HostBoard(), Deadline(100), []

    def compile_some(programs):
        for program in programs:
            taken.append(program)
            if len(taken) == 2:
                deadline.stop("now")
        return 0

    board.compile = compile_some
    assert run(study, tmp_path / "out", ["ceiling_gpu"], board=board, deadline=deadline) == 1
    assert len(taken) == 2
    assert "\n2 of 4 programs compiled in 0 s\n" in capsys.readouterr().out
    assert set(table(tmp_path / "out", "ceiling_gpu")["reason"]) == {"not measured: now"}


def test_a_peer_that_is_installed_later_is_measured_then(study, measured, tried, monkeypatch):
    cells = tried(timing_gpu)
    monkeypatch.setattr(peers_on_gpu, "version", lambda name: f"{name} 2.0")
    run(study, measured, ["timing_gpu"], resume=True)
    assert {cell.dtype for cell in cells} == {"float32"}  # those with a peer


def other(**told):
    """A board that also tells this of itself."""
    board = HostBoard()
    board.describe = lambda: HostBoard().describe() | told
    return board


@pytest.mark.parametrize("what", ["gpu", "driver_cuda", "nvrtc"])
def test_cells_of_another_gpu_or_compiler_are_measured_again(study, measured, tried, what):
    cells = tried(ceiling_gpu)
    run(study, measured, ["ceiling_gpu"], board=other(**{what: "2.0"}), resume=True)
    assert len(cells) == 1
    run(study, measured, ["ceiling_gpu"], board=other(**{what: "2.0"}), resume=True)
    run(study, measured, ["ceiling_gpu"], resume=True)
    assert len(cells) == 1


def test_cells_of_another_driver_are_measured_again_but_not_where_none_was_reported(study, tmp_path, tried):
    """Each time that nvidia-smi was silent, a finished table was measured again."""
    cells = tried(ceiling_gpu)
    for told, many in ({}, 1), ({"driver": "580.1"}, 1), ({}, 1), ({"driver": "580.2"}, 1):
        run(study, tmp_path / "silent", ["ceiling_gpu"], board=other(**told), resume=True)
        assert len(cells) == many
    for told, many in ({"driver": "580.1"}, 2), ({}, 2), ({"driver": "580.1"}, 2), ({"driver": "580.2"}, 3):
        run(study, tmp_path / "told", ["ceiling_gpu"], board=other(**told), resume=True)
        assert len(cells) == many


def test_a_cell_with_a_reason_that_can_go_away_is_measured_again(study, measured, tried):
    assert "ncu is not installed" in set(table(measured, "traffic_gpu")["reason"])
    cells = tried(traffic_gpu)
    run(study, measured, ["traffic_gpu"], resume=True)
    assert len(cells) == 1


def test_cells_left_when_time_is_up_are_marked_and_measured_later(
    study, tmp_path, monkeypatch, tried, capsys
):
    cells, out = tried(timing_gpu), tmp_path / "out"
    monkeypatch.setattr(deadline, "monotonic", lambda: 50.0 * len(cells))
    assert run(study, out, ["timing_gpu"], deadline=Deadline(100)) == 1
    assert "go on with --resume" in capsys.readouterr().out
    first = table(out, "timing_gpu")
    late = first["reason"] == LATE
    assert 0 < late.sum() < len(first)
    monkeypatch.undo()
    assert run(study, out, ["timing_gpu"], resume=True) == 0
    whole = table(out, "timing_gpu")
    assert not (whole["reason"] == LATE).any()
    kept = first[~late & (first["reason"] == "")]
    assert kept["median_s"].isin(whole["median_s"]).all()


def test_rows_after_a_cell_that_is_not_kept_stay_in_the_table(study, measured):
    ledger = measured / "ledger" / "timing_gpu"
    rows = {path: json.loads(path.read_text())["rows"][0] for path in ledger.iterdir()}
    (first,) = [
        path for path, row in rows.items() if (row["dtype"], row["direction"]) == ("float32", "backward")
    ]
    first.unlink()
    assert run(study, measured, ["timing_gpu"], deadline=Deadline(0), resume=True) == 1
    times = table(measured, "timing_gpu")
    assert 0 < (times["reason"] == LATE).sum() <= 3
    assert (times["reason"] == "").sum() >= 5


def test_a_tool_that_is_cut_off_by_the_end_leaves_its_cell_unmeasured(study, tmp_path, monkeypatch):
    monkeypatch.setattr(deadline, "monotonic", lambda: 0.0)
    ends = Deadline(300)

    def slow(*_, time_left, **__):
        assert time_left() == 300
        ends.stop("now")
        return [traffic_gpu._keys(cell, "cuda_fused") | {"reason": Transient("took more than 7 s")}], []

    (cell,) = traffic_gpu.cells(**CONFIG["traffic_gpu"])
    monkeypatch.setattr(traffic_gpu, "measure", slow)
    assert run(study, tmp_path / "out", ["traffic_gpu"], deadline=ends) == 1
    assert set(table(tmp_path / "out", "traffic_gpu")["reason"]) == {"not measured: now"}


SHORT = Transient("OutOfMemoryError: 5 GiB")


@pytest.fixture
def two_peers(study, tmp_path, monkeypatch):
    """A study of traffic over two D, where a peer has no memory at D in `short`; a campaign over it."""
    values = CONFIG["traffic_gpu"] | {"peers": ["liger"], "hidden": [40, 48]}
    folder = shutil.copytree(study, tmp_path / study.name)
    (folder / "traffic_gpu.yaml").write_text(json.dumps(values), encoding="utf-8")
    campaigns = SimpleNamespace(short={40}, measured=[], before_end=lambda: None)

    def measure(board, pool, cell, names, **_):
        campaigns.measured.append(cell.hidden)
        campaigns.before_end()
        reasons = {"liger": SHORT} if cell.hidden in campaigns.short else {}
        found = {"minimum_bytes": 1.0, "measured_bytes": float(len(campaigns.measured))}
        told = [{"reason": reasons[name]} if name in reasons else found | {"reason": ""} for name in names]
        return [traffic_gpu._keys(cell, name) | one for name, one in zip(names, told, strict=True)], []

    monkeypatch.setattr(traffic_gpu, "measure", measure)

    def go_on(deadline=None, **how):
        status = run(folder, tmp_path / "out", ["traffic_gpu"], deadline=deadline, **how)
        found = table(tmp_path / "out", "traffic_gpu").fillna({"measured_bytes": 0})
        return status, list(zip(found["hidden"], found["measured_bytes"], found["reason"], strict=True))

    campaigns.go_on, campaigns.out = go_on, tmp_path / "out"
    return campaigns


def test_what_stands_beside_a_reason_that_can_go_away_is_kept_until_it_is_measured_again(two_peers):
    first = [(40, 1.0, ""), (40, 0.0, SHORT), (48, 2.0, ""), (48, 2.0, "")]
    assert two_peers.go_on() == (0, first)
    assert two_peers.go_on(Deadline(-1), resume=True) == (1, first)
    two_peers.short = {}
    assert two_peers.go_on(resume=True) == (0, [(40, 3.0, ""), (40, 3.0, ""), *first[2:]])
    assert two_peers.measured == [40, 48, 40]


def test_what_is_measured_in_a_cell_in_which_time_ends_is_kept_and_the_cell_measured_again(two_peers):
    ends = Deadline(300)
    two_peers.before_end = lambda: ends.stop("now")
    late = "not measured: now"
    assert two_peers.go_on(ends) == (1, [(40, 1.0, ""), (40, 0.0, SHORT), (48, 0.0, late), (48, 0.0, late)])
    two_peers.short, two_peers.before_end = {}, lambda: None
    assert two_peers.go_on(resume=True)[0] == 0
    assert two_peers.measured == [40, 48, 40]  # the one that was never measured comes before


def test_a_cell_that_is_measured_again_loses_no_row_that_it_had(two_peers, monkeypatch):
    first = two_peers.go_on()[1]

    def fail():
        raise MemoryError

    two_peers.before_end = fail
    assert two_peers.go_on(resume=True) == (1, first)

    def lose():
        board.fault = "an illegal address"

    board = HostBoard()
    two_peers.before_end = lose
    lost = "Lost: an illegal address"
    assert two_peers.go_on(resume=True, board=board) == (1, [first[0], (40, 0.0, lost), *first[2:]])
    two_peers.before_end = lambda: None
    assert two_peers.go_on(resume=True) == (1, [first[0], (40, 0.0, lost), *first[2:]])


def test_a_cell_that_fails_when_it_is_measured_again_is_reported_until_it_does_not(two_peers, capsys):
    """Its rows from before stood in the table, and the exit code was 0."""
    first = two_peers.go_on()[1]

    def fail():
        raise RuntimeError("cuLaunchKernelEx: 701")

    two_peers.before_end = fail
    assert two_peers.go_on(resume=True) == (1, first)
    told = "traffic_gpu, backward float32 25 40: RuntimeError: cuLaunchKernelEx: 701"
    assert told in capsys.readouterr().out
    assert two_peers.go_on(Deadline(-1), resume=True) == (1, first)
    assert told in capsys.readouterr().out
    two_peers.before_end = lambda: None
    assert two_peers.go_on(resume=True)[0] == 0
    assert "RuntimeError" not in capsys.readouterr().out


def test_a_fault_in_rows_that_are_not_kept_is_reported():
    before = Entry([{"kernel": "cuda_fused", "reason": ""}, {"kernel": "liger", "reason": ""}], [])
    fault = {"kernel": "cuda_fused", "reason": Fault("results are wrong")}
    found = Entry([fault, {"kernel": "liger", "reason": SHORT}], []).after(before)
    assert found.rows == before.rows
    assert found.faults == ["cuda_fused: results are wrong"]
    assert Entry(before.rows, []).after(found).faults == []


def test_one_row_more_does_not_make_up_for_one_that_was_measured():
    one, other = ({"kernel": name, "reason": ""} for name in ("cuda_fused", "liger"))
    gone = [row | {"reason": SHORT} for row in (one, other)]
    before, both = Entry([one, gone[1]], []), Entry([one, other], [])
    assert Entry([gone[0], other], []).after(before) is before
    assert both.after(before) is both
    assert before.after(None) is before


def test_a_record_lists_all_campaigns_that_its_table_is_from(two_peers, monkeypatch):
    days = iter(["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"])
    monkeypatch.setattr(part, "_now", lambda: next(days))
    clock = count(0, 10)
    monkeypatch.setattr(part, "monotonic", lambda: next(clock))

    def record():
        return tables.read_meta(two_peers.out / "tables" / "traffic_gpu.csv")

    two_peers.go_on()
    assert (record()["duration_s"], record()["date"]) == (20, "2026-01-03")
    two_peers.go_on(Deadline(-1), resume=True)
    assert (record()["duration_s"], record()["date"]) == (20, "2026-01-03")
    two_peers.short = {}
    two_peers.go_on(resume=True)
    assert (record()["duration_s"], record()["date"]) == (20, "2026-01-04")


def test_a_table_is_written_again_only_where_it_has_changed(study, tmp_path, monkeypatch):
    written, honest = [], tables.write
    monkeypatch.setattr(part.tables, "write", lambda *given: written.append(given[1].stem) or honest(*given))
    run(study, tmp_path / "out")
    assert sorted(written) == sorted([*command.STEMS, "checks_gpu"])  # whose tools come after all tables


@pytest.mark.parametrize("stems", [["timing_gpu", "ceiling_gpu"], ["ceiling_gpu", "checks_gpu"]])
def test_tables_are_measured_in_the_order_requested(study, tmp_path, stems, monkeypatch, capsys):
    monkeypatch.setattr(command, "Gpu", HostBoard)
    monkeypatch.setattr(command, "device_missing", lambda: "")
    words = ["--out", str(tmp_path / "out"), "--config", str(study)]
    for stem in [*stems, stems[0]]:
        words += ["--only", stem]
    assert command.main(words) == 0
    told = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(word for word in told if word in command.STEMS)) == stems
    assert {path.stem for path in (tmp_path / "out" / "tables").glob("*.csv")} == set(stems)


def test_checks_by_tools_come_after_all_tables(study, tmp_path, monkeypatch, tried):
    def seen(*given):
        when.append(len(cells))
        return {"passed": True, "value": 0.0, "limit": 0.0}

    checks, cells, when = tried(checks_gpu), tried(traffic_gpu), []
    monkeypatch.setattr(checks_gpu.sanitizer, "check", seen)
    run(study, tmp_path / "out")
    assert ([cell.check for cell in checks].index("memcheck"), when) == (len(checks) - 1, [1])
    assert table(tmp_path / "out", "checks_gpu")["passed"].all()


def test_a_tool_that_has_had_all_its_time_is_kept_as_neither_passed_nor_failed(
    study, tmp_path, monkeypatch, tried
):
    out = tmp_path / "out"
    late = tools.Unfinished("compute-sanitizer did not finish within 120 s")
    monkeypatch.setattr(checks_gpu.sanitizer.tools, "over", lambda *_: late)
    assert run(study, out, ["checks_gpu"]) == 0
    cells = tried(checks_gpu)
    assert run(study, out, ["checks_gpu"], resume=True) == 0
    assert cells == []
    found = table(out, "checks_gpu").query("check == 'memcheck'")
    assert list(found["reason"]) == [late]
    assert found["passed"].isna().all()


def test_the_ledger_distinguishes_tables_configurations_and_versions(tmp_path):
    entry = Entry([{"a": 1}], [], failed=True)
    kept = Ledger(tmp_path, "timing_gpu", {"seed": 1})
    kept.keep(("cell",), {"kernel": "1.0"}, entry)
    assert kept.find(("cell",), {"kernel": "1.0"}) == entry
    assert kept.find(("cell",), {"kernel": "1.1"}) is None
    assert kept.find(("cell",), {"other": "1.0"}) is None
    assert Ledger(tmp_path, "timing_gpu", {"seed": 2}).find(("cell",), {"kernel": "1.0"}) is None


def test_a_campaign_is_promoted_with_the_tables_that_hold_measurements(measured, tmp_path):
    shutil.rmtree(measured / "ledger")  # which need not be brought back from the machine with the GPU
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert set(provenance["tables"]) == set(command.STEMS) - {"traffic_gpu"}  # no Nsight Compute here
    assert provenance["described"]["gpu"] == "none: emulated"
    assert (folder / "timing_gpu.png").read_bytes().startswith(b"\x89PNG")
    assert "timing_gpu.png" in (folder / "ro-crate-metadata.json").read_text(encoding="utf-8")
    assert archive.latest("timing_gpu", "tiny", tmp_path / "archive") == folder / "timing_gpu.csv"
    assert archive.latest("traffic_gpu", "tiny", tmp_path / "archive") is None


def test_the_workflow_gets_rows_with_the_reason_where_there_is_no_device(monkeypatch):
    monkeypatch.setattr(campaign, "device_missing", lambda: "no CUDA device here")
    found, samples = campaign.live(timing_gpu, CONFIG["timing_gpu"])
    assert set(found["reason"]) == {"no CUDA device here"}
    assert found["median_s"].isna().all()
    assert samples.empty


def test_the_workflow_reports_which_gpu_it_measures(study, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "device_missing", lambda: "")
    monkeypatch.setattr(campaign, "Gpu", HostBoard)
    path = tmp_path / "tables" / "ceiling_gpu.csv"
    assert main(["ceiling_gpu", str(study / "ceiling_gpu.yaml"), str(path)]) == 0
    assert (tables.read(path)["reason"] == "").any()
    assert tables.read_meta(path)["machine"] == HostBoard().describe()


def test_tables_that_a_later_campaign_did_not_measure_stay(measured, tmp_path, capsys):
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    before = {path.name for path in folder.iterdir()}
    part = shutil.copytree(measured, tmp_path / "part")
    for path in (part / "tables").glob("*"):
        if not path.name.startswith("timing_gpu."):
            path.unlink()
    (part / "tables" / ".eps-x1.csv").write_text("half written", encoding="utf-8")
    promote(part, "some-gpu", tmp_path / "archive")
    assert {path.name for path in folder.iterdir()} == before
    assert f"kept, not measured in this run: {folder / 'ceiling_gpu.csv'}" in capsys.readouterr().err


def test_a_table_that_holds_more_is_not_replaced_by_one_that_holds_less(study, measured, tmp_path, capsys):
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    before = (folder / "checks_gpu.csv").read_bytes()
    less = tmp_path / "less"
    assert run(study, less, deadline=Deadline(0)) == 1
    path = less / "tables" / "checks_gpu.csv"
    more, found = table(measured, "checks_gpu"), table(less, "checks_gpu")
    found.loc[0] = more.loc[0]
    tables.write(found, path, tables.read_meta(path))
    promote(less, "some-gpu", tmp_path / "archive")
    assert (folder / "checks_gpu.csv").read_bytes() == before
    many = int((more["reason"] == "").sum()) - 1
    said = f"left out: {path} lacks {many} measured rows of {folder / 'checks_gpu.csv'}; remove that"
    assert said in capsys.readouterr().err


def test_more_rows_of_other_cells_do_not_replace_those_that_are_published(measured, tmp_path, capsys):
    """Rows were counted: as many of other cells, or more, took the place of those published in silence."""
    folder, path = promote(measured, "some-gpu", tmp_path / "archive"), measured / "tables/ceiling_gpu.csv"
    before, found = (folder / "ceiling_gpu.csv").read_bytes(), tables.read(path)
    twice = pd.concat([found.assign(dtype="float64"), found.assign(dtype="float16")])
    tables.write(twice, path, tables.read_meta(path))
    promote(measured, "some-gpu", tmp_path / "archive")
    assert (folder / "ceiling_gpu.csv").read_bytes() == before
    said = f"left out: {path} lacks {len(found)} measured rows of {folder / 'ceiling_gpu.csv'}; remove that"
    assert said in capsys.readouterr().err


def judged(measured, passed, reason, date):
    """The campaign's checks of one kind otherwise, on another day."""
    path = measured / "tables" / "checks_gpu.csv"
    found, record = tables.read(path), tables.read_meta(path)
    apart = found["check"] == "apart"
    found.loc[apart, "passed"], found.loc[apart, "reason"] = passed, reason
    tables.write(found, path, record | {"date": date})
    return int(apart.sum())


def test_checks_that_are_not_passed_are_measured_and_published_with_a_warning(measured, tmp_path, capsys):
    """Those with a reason were taken for unmeasured, and the table that showed them passed was kept."""
    judged(measured, True, "", "2026-01-02")
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    assert "not passed" not in capsys.readouterr().err
    many = judged(measured, False, "something was written", "2026-01-03")
    promote(measured, "some-gpu", tmp_path / "archive")
    assert not tables.read(folder / "checks_gpu.csv").query("check == 'apart'")["passed"].any()
    assert f"warning: checks that failed: {many} in checks_gpu.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("date", "there"), [("2026-01-01", False), ("2026-01-02", True), ("2026-01-03", True)]
)
def test_a_table_of_an_earlier_date_replaces_none_that_holds_as_much(measured, tmp_path, capsys, date, there):
    judged(measured, True, "", "2026-01-02")
    folder = promote(measured, "some-gpu", tmp_path / "archive")
    judged(measured, False, "", date)
    promote(measured, "some-gpu", tmp_path / "archive")
    assert (tables.read_meta(folder / "checks_gpu.csv")["date"] == date) == there
    said = f"checks_gpu.csv is of {date}, {folder / 'checks_gpu.csv'} of 2026-01-02; remove that to have it"
    assert (said in capsys.readouterr().err) == (not there)


def test_tables_measured_by_earlier_code_are_reported(measured, tmp_path, capsys):
    """A campaign that went on with --only after an edit leaves the others as they were."""
    promote(measured, "some-gpu", tmp_path / "archive")
    assert "measured with code other" not in capsys.readouterr().err
    path = measured / "tables" / "backward_error_gpu.csv"
    tables.write(tables.read(path), path, tables.read_meta(path) | {"code_hash": "of before"})
    promote(measured, "some-gpu", tmp_path / "archive")
    assert (
        "warning: measured with code other than the current: backward_error_gpu\n" in capsys.readouterr().err
    )


def test_samples_of_another_configuration_do_not_stay_beside_a_table_without_any(study, measured, tmp_path):
    other = shutil.copytree(study, tmp_path / study.name)
    (other / "ceiling_gpu.yaml").write_text(json.dumps(CONFIG["ceiling_gpu"] | {"sizes": [16384]}))
    path = measured / "samples" / "ceiling_gpu.csv"
    assert path.exists()
    assert run(other, measured, ["ceiling_gpu"], deadline=Deadline(-1), resume=True) == 1
    assert not path.exists()


def test_tables_of_several_studies_are_not_promoted_as_those_of_one(study, measured, tmp_path):
    """The first by name had told the study of all."""
    other = shutil.copytree(study, tmp_path / "other")
    assert run(other, measured, ["timing_gpu"], resume=True) == 0
    with pytest.raises(ValueError, match=r"of several studies: .*checks_gpu of tiny, timing_gpu of other"):
        promote(measured, "some-gpu", tmp_path / "archive")
    assert not (tmp_path / "archive").exists()


def test_a_spoilt_file_of_the_ledger_is_named(study, measured):
    path = next((measured / "ledger" / "ceiling_gpu").glob("*.json"))
    path.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{path}: not valid JSON")):
        run(study, measured, ["ceiling_gpu"], resume=True)
