"""A campaign on a GPU where something fails: a cell, a kernel or the device."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from emulated import needs_compiler
from gpu_study import CONFIG, run, table, tiny_study, without_peers
from host_board import HostBoard
from layernorm_backward.experiments import backward_error_gpu, checks_gpu, maps_gpu, timing_gpu
from layernorm_backward.gpu import command, contenders, exact, paired, precompile, reasons, variants
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.gpu.ledger import Entry, Ledger
from layernorm_backward.gpu.reasons import Fault, Lost, Transient
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.kernels import KERNELS, cuda_fused
from layernorm_backward.kernels.checks import HOST

pytestmark = needs_compiler
no_peers = pytest.fixture(scope="module", autouse=True)(without_peers)
study = pytest.fixture(scope="module")(tiny_study)
ILLEGAL = "cudaErrorIllegalAddress: an illegal memory access was encountered"


def failing_at_41(monkeypatch, fail):
    """`fail` is called instead of timing rows of 41."""
    honest = timing_gpu.measure

    def measure(board, pool, cell, *given, **how):
        return fail() if cell.hidden == 41 else honest(board, pool, cell, *given, **how)

    monkeypatch.setattr(timing_gpu, "measure", measure)


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def test_a_cell_that_fails_costs_no_other_and_is_tried_again(study, tmp_path, monkeypatch, capsys):
    failing_at_41(monkeypatch, raising(MemoryError("out of memory allocating 5 bytes")))
    out = tmp_path / "out"
    assert run(study, out, ["timing_gpu"]) == 1
    told = capsys.readouterr().out
    assert "cells that failed, or in which one of our kernels is wrong: 2\n" in told
    assert "  timing_gpu, backward bfloat16 bfloat16 3 41: MemoryError: out of memory allocating 5 b" in told
    times = table(out, "timing_gpu")
    lost = times[times["hidden"] == 41]
    assert set(lost["reason"]) == {"MemoryError: out of memory allocating 5 bytes"}
    assert (times.loc[(times["hidden"] == 40) & (times["kernel"] == "cuda_fused"), "reason"] == "").all()
    monkeypatch.undo()
    assert run(study, out, ["timing_gpu"], resume=True) == 0
    assert (table(out, "timing_gpu").query("hidden == 41")["reason"] == "").all()


def test_a_faulty_kernel_is_not_timed_and_is_reported_by_the_exit_code(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paired.exact, "errors", lambda *_: paired.exact.Errors(99.0, 99.0, 0.0, 0.0))
    assert run(study, tmp_path / "out", ["timing_gpu"]) == 1
    told = "  timing_gpu, backward float32 float32 25 40: cuda_fused: wrong: error of dx is 99 u, over 8 u\n"
    assert told in capsys.readouterr().out
    assert run(study, tmp_path / "out", ["timing_gpu"], resume=True) == 1
    assert told in capsys.readouterr().out
    ours = table(tmp_path / "out", "timing_gpu").query("kernel == 'cuda_fused'")
    assert set(ours["reason"]) == {
        "wrong: error of dx is 99 u, over 8 u",
        "wrong: error of dx is 99 u, over 1.5 u",
        "wrong: error of y is 99 u, over 8 u",
    }
    assert ours["median_s"].isna().all()


@pytest.mark.parametrize("stem", ["timing_gpu", "backward_error_gpu", "maps_gpu"])
@pytest.mark.parametrize("error", [RuntimeError("cuLaunchKernelEx: 701"), ValueError("D = 40: too long")])
def test_a_kernel_of_ours_that_raises_is_reported_by_the_exit_code(
    study, tmp_path, monkeypatch, capsys, stem, error
):
    monkeypatch.setattr(cuda_fused, "_gradients", raising(error))
    monkeypatch.setattr(precompile, "programs", lambda *_: [])
    assert run(study, tmp_path / "out", [stem]) == 1
    assert f": {type(error).__name__}: {error}\n" in capsys.readouterr().out


def test_unsupported_input_and_a_faulty_peer_are_not_counted_as_our_faults(study, tmp_path, monkeypatch):
    lacking = replace(KERNELS["cuda_fused"], unsupported={"float32": "it has no float32"})
    monkeypatch.setattr(variants, "KERNELS", {"cuda_fused": lacking})
    for stem in ("checks_gpu", "timing_gpu", "backward_error_gpu"):
        assert run(study, tmp_path / "out", [stem]) == 0
        found = table(tmp_path / "out", stem).query("dtype == 'float32' and kernel != 'torch_eager'")
        assert {"it has no float32"} <= set(found["reason"])
    row = {"kernel": "liger", "reason": Fault("wrong: error of dx is 99 u, over 8 u")}
    assert Entry([row], []).faults == []
    assert Entry([row | {"kernel": "cuda_uncentred"}], []).faults != []


def test_a_map_that_does_not_fit_the_device_is_a_fault_only_if_it_is_the_tables(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("needs clusters")

    monkeypatch.setattr(maps_gpu.contenders, "of_passes", refuse)
    cell, names = next(iter(maps_gpu.cells(**CONFIG["maps_gpu"]).items()))
    board = HostBoard()
    rows, _ = maps_gpu.measure(board, Pool(board, 1), cell, names, time_left=float, **CONFIG["maps_gpu"])
    assert [row["reason"] for row in rows] == ["ValueError: needs clusters"] + (len(rows) - 1) * [
        "needs clusters"
    ]
    assert Entry(rows, []).faults == ["table: ValueError: needs clusters"]


def test_more_faults_than_a_few_are_counted(capsys):
    parts = [SimpleNamespace(found=[], wanted=[], faults=[f"cell {number}" for number in range(7)])]
    assert command._exit_code(parts, Deadline(1)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": 7") and lines[-2:] == ["  cell 4", "  and more: the tables say which"]


@pytest.mark.parametrize(
    ("dgamma", "dbeta", "told"), [(0.7, float("nan"), "nan u"), (101.0, 0.0, "101 u"), (0.0, 1e9, "1e+09 u")]
)
def test_a_kernel_with_faulty_sums_is_not_timed(monkeypatch, dgamma, dbeta, told):
    off = paired.exact.Errors(0.5, 0.5, dgamma, dbeta)
    monkeypatch.setattr(paired.exact, "errors", lambda *_: off)
    board, how = HostBoard(), CONFIG["timing_gpu"]
    cell = paired.Shape("backward", "float32", "float32", 9, 40)
    (row,), _ = timing_gpu.measure(board, Pool(board, 1), cell, ["cuda_fused"], time_left=float, **how)
    assert row["reason"] == f"wrong: error of dgamma or dbeta is {told}, over 100 u"
    forward = cell._replace(direction="forward")
    (row,), _ = timing_gpu.measure(board, Pool(board, 1), forward, ["cuda_fused"], time_left=float, **how)
    assert row.get("reason", "") == "" and row["median_s"] > 0


class Empty(HostBoard):
    """A board whose graphs have nothing in them."""

    def captured(self, call):
        return lambda: None


class Refusing(HostBoard):
    """A board that captures no pass of a kernel: what it had computed is lost with it."""

    lost_results = None

    def captured(self, call):
        if self.lost_results:
            for result in self.lost_results():
                result[...] = np.nan
            self.lost_results = None
            raise RuntimeError("operation not permitted when stream is capturing")
        return call


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_graph_that_does_not_do_the_work_of_its_pass_is_not_timed(direction):
    board, how = Empty(), CONFIG["timing_gpu"]
    cell = paired.Shape(direction, "float32", "float32", 9, 40)
    (row,), _ = timing_gpu.measure(board, Pool(board, 1), cell, ["cuda_fused"], time_left=float, **how)
    what = {"forward": "y", "backward": "dx"}[direction]
    assert row["reason"] == f"wrong: error of {what} is nan u, over 8 u"


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_pass_that_cannot_be_captured_is_checked_and_timed_as_it_is(monkeypatch, direction):
    board, how, honest = Refusing(), CONFIG["timing_gpu"], timing_gpu.contenders.prepare

    def prepare(*given):
        one = honest(*given)
        board.lost_results = one.results
        return one

    monkeypatch.setattr(timing_gpu.contenders, "prepare", prepare)
    cell = paired.Shape(direction, "float32", "float32", 9, 40)
    (row,), _ = timing_gpu.measure(board, Pool(board, 1), cell, ["cuda_fused"], time_left=float, **how)
    assert row["method"].startswith("not captured: RuntimeError: operation not permitted")
    assert row["reason"] == "" and row["error_u_max"] < 8 and row["median_s"] > 0


def test_what_a_peer_keeps_is_poisoned_where_its_results_are_copies():
    """Else the sums of the previous pass would be taken for those of the graph."""
    kept = np.ones(3, np.float32)
    one = contenders.Contender(
        {"backward": Timed(lambda: None)},
        lambda: (kept.astype(np.float16),),
        lambda call: lambda: None,
        "",
        "",
        written=lambda: (kept, None),
    )
    assert contenders.replayed(one, "backward")[1] == "graph"
    assert np.isnan(one.results()[0]).all()


@pytest.mark.parametrize("experiment", [timing_gpu, maps_gpu, backward_error_gpu])
def test_a_cell_is_alive_at_each_of_its_kernels(experiment):
    asked, values = [], CONFIG[experiment.__name__.rpartition(".")[2]]
    cell, names = next(iter(experiment.cells(**values).items()))
    board = HostBoard()
    experiment.measure(board, Pool(board, 1), cell, names, time_left=lambda: asked.append(1), **values)
    measured = [name for name in names if name != "torch_eager"]
    assert len(asked) >= len(measured) > 0


def test_what_a_peer_does_not_compute_has_a_reason_and_no_error(monkeypatch):
    honest = backward_error_gpu.contenders.prepare

    def forward_only(*given):
        one = honest(*given)
        return one._replace(
            results=lambda: one.results()._replace(dx=None, dgamma=None, dbeta=None),
            note="only a forward pass",
        )

    monkeypatch.setattr(backward_error_gpu.contenders, "prepare", forward_only)
    board, how = HostBoard(), CONFIG["backward_error_gpu"]
    cell = next(iter(backward_error_gpu.cells(**how)))
    rows, _ = backward_error_gpu.measure(board, None, cell, ["cuda_fused"], time_left=float, **how)
    found = {row["quantity"]: row for row in rows}
    assert len(rows) == 4 and found["y"]["reason"] == "" and found["y"]["error_u_max"] < 8
    for quantity in ("dx", "dgamma", "dbeta"):
        assert found[quantity]["reason"] == "it has no pass that computes this: only a forward pass"
        assert "error_u_max" not in found[quantity]


def rows_of(check, *names, dtype="float32", board=None):
    """The rows of a check of kernels, on a few rows of x in this dtype; gamma is in float32."""
    board, cell = board or HostBoard(), checks_gpu.Cell(check, dtype, "float32", 9, 40)
    rows, _ = checks_gpu.measure(
        board, Pool(board, 1), cell, names, time_left=lambda: 60.0, **CONFIG["checks_gpu"]
    )
    return rows


def test_a_check_fails_where_bits_differ_or_results_are_inaccurate(monkeypatch):
    honest = contenders.prepare

    def drifting(*given):
        one = honest(*given)
        results = one.results()

        def backward():
            results.dx[0, 0] += 1

        return one._replace(passes={"backward": Timed(backward)})

    monkeypatch.setattr(contenders, "prepare", drifting)
    (row,) = rows_of("repeats", "cuda_fused")
    assert (row["passed"], row["value"]) == (False, 2.0)

    def poisoned(*given):
        one = honest(*given)
        one.results().dx[3, 3] = np.nan
        return one

    monkeypatch.setattr(contenders, "prepare", poisoned)
    (row,) = rows_of("results", "cuda_fused")
    assert row["passed"] is False
    assert np.isnan(row["value"])


def test_a_kernel_that_writes_outside_arrays_of_different_alignment_has_not_passed(monkeypatch):
    honest = variants.passes

    def over_the_end(name, machine):
        forward, backward = honest(name, machine)

        def run(dy, saved, out):
            dx, *_ = backward(dy, saved, out)
            ctypes.c_float.from_address(dx.ctypes.data + dx.nbytes).value = 0.0

        return forward, run

    monkeypatch.setattr(variants, "passes", over_the_end)
    (row,) = rows_of("apart", "cuda_fused")
    assert (row["passed"], row["reason"]) == (False, "something was written beside or between the arrays")


@pytest.fixture
def checked(monkeypatch):
    """The row of a check of a kernel that is registered with two functions."""

    def check(what, forward, backward):
        theirs = replace(KERNELS["recentred"], name="theirs", forward=forward, backward=backward)
        monkeypatch.setattr(variants, "KERNELS", {"theirs": theirs})
        (row,) = rows_of(what, "theirs")
        return row

    return check


CHECKS = ("results", "far", "apart", "strided", "repeats")


@pytest.mark.parametrize("check", CHECKS)
def test_the_failure_of_a_kernel_without_out_states_what_is_required(checked, check):
    def backward(dy, saved):
        return KERNELS["recentred"].backward(dy, saved)

    row = checked(check, KERNELS["recentred"].forward, backward)
    assert (row["passed"], row["reason"]) == (False, f"theirs: {variants.WANTED}")


def test_a_kernel_that_does_not_say_whether_it_takes_out_is_checked_with_it(checked):
    honest = KERNELS["recentred"]
    row = checked("results", honest.forward, lambda dy, saved, **how: honest.backward(dy, saved, **how))
    assert row["passed"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_kernel_that_does_not_fill_out_has_passed_no_check(checked, check):
    honest = KERNELS["recentred"]
    row = checked(check, honest.forward, lambda dy, saved, out: honest.backward(dy, saved))
    assert (row["passed"], row["reason"]) == (False, "NaN left in `out`: dx, dgamma, dbeta")


@pytest.mark.parametrize("check", CHECKS)
def test_a_kernel_that_takes_any_option_and_fills_out_has_passed(checked, check):
    honest = KERNELS["recentred"]
    row = checked(check, honest.forward, lambda dy, saved, **out: honest.backward(dy, saved, **out))
    assert (row["passed"], row["reason"]) == (True, "")


MATRICES, VECTORS = 2, 1  # axes of arrays


@pytest.fixture(params=["cuda_fused", "cuda_separate"])
def viewed(request):
    """The row of a check of a kernel on a machine that describes its arrays differently."""

    def check(what, **otherwise):
        board = HostBoard()
        board.machine.arrays = board.machine.arrays._replace(**otherwise)
        (row,) = rows_of(what, request.param, board=board)
        return row

    return check


@pytest.mark.parametrize("axes", [MATRICES, VECTORS])
def test_a_kernel_that_reads_a_view_as_if_contiguous_has_not_passed(viewed, axes):
    """What it takes up instead is NaN, which lies between the elements, or is in the wrong order."""
    honest = HOST.to_plain
    row = viewed("strided", to_plain=lambda array: array if array.ndim == axes else honest(array))
    assert not row["passed"]
    assert not row["value"] <= row["limit"]


@pytest.mark.parametrize("axes", [MATRICES, VECTORS])
def test_a_kernel_that_writes_a_view_as_if_contiguous_has_not_passed(viewed, axes):
    honest = HOST.plain
    row = viewed("strided", plain=lambda array: array.ndim == axes or honest(array))
    assert (row["passed"], row["reason"]) == (False, "something was written beside or between the arrays")


def aligned(array):
    return HOST.belongs(array) and array.flags.aligned


def test_misaligned_arrays_are_refused_by_name_or_handled_correctly(viewed):
    for otherwise in ({}, {"belongs": aligned}):
        row = viewed("unaligned", **otherwise)
        assert (row["passed"], row["value"], row["reason"]) == (True, 0, "")


def test_a_refusal_that_names_another_array_than_the_misaligned_one_is_a_failure(checked):
    def forward(x, gamma, beta, eps, out):
        if not beta.flags.aligned:
            raise TypeError("gamma is a numpy.ndarray; allowed: others")
        return KERNELS["recentred"].forward(x, gamma, beta, eps, out=out)

    row = checked("unaligned", forward, KERNELS["recentred"].backward)
    assert (row["passed"], row["value"]) == (False, 1)
    assert row["reason"] == "beta: TypeError: gamma is a numpy.ndarray; allowed: others"


def test_a_misaligned_result_that_is_not_written_is_reported(checked):
    def backward(dy, saved, out):
        dx, *vectors = out
        KERNELS["recentred"].backward(dy, saved, (dx if dx.flags.aligned else dx.copy(), *vectors))

    row = checked("unaligned", KERNELS["recentred"].forward, backward)
    assert (row["passed"], row["value"], row["reason"]) == (False, 1, "dx: NaN left in `out`: dx")


def test_outputs_are_poisoned_before_a_kernel_is_checked():
    board = HostBoard()
    given = Pool(board, 1).arrays(4, 8, "bfloat16", "float32")
    array = contenders.poisoned(np.zeros_like(given.x))
    assert np.isnan(array.astype(np.float32)).all()


def test_a_kernel_that_raises_an_error_fails_its_own_check_only(study, tmp_path, monkeypatch):
    honest = contenders.prepare

    def prepare(board, name, *given, **how):
        if name == "cuda_separate":
            raise RuntimeError("invalid configuration")
        return honest(board, name, *given, **how)

    monkeypatch.setattr(contenders, "prepare", prepare)
    rows = rows_of("results", "cuda_separate", "cuda_fused")
    assert [(row["passed"], row["reason"]) for row in rows] == [
        (False, "RuntimeError: invalid configuration"),
        (True, ""),
    ]


def test_sums_in_float32_are_held_to_its_limit(monkeypatch):
    judged = []
    for off in (exact.Errors(1.0, 1.0, 5.0, 0.0), exact.Errors(2.0, 1.0, 5.0, 0.0)):
        monkeypatch.setattr(exact, "errors", lambda *_, off=off: off)
        (row,) = rows_of("results", "cuda_fused", dtype="bfloat16")
        judged.append((row["passed"], row["value"], row["limit"]))
    assert judged == [(True, 1.0, 1.5), (False, 2.0, 1.5)]


def test_a_check_that_is_not_passed_is_reported_by_the_exit_code(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exact, "errors", lambda *_: exact.Errors(0.0, 99.0, 0.0, 0.0))
    assert run(study, tmp_path / "out", ["checks_gpu"]) == 1
    told = "  checks_gpu, results float32 float32 9 3: cuda_fused: 99, over 8\n"
    assert told in capsys.readouterr().out
    assert run(study, tmp_path / "out", ["checks_gpu"], resume=True) == 1


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (MemoryError("out of memory"), True),
        (RuntimeError("RESOURCE_EXHAUSTED: XLA wants 5 GiB"), True),
        (ValueError("liger computes in float32"), False),
    ],
)
def test_only_a_reason_that_can_go_away_is_transient(error, transient):
    told = reasons.of(HostBoard(), "liger", error)
    assert told == f"{type(error).__name__}: {error}"
    assert isinstance(told, Transient) == transient


def test_where_the_device_is_lost_the_campaign_stops_and_gets_past_it(study, tmp_path, monkeypatch, capsys):
    board, out = HostBoard(), tmp_path / "out"

    def fail():
        board.fault = ILLEGAL
        raise RuntimeError(ILLEGAL)

    failing_at_41(monkeypatch, fail)
    monkeypatch.setattr(HostBoard, "release", lambda self: self.fault and raising(RuntimeError(ILLEGAL))())
    stems = ["ceiling_gpu", "timing_gpu", "backward_error_gpu"]
    assert run(study, out, stems, board=board) == 1
    told = capsys.readouterr().out
    cell = "timing_gpu, backward bfloat16 bfloat16 3 41"
    assert f"stopped: the device was lost in {cell}: RuntimeError: {ILLEGAL}" in told
    assert "go on with --resume" in told
    times = table(out, "timing_gpu")
    guilty = (times["hidden"] == 41) & (times["gamma_dtype"] == "bfloat16")
    assert set(times.loc[guilty, "reason"]) == {f"RuntimeError: {ILLEGAL}"}
    after = times.index > times.index[guilty].max()
    assert times.loc[after, "reason"].str.startswith("not measured: the device was lost").all()
    assert set(times.loc[~guilty & ~after, "reason"]) == {"", "not installed: torch_eager"}
    errors = table(out, "backward_error_gpu")
    assert errors["reason"].str.startswith("not measured: the device was lost").all()

    monkeypatch.undo()
    assert run(study, out, stems, resume=True) == 1  # a cell has failed
    again = table(out, "timing_gpu")
    assert set(again.loc[guilty, "reason"]) == {f"RuntimeError: {ILLEGAL}"}
    assert (again.loc[after, "reason"] == "").all()
    assert (table(out, "backward_error_gpu")["reason"] == "").any()


def test_a_device_that_is_lost_without_an_error_is_noticed_after_the_cell(study, tmp_path):
    board, out = HostBoard(), tmp_path / "out"
    board.fault = ILLEGAL
    assert run(study, out, ["ceiling_gpu"], board=board) == 1
    assert set(table(out, "ceiling_gpu")["reason"]) == {f"Lost: {ILLEGAL}"}


def test_a_cell_is_kept_though_no_memory_comes_back_after_it(study, tmp_path, monkeypatch, capsys):
    def refuse(self):
        raise RuntimeError("a peer holds on")

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(HostBoard, "release", refuse)
        assert run(study, out, ["timing_gpu"]) == 1
    told = capsys.readouterr()
    assert "no memory came back after timing_gpu, " in told.out + told.err
    measured = table(out, "timing_gpu")["median_s"].notna()
    assert measured.any() and not measured.all()
    run(study, out, ["timing_gpu"], resume=True)
    after = table(out, "timing_gpu")["median_s"].notna()
    assert after[measured].all() and after.sum() > measured.sum()


@pytest.mark.parametrize(
    ("experiment", "cell"),
    [
        (checks_gpu, checks_gpu.Cell("results", "float32", "float32", 9, 40)),
        (timing_gpu, paired.Shape("backward", "float32", "float32", 9, 40)),
        (backward_error_gpu, backward_error_gpu.Cell("float32", 10.0, "shifted", 40)),
    ],
)
def test_no_kernel_is_measured_on_a_device_that_another_has_cost(experiment, cell, monkeypatch):
    board, tried = HostBoard(), []

    def prepare(_, name, *__, **___):
        tried.append(name)
        board.fault = ILLEGAL
        raise RuntimeError("whatever it says")

    monkeypatch.setattr(contenders, "prepare", prepare)
    how = CONFIG[experiment.__name__.rpartition(".")[2]] | {"time_left": lambda: 60.0}
    with pytest.raises(Lost, match=f"cuda_separate: {ILLEGAL}"):
        experiment.measure(board, experiment.Pool(board, 1), cell, ["cuda_separate", "cuda_fused"], **how)
    assert tried == ["cuda_separate"]


def test_an_error_of_the_program_itself_loses_no_table(study, tmp_path, monkeypatch):
    honest, kept = Ledger.keep, []

    def keep(*given):
        if kept:
            raise OSError("no space left on device")
        kept.append(honest(*given))

    monkeypatch.setattr(Ledger, "keep", keep)
    with pytest.raises(OSError, match="no space left"):
        run(study, tmp_path / "out", ["timing_gpu"])
    told = table(tmp_path / "out", "timing_gpu")["reason"]
    assert (told == "").any()
    assert (told == "not measured: OSError: no space left on device").any()
