"""NVIDIA's tools over one pass: where they are found, how long they may take, what is read of them."""

import sys
import time
from pathlib import Path
from subprocess import Popen

import pytest

from layernorm_backward.gpu import counters, one_pass, sanitizer, tools, watch
from layernorm_backward.gpu.reasons import Transient
from layernorm_backward.gpu.tools import Done, Pass, Unfinished
from test_interrupted import wait_for
from test_watch import is_gone

WHAT = Pass("cuda_fused", "backward", "float32", 33, 40)
TRACEBACK = "Traceback (most recent call last):\n  ...\nModuleNotFoundError: No module named 'cupy'\n"


def program(path: Path, text: str) -> Path:
    """A shell script in place of a tool."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts scripts where NVIDIA installs tools; none is on PATH."""
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")

    def install(place: str, text: str = "exit 0") -> str:
        return str(program(tmp_path / place, text))

    return install


def ended(output: str, errors: str = "", status: int = 0) -> Done:
    """What a tool has printed over a pass that came to its end."""
    return Done.of(status, f"{output}{one_pass.DONE}\n", errors)


def test_a_tool_is_found_on_path_then_in_its_newest_version(installed, tmp_path, monkeypatch):
    assert tools.path("ncu") is None
    installed("opt/nvidia/nsight-compute/2025.9.1/ncu")
    newest = installed("opt/nvidia/nsight-compute/2025.10.0/ncu")
    (tmp_path / "opt/nvidia/nsight-compute/2026.1.0").mkdir()
    assert tools.path("ncu") == newest
    sanitizer_path = installed("usr/local/cuda-13.0/compute-sanitizer/compute-sanitizer")
    installed("usr/local/cuda-12.9/bin/compute-sanitizer")
    assert tools.path("compute-sanitizer") == sanitizer_path
    there = program(tmp_path / "bin" / "ncu", "exit 0")
    monkeypatch.setenv("PATH", str(there.parent))
    assert tools.path("ncu") == str(there)


def test_a_missing_tool_is_a_transient_reason(installed):
    found = tools.over("ncu", [], WHAT, 60)
    assert isinstance(found, Transient)
    assert found == "ncu is not installed"


def test_a_tool_is_given_the_pass_and_all_that_is_printed_comes_back(installed):
    installed("usr/local/cuda/bin/ncu", f'echo "$@"; echo "{one_pass.DONE}"; echo trouble >&2')
    done = tools.over("ncu", ["--csv"], WHAT, 60)
    assert done.fault == ""
    words = f"--csv {sys.executable} -m layernorm_backward.gpu.one_pass cuda_fused backward float32 33 40"
    assert done.output.splitlines() == [words, one_pass.DONE, "", "trouble"]


