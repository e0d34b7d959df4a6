"""A campaign on a GPU whose kernel hangs: it ends all the same, with its tables, and goes on behind that."""

import json
import os
import signal
import subprocess
import sys
import time
from threading import Event

import psutil
import pytest

from emulated import needs_compiler
from gpu_study import CONFIG, run, table
from layernorm_backward.gpu import deadline, watch
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.records.tables import read_meta
from test_interrupted import wait_for
from workspace import ROOT

pytestmark = needs_compiler
BYTES = [8192, 16384, 32768]  # the second cell hangs

ADVICE = "go on with --resume"
HANGING = """
import ctypes, sys
from time import monotonic
from host_board import HostBoard
from layernorm_backward import __main__
from layernorm_backward.experiments import ceiling_gpu
from layernorm_backward.gpu import campaign, command, deadline, watch
watch.GRACE_S, watch.TICK_S = 0.5, 0.1
limit_s, passing_s, *words = sys.argv[1:]
honest = ceiling_gpu.measure

def measure(board, pool, cell, *given, **how):
    if cell.bytes == 16384:
        print("hanging", flush=True)
        deadline.monotonic = lambda: monotonic() + float(passing_s)
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):  # the second call never returns, holds no lock of Python's, and ends by no signal
            ctypes.CDLL(None).pthread_mutex_lock(mutex)
    found = honest(board, pool, cell, *given, **how)
    watch.LIMIT_S = float(limit_s)
    return found

ceiling_gpu.measure = measure
for module in (campaign, command):
    module.Gpu, module.device_missing = HostBoard, lambda: ""
sys.exit(__main__.main(words))
"""


