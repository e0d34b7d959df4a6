"""Runs that were killed: the next one takes the lock away, makes half-written files again and goes on.

A command that Ctrl-C interrupts says so in one line.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from layernorm_backward.__main__ import main
from layernorm_backward.records import tables
from layernorm_backward.studies.lock import LOCKS, release_stale
from workspace import Workspace

INCOMPLETE = ".snakemake/incomplete"
TABLE = "results/smoke/tables/timing_cpu.csv"


def wait_for(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Return as soon as the condition holds; fail where it does not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def measuring(run: subprocess.Popen[bytes], root: Path) -> bool:
    """Whether a run in this folder has come so far that it measures, and has told what is incomplete."""
    try:
        children = psutil.Process(run.pid).children(recursive=True)
        at_work = any("layernorm_backward" in child.cmdline() for child in children)
    except psutil.NoSuchProcess:
        return False
    return at_work and any((root / INCOMPLETE).glob("*"))


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A folder with the lock files of a run that is gone."""
    (tmp_path / LOCKS).mkdir(parents=True)
    (tmp_path / LOCKS / "0.output.lock").write_text("results/paper/tables/eps.csv\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a program of any name in the test's folder, which sleeps until the test ends."""
    started = []

    def start(name: str) -> subprocess.Popen[bytes]:
        script = tmp_path / name
        script.write_text("import time\ntime.sleep(3600)\n", encoding="utf-8")
        started.append(subprocess.Popen([sys.executable, str(script)], cwd=tmp_path))
        wait_for(lambda: bool(psutil.Process(started[-1].pid).cmdline()))  # for a moment it has none
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


HELD = """
import sys, time
if "timing_cpu" in sys.orig_argv:
    time.sleep(3600)
"""


def test_a_killed_run_resumes(smoke, tmp_path):
    """Its job is held at its start, so that it is at work whenever the run is killed."""
    shutil.copytree(smoke.workspace.root, tmp_path / "tree")
    workspace = Workspace(tmp_path / "tree")
    (workspace.root / TABLE).unlink()
    (tmp_path / "sitecustomize.py").write_text(HELD, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), workspace.environment["PYTHONPATH"]])
    run = subprocess.Popen(
        [sys.executable, "-m", "snakemake", TABLE, "--config", "study=smoke"],
        cwd=workspace.root,
        env=workspace.environment | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: measuring(run, workspace.root))
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert list((workspace.root / LOCKS).glob("*")), "the killed run left no lock: it was not killed at work"
    assert not (workspace.root / TABLE).exists()
    (workspace.root / TABLE).write_text("kernel,direction\ncompact,", encoding="utf-8")

    done = workspace.snakemake(TABLE)
    assert done.returncode == 0, done.stdout
    assert ": timing_cpu: " in done.stdout
    assert len(tables.read(workspace.root / TABLE))
    assert workspace.planned(TABLE) == set()


def test_a_fault_in_a_config_is_reported_before_any_job_and_costs_no_table(smoke, tmp_path):
    shutil.copytree(smoke.workspace.root, tmp_path / "tree")
    workspace, name = Workspace(tmp_path / "tree"), "results/smoke/tables/eps.csv"
    config, table = workspace.root / "config/smoke/eps.yaml", workspace.root / name
    before, right = table.read_bytes(), config.read_text(encoding="utf-8")
    config.write_text(right + "sed: 1\n", encoding="utf-8")
    done = workspace.snakemake(name)
    assert done.returncode != 0
    assert "config/smoke/eps.yaml: sed: unknown key; allowed: " in done.stdout
    assert table.read_bytes() == before and workspace.planned(name) == {"eps"}
    config.write_text(right, encoding="utf-8")
    assert workspace.snakemake(name).returncode == 0


def test_the_lock_of_a_dead_run_is_taken_away(locked):
    release_stale(locked)
    assert list((locked / LOCKS).glob("*")) == []


def test_a_lock_that_another_takes_away_meanwhile_is_none(locked, monkeypatch):
    there = Process("python", "-m", "layernorm_backward", folder=locked)
    monkeypatch.setattr(psutil, "process_iter", lambda: [there])
    monkeypatch.setattr(psutil, "wait_procs", lambda jobs: (locked / LOCKS / "0.output.lock").unlink())
    release_stale(locked)
    monkeypatch.setattr(psutil, "wait_procs", lambda jobs: pytest.fail(f"waits for {jobs} without a lock"))
    release_stale(locked)


