"""A campaign on a GPU whose process is interrupted, or ends in a cell: tables are whole, and it goes on."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time

import pytest

from emulated import needs_compiler
from gpu_study import CONFIG, run, table, tiny_study, without_peers
from layernorm_backward.gpu.deadline import INTERRUPTED, Deadline
from layernorm_backward.storage import alone
from workspace import ROOT

pytestmark = needs_compiler
no_peers = pytest.fixture(scope="module", autouse=True)(without_peers)
study = pytest.fixture(scope="module")(tiny_study)
IN_A_CELL = """
import os, signal, sys, time
from host_board import HostBoard
from layernorm_backward.experiments import ceiling_gpu
from layernorm_backward.gpu import command
honest, cells = ceiling_gpu.measure, []

def measure(board, pool, cell, *given, **how):
    cells.append(cell)
    if {when}:
        print("waiting", flush=True)
        {then}
    return honest(board, pool, cell, *given, **how)

ceiling_gpu.measure, command.Gpu, command.device_missing = measure, HostBoard, lambda: ""
sys.exit(command.main(sys.argv[1:]))
"""


STUDY, OUT = "tiny", "out"


def campaign(folder, sizes, when, then, *words):
    """A command that measures arrays of these sizes, and does `then` in a cell when `when`; its options."""
    (folder / STUDY).mkdir()
    values = CONFIG["ceiling_gpu"] | {"sizes": sizes}
    (folder / STUDY / "ceiling_gpu.yaml").write_text(json.dumps(values), encoding="utf-8")
    given = ["--out", str(folder / OUT), "--config", str(folder / STUDY), "--only", "ceiling_gpu", *words]
    paths = os.pathsep.join(str(ROOT / part) for part in ("src", "tests"))
    command = [sys.executable, "-c", IN_A_CELL.format(when=when, then=then), *given]
    return command, {"env": {**os.environ, "PYTHONPATH": paths}}


def reasons_by_size(folder):
    return table(folder / OUT, "ceiling_gpu").groupby("bytes")["reason"].unique().map(list).to_dict()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_writes_whole_tables_and_goes_on(tmp_path, number):
    command, options = campaign(tmp_path, [8192, 16384], "len(cells) == 2", "time.sleep(3600)")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        lines = iter(process.stdout.readline, "")
        assert "waiting\n" in lines
        process.send_signal(number)
        told = "".join(lines)
    assert process.returncode == 1
    assert f"stopped: {INTERRUPTED}" in told
    assert "go on with --resume" in told
    assert reasons_by_size(tmp_path) == {8192: [""], 16384: [f"not measured: {INTERRUPTED}"]}
    assert [path for path in (tmp_path / OUT).rglob("*") if path.name.startswith(".")] == []
    assert run(tmp_path / STUDY, tmp_path / OUT, ["ceiling_gpu"], resume=True) == 0


def test_a_cell_in_which_the_process_ends_is_tried_again_once_and_then_passed(tmp_path):
    fault = "cell.bytes == 16384", "os.kill(os.getpid(), signal.SIGSEGV)"
    command, options = campaign(tmp_path, [8192, 16384, 32768], *fault, "--resume")
    ends = [subprocess.run(command, check=False, **options).returncode for _ in range(3)]
    assert ends == [-signal.SIGSEGV, -signal.SIGSEGV, 1]
    told = reasons_by_size(tmp_path)
    assert "the process ended in this cell, 2 times in a row" in told.pop(16384)[0]
    assert told == {8192: [""], 32768: [""]}
    assert run(tmp_path / STUDY, tmp_path / OUT, ["ceiling_gpu"], anew=True) == 0


def test_a_second_campaign_in_a_folder_is_refused_until_the_first_has_ended_however_it_does(tmp_path):
    command, options = campaign(tmp_path, [8192], "'--resume' not in sys.argv", "time.sleep(60)")
    again = [*command, "--resume"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        assert "waiting\n" in iter(process.stdout.readline, "")
        refused = subprocess.run(again, capture_output=True, text=True, check=False, **options)
        process.kill()
    said = f"error: {tmp_path / OUT}: process {process.pid} is at work there; wait for its end, or choose"
    assert refused.returncode == 1 and refused.stderr.startswith(said)
    assert subprocess.run(again, check=False, **options).returncode == 0


def test_where_the_system_has_no_locks_nothing_is_locked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    unlocked = runpy.run_path(alone.__file__)["alone"]
    with unlocked(tmp_path), unlocked(tmp_path):
        pass


def test_a_cell_that_comes_to_its_end_leaves_no_mark(study, tmp_path):
    assert run(study, tmp_path / "out", ["ceiling_gpu"]) == 0
    assert {path.suffix for path in (tmp_path / "out" / "ledger").rglob("*") if path.is_file()} == {".json"}


def test_signals_are_handled_as_before_once_a_campaign_has_ended():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    ends = Deadline(60)
    with pytest.raises(KeyboardInterrupt), ends.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert ends.left() == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_signal_leaves_the_tables_to_be_written():
    deadline = Deadline(60)
    with deadline.interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert deadline.reason == f"not measured: {INTERRUPTED}"