@pytest.fixture
def study(tmp_path):
    """The folder of a study of two tables."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    values = CONFIG | {"ceiling_gpu": CONFIG["ceiling_gpu"] | {"sizes": BYTES}}
    for stem in ("ceiling_gpu", "traffic_gpu"):
        (folder / f"{stem}.yaml").write_text(json.dumps(values[stem]), encoding="utf-8")
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def ran_s(thread):
    """Seconds that the main thread of a process has run."""
    return next(its.user_time + its.system_time for its in thread.threads() if its.id == thread.pid)


def rests(process):
    """Whether the main thread waits, and has not run for a second."""
    thread = psutil.Process(process.pid)
    before_s = ran_s(thread)
    time.sleep(1)
    return thread.status() == psutil.STATUS_SLEEPING and ran_s(thread) == before_s


@pytest.fixture
def hanging(study, out):
    """Runs a campaign that hangs, to its end; the last line that it prints to stderr."""

    def campaign(limit_s, passing_s=0, number=None, more=()):
        words = ["gpu", "--out", str(out), "--config", str(study)]
        words += ["--only", "ceiling_gpu", "--only", "traffic_gpu", *more]
        return ended(words, 1, limit_s, passing_s, number)

    def ended(words, status, limit_s, passing_s=0, number=None):
        paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
        command = [sys.executable, "-c", HANGING, str(limit_s), str(passing_s), *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, **pipes) as process:
            try:
                if number:
                    assert "hanging\n" in iter(process.stdout.readline, "")
                    wait_for(lambda: rests(process))
                    process.send_signal(number)
                _, errors = process.communicate(timeout=300)
            finally:
                process.kill()
        assert process.returncode == status
        assert [path for path in out.rglob("*") if path.name.startswith(".")] == []
        return errors.splitlines()[-1]

    campaign.ended = ended
    return campaign


def told(out):
    """The reason of each size of the ceiling, and of the traffic."""
    ceiling = table(out, "ceiling_gpu").groupby("bytes")["reason"].unique().map(list).to_dict()
    return [*ceiling.values(), list(table(out, "traffic_gpu")["reason"].unique())]


def test_a_cell_that_hangs_is_kept_and_the_campaign_goes_on_behind_it(hanging, study, out):
    hung = "hung: the device did not answer within 2 s"
    cell = f"ceiling_gpu, float32 16384: {hung}"
    assert hanging(2) == f"stopped: {cell}; go on with --resume"
    assert told(out) == [[""], [hung], *2 * [[f"not measured: {cell}"]]]
    assert run(study, out, ["ceiling_gpu", "traffic_gpu"], resume=True) == 1  # a cell has failed
    assert told(out) == [[""], [hung], [""], ["ncu is not installed"]]


def test_a_table_of_the_workflow_whose_kernel_hangs_is_written_as_far_as_it_is(hanging, study, out):
    path = out / "tables" / "ceiling_gpu.csv"
    hung = "hung: the device did not answer within 2 s"
    cell = f"ceiling_gpu, float32 16384: {hung}"
    words = ["ceiling_gpu", str(study / "ceiling_gpu.yaml"), str(path)]
    assert hanging.ended(words, 0, 2) == f"stopped: {cell}; its rows say so"
    reasons = table(out, "ceiling_gpu").groupby("bytes")["reason"].unique().map(list).to_dict()
    assert list(reasons.values()) == [[""], [hung], [f"not measured: {cell}"]]
    assert (out / "samples" / "ceiling_gpu.csv").exists()
    assert read_meta(path)["machine"]["gpu"] == "none: emulated"


@pytest.mark.parametrize(
    ("passing_s", "number", "why"),
    [
        (0, signal.SIGINT, "interrupted"),
        (0, signal.SIGTERM, "interrupted"),
        (3600, None, "time was up"),
    ],
)
def test_a_campaign_that_hangs_ends_when_it_has_to_and_the_cell_is_tried_again(
    hanging, study, out, passing_s, number, why
):
    for more in ((), ("--resume",)):
        assert hanging(60, passing_s, number, more) == f"stopped: {why}; go on with --resume"
        assert told(out) == [[""], *3 * [[f"not measured: {why}"]]]
    run(study, out, ["ceiling_gpu"], resume=True)
    assert set(table(out, "ceiling_gpu")["reason"]) == {""}


class Stepped:
    """A clock that only `step` moves; the watch has looked before that returns."""

    def __init__(self):
        self.now_s, self.looks = 0.0, 0

    def __call__(self):
        return self.now_s

    def step(self, seconds):
        self.now_s += seconds
        begun = self.looks
        wait_for(lambda: self.looks >= begun + 2)  # the first may have begun before the step


@pytest.fixture
def clock(monkeypatch):
    """That of the watch and of the end of the campaign."""
    stepped = Stepped()

    class Looks(Event):
        def wait(self, timeout=None):
            stepped.looks += 1
            return super().wait(timeout)

    monkeypatch.setattr(watch, "Event", Looks)
    monkeypatch.setattr(watch, "monotonic", stepped)
    monkeypatch.setattr(deadline, "monotonic", stepped)
    return stepped


@pytest.fixture
def quick(monkeypatch, clock):
    """A watch that looks often; the exit codes that it would end this process with."""
    codes = []
    monkeypatch.setattr("layernorm_backward.gpu.watch.os._exit", codes.append)
    for name, seconds in (("LIMIT_S", 0.5), ("PEER_S", 10.0), ("GRACE_S", 0.0), ("TICK_S", 0.02)):
        monkeypatch.setattr(f"layernorm_backward.gpu.watch.{name}", seconds)
    return codes


def test_a_cell_that_queries_the_time_left_is_alive(quick, clock):
    with Watch(Deadline(60), list, ADVICE) as watch:
        with watch.over(str, peers=0):
            for _ in range(8):
                clock.step(0.4)
                assert watch.time_left() > 0
        clock.step(0.8)
    assert quick == []


@pytest.mark.parametrize(("silent_s", "ends"), [(10.4, False), (10.6, True)])
def test_cells_with_peers_have_a_longer_limit(quick, clock, silent_s, ends):
    with Watch(Deadline(60), list, ADVICE) as watch, watch.over(str, peers=1):
        clock.step(silent_s)
    assert bool(quick) == ends


@pytest.mark.parametrize(("left_s", "stays"), [(0.1, False), (1.0, True)])
def test_a_peer_that_is_silent_when_time_is_up_is_not_tried_for_ever(quick, clock, tmp_path, left_s, stays):
    """One that hung had taken all the time of each campaign that was shorter than its limit."""
    mark = tmp_path / "cell.begun"
    mark.touch()
    with Watch(Deadline(left_s), list, ADVICE) as watch, watch.over(str, peers=1, mark=mark):
        clock.step(left_s + 0.01)
    assert quick and mark.exists() == stays


def test_the_mark_of_a_cell_that_is_kept_as_hung_goes(quick, clock, tmp_path):
    mark = tmp_path / "cell.begun"
    mark.touch()
    with Watch(Deadline(60), list, ADVICE) as watch, watch.over(str, peers=0, mark=mark):
        clock.step(0.6)
    assert quick and not mark.exists()


def test_the_process_ends_even_if_nothing_can_be_written(quick, clock, capsys):
    def full():
        raise OSError("no space left on device")

    with Watch(Deadline(60), full, ADVICE) as watch, watch.over(str, peers=0):
        clock.step(0.6)
    assert set(quick) == {1}
    assert "error: OSError: no space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(("overdue_s", "ends"), [(9.0, False), (11.0, True)])
def test_the_cell_at_work_when_time_is_up_has_ten_seconds_to_end(monkeypatch, clock, overdue_s, ends):
    ended, end = Event(), Deadline(100)
    monkeypatch.setattr(watch, "TICK_S", 0.01)
    monkeypatch.setattr(Watch, "_end", lambda self, hung: ended.set())
    with Watch(end, lambda: None, ADVICE) as guard, guard.over(str, 0):
        clock.step(100 + overdue_s)
    assert ended.is_set() == ends


IN_A_CHILD = """
import sys, time
from layernorm_backward.gpu import watch
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.untrusted.watch import watched

watch.LIMIT_S = watch.TICK_S = 0.1

def run():
    with watch.Watch(Deadline(60), list, "", status=0) as one, one.over(str, peers=0):
        time.sleep(60)

sys.exit(watched(run))
"""


def test_an_exit_forced_by_the_watch_is_not_counted_as_a_fault_of_a_kernel():
    command = [sys.executable, "-c", IN_A_CHILD]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
    assert done.returncode == 0 and "stopped: hung" in done.stderr and "error" not in done.stderr