def test_the_lock_of_a_run_in_the_folder_of_a_link_stays(locked, monkeypatch, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(locked)
    there = Process("python", "-m", "snakemake", folder=locked)
    monkeypatch.setattr(psutil, "process_iter", lambda: [there])
    release_stale(link)
    assert len(list((locked / LOCKS).glob("*"))) == 1


def test_the_lock_of_a_living_run_stays(locked, sleeper):
    sleeper("snakemake")
    release_stale(locked)
    assert len(list((locked / LOCKS).glob("*"))) == 1


def test_a_job_left_over_is_waited_for(locked, sleeper, monkeypatch, capsys):
    job, wait_procs = sleeper("layernorm_backward"), psutil.wait_procs

    def wait(processes):
        assert list((locked / LOCKS).glob("*"))
        job.kill()  # not before it is waited for
        return wait_procs(processes)

    monkeypatch.setattr(psutil, "wait_procs", wait)
    release_stale(locked)
    assert job.poll() is not None
    assert f"waiting for process {job.pid}" in capsys.readouterr().err
    assert list((locked / LOCKS).glob("*")) == []


SLEEPY = """
from pathlib import Path
from time import sleep
def forward(x, gamma, beta, eps):
    Path("started").touch()
    sleep(3600)
def backward(dy, saved): pass
"""


def heeding_ctrl_c():
    """Shells start what runs in the background with SIGINT ignored, and so is what that starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_command_in_one_line_that_says_where(tmp_path):
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    command = [sys.executable, "-m", "layernorm_backward", "audit", "sleepy:forward,backward"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, preexec_fn=heeding_ctrl_c, **pipes) as run:
        try:
            wait_for((tmp_path / "started").exists)
            run.send_signal(signal.SIGINT)
            said = "error: interrupted in sleepy:forward,backward float32: trial call, forward\n"
            assert run.communicate(timeout=300) == ("", f"\n{said}")
            assert run.returncode == 130
        finally:
            run.kill()


@pytest.mark.parametrize(
    ("words", "interrupted"),
    [
        (["bench", "--kernel", "compact", "--rows", "8", "--hidden", "16"], "bench.bench"),
        (["claims", "claims.yaml", "tables", "claims.csv"], "paper.claims.run"),
        (["eps", "config/smoke/eps.yaml", "eps.csv"], "studies.config.load"),
    ],
)
def test_a_command_that_is_interrupted_returns_130(words, interrupted, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"layernorm_backward.{interrupted}", interrupt)
    assert main(words) == 130
    assert capsys.readouterr().err.rpartition("\r")[2].strip() == "error: interrupted"


class Process:
    """A process as psutil tells of it; words are its command."""

    def __init__(self, *words, folder=None, fault=None):
        self.words, self.folder, self.fault, self.pid = list(words), folder, fault, -1

    def cmdline(self):
        return self.words

    def cwd(self):
        if self.fault:
            raise self.fault(self.pid)
        return str(self.folder)


@pytest.mark.parametrize(
    ("words", "fault", "stays"),
    [
        (["python", "-X", "dev", "-W", "error", "-m", "snakemake", "--cores", "2"], None, True),
        (["python", "-u", "-B", "/usr/bin/snakemake"], None, True),
        (["/usr/bin/snakemake", "--cores", "2"], psutil.AccessDenied, True),
        (["/usr/bin/snakemake", "--cores", "2"], psutil.NoSuchProcess, False),
        (["grep", "-r", "word", "snakemake"], None, False),
    ],
)
def test_the_lock_stays_where_a_process_may_hold_it(locked, monkeypatch, words, fault, stays):
    there = Process(*words, folder=locked, fault=fault)
    monkeypatch.setattr(psutil, "process_iter", lambda: [there])
    release_stale(locked)
    assert bool(list((locked / LOCKS).glob("*"))) == stays


@pytest.mark.parametrize("its", [os.getpid, os.getppid])
def test_the_run_that_takes_the_lock_away_and_what_started_it_do_not_hold_it(locked, monkeypatch, its):
    there = Process("python", "-m", "snakemake", folder=locked)
    there.pid = its()
    monkeypatch.setattr(psutil, "process_iter", lambda: [there])
    release_stale(locked)
    assert list((locked / LOCKS).glob("*")) == []


def test_a_job_of_another_user_is_not_waited_for(locked, monkeypatch):
    """Whether it works here cannot be told, and it may last for hours."""
    words = ["python", "-m", "layernorm_backward", "timing_cpu"]
    there = Process(*words, folder=locked, fault=psutil.AccessDenied)
    monkeypatch.setattr(psutil, "process_iter", lambda: [there])
    monkeypatch.setattr(psutil, "wait_procs", lambda jobs: pytest.fail(f"waits for {jobs}"))
    release_stale(locked)
    assert list((locked / LOCKS).glob("*")) == []