def test_when_time_is_up_a_tool_and_all_it_started_are_killed(installed, tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    installed("usr/local/cuda/bin/ncu", f"/bin/sleep 3600 & echo $! >{pid}; wait")
    communicate = Popen.communicate

    def begun(process, **limit):
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
        return communicate(process, **limit)

    monkeypatch.setattr(Popen, "communicate", begun)
    started = time.monotonic()
    found = tools.over("ncu", [], WHAT, 1.0)
    assert time.monotonic() - started < 900
    assert isinstance(found, Transient)
    assert found == "ncu did not finish within 1 s"
    wait_for(lambda: is_gone(int(pid.read_text())), seconds=60)


def test_a_tool_is_not_waited_for_longer_than_its_limit(installed, monkeypatch):
    installed("usr/local/cuda/bin/ncu", "/bin/sleep 3600")
    monkeypatch.setattr(tools, "LIMIT_S", 0.5)
    assert isinstance(tools.over("ncu", [], WHAT, float("inf")), Unfinished)
    assert not isinstance(tools.over("ncu", [], WHAT, 0.1), Unfinished)


def test_a_tool_that_times_out_is_no_sign_of_a_hanging_device():
    assert watch.LIMIT_S > tools.LIMIT_S + 20


def test_a_profiler_that_times_out_is_not_tried_again(installed, monkeypatch):
    installed("usr/local/cuda/bin/ncu", "/bin/sleep 3600")
    monkeypatch.setattr(tools, "LIMIT_S", 0.2)
    late, cut_off = counters.counted(WHAT, float("inf")), counters.counted(WHAT, 0.1)
    assert late.reason == "ncu did not finish within 0 s"
    assert (isinstance(late.reason, Transient), isinstance(cut_off.reason, Transient)) == (False, True)


def test_a_sanitizer_that_times_out_is_not_tried_again(installed, monkeypatch):
    installed("usr/local/cuda/bin/compute-sanitizer", "/bin/sleep 3600")
    monkeypatch.setattr(tools, "LIMIT_S", 0.5)
    kept, again = (sanitizer.check("memcheck", WHAT, left)["reason"] for left in (60.0, 0.1))
    assert kept == again == "compute-sanitizer did not finish within 0 s"
    assert (isinstance(kept, Transient), isinstance(again, Transient)) == (False, True)


@pytest.mark.parametrize(
    ("done", "fault"),
    [
        (ended(""), ""),
        (Done.of(0, "", ""), "the pass failed (exit status 0): no output"),
        (Done.of(1, f"{one_pass.DONE}\n", "late\n"), "the pass failed (exit status 1): late"),
        (
            Done.of(1, "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", TRACEBACK),
            "the pass failed (exit status 1): ModuleNotFoundError: No module named 'cupy'",
        ),
        (
            Done.of(
                0, "==PROF== Connected\n==ERROR== The application returned an error code (1).\n", TRACEBACK
            ),
            "the pass failed (exit status 0): ModuleNotFoundError: No module named 'cupy'",
        ),
    ],
)
def test_a_pass_succeeds_if_it_prints_the_end_mark(done, fault):
    assert done.fault == fault


SUMMARY = "========= ERROR SUMMARY: {} errors\n"
HAZARDS = "========= RACECHECK SUMMARY: {} hazards displayed ({} errors, {} warnings)\n"
HAZARD = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
INVALID = "========= Invalid __global__ write of size 4 bytes\n=========     at backward+0x90\n"
RACE = "========= Error: Race reported between Write access at backward+0x90\n"
CALL = "========= Program hit CUDA_ERROR_NO_DEVICE (error 100) due to no device on CUDA API call to cuInit.\n"
FAILED = {
    "reason": "compute-sanitizer did not finish: the pass failed (exit status 1): "
    "ModuleNotFoundError: No module named 'cupy'"
}


@pytest.mark.parametrize(
    ("done", "wanted"),
    [
        (ended(SUMMARY.format(0)), {"passed": True, "value": 0.0, "limit": 0.0}),
        (ended(SUMMARY.format(3)), {"passed": False, "value": 3.0, "limit": 0.0}),
        (ended(2 * SUMMARY.format(2)), {"passed": False, "value": 4.0, "limit": 0.0}),
        (ended(HAZARD), {"passed": False, "value": 1.0, "limit": 0.0}),
        (ended(HAZARDS.format(0, 0, 0)), {"passed": True, "value": 0.0, "limit": 0.0}),
        (
            ended(HAZARDS.format(2, 0, 2)),
            {"passed": True, "value": 0.0, "limit": 0.0, "reason": "compute-sanitizer warns: 2"},
        ),
        (
            ended(HAZARDS.format(14, 3, 11)),
            {"passed": False, "value": 3.0, "limit": 0.0, "reason": "compute-sanitizer warns: 11"},
        ),
        (Done.of(1, INVALID + SUMMARY.format(5), TRACEBACK), {"passed": False, "value": 5.0, "limit": 0.0}),
        (Done.of(1, RACE + HAZARD, TRACEBACK), {"passed": False, "value": 1.0, "limit": 0.0}),
        (Done.of(1, SUMMARY.format(0), TRACEBACK), FAILED),
        (Done.of(1, CALL + SUMMARY.format(1), TRACEBACK), FAILED),
        (Done.of(1, HAZARDS.format(0, 0, 0), TRACEBACK), FAILED),
        (ended(""), {"reason": "compute-sanitizer did not finish: no summary in its output"}),
    ],
)
def test_the_output_of_the_sanitizer_gives_the_verdict(done, wanted):
    found = sanitizer.found(done)
    assert found == wanted
    assert "passed" in found or isinstance(found["reason"], Transient)


def test_calls_that_fail_are_not_counted_as_errors_of_a_kernel(installed, tmp_path):
    installed("usr/local/cuda/bin/compute-sanitizer", f'echo "$@" >{tmp_path}/words')
    sanitizer.check("memcheck", WHAT, 60)
    assert "--tool memcheck" in (tmp_path / "words").read_text()
    assert "--report-api-errors no" in (tmp_path / "words").read_text()


@pytest.mark.parametrize(("run", "tool"), [(sanitizer.check, "compute-sanitizer"), (counters.counted, "ncu")])
def test_processes_that_a_process_starts_are_looked_at_too(run, tool, installed, tmp_path):
    installed(f"usr/local/cuda/bin/{tool}", f'echo "$@" >{tmp_path}/words')
    run(*(["memcheck"] if tool != "ncu" else []), WHAT, 60)
    assert "--target-processes all" in (tmp_path / "words").read_text()


NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","backward","dram__bytes_read.sum","byte","1,000"
"0","1","backward","dram__bytes_write.sum","byte","500"
"1","1","add_partials","dram__bytes_read.sum","byte","20"
"1","1","add_partials","dram__bytes_write.sum","byte","4"
"""


def test_counted_bytes_are_summed_over_kernels():
    assert counters.read(ended(NCU)) == (1524.0, 2, "")


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (
            ended("", "==ERROR== The user does not have permission to access the counters\n"),
            "ncu: ==ERROR== The user does not have permission to access the counters",
        ),
        (ended(""), "ncu: no counters in its output"),
        (
            Done.of(0, NCU + "==ERROR== The application returned an error code (1).\n", TRACEBACK),
            "ncu: ==ERROR== The application returned an error code (1).; the pass failed (exit status 0): "
            "ModuleNotFoundError: No module named 'cupy'",
        ),
    ],
)
def test_a_profiler_that_counts_nothing_is_reported(done, reason):
    found = counters.read(done)
    assert (found.kernels, found.reason) == (0, reason)
    assert isinstance(found.reason, Transient)
