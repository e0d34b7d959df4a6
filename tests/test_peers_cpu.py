"""Peers in processes of their own: timed where they are right, a row with a reason where they are not."""

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from layernorm_backward import machine, stopwatch
from layernorm_backward.experiments import _peer_cells, _peers, peers_cpu
from layernorm_backward.kernels import KERNELS
from layernorm_backward.peers_at_work import meter
from layernorm_backward.peers_at_work.client import Lost, Peer
from layernorm_backward.peers_at_work.memory import SharedMemory, mapped
from layernorm_backward.peers_at_work.meter import Meter
from layernorm_backward.peers_at_work.protocol import Work
from layernorm_backward.peers_at_work.settings import SETTINGS, Setting
from layernorm_backward.records import tables
from layernorm_backward.records.provenance import ROOT
from layernorm_backward.studies import study
from layernorm_backward.timing import cell_roof, clock, sizing
from planned_samples import planned, samples_of

FAULTS = {
    "wrong": "wrong: an error of",
    "wrong_last_row": "wrong: an error of",
    "wrong_sums": "wrong: dgamma or dbeta is",
    "no_sums": "wrong: dgamma or dbeta is nan u",
    "dies": r"its process ended \(3\) at: prepare",
    "dies_later": r"its process ended \(4\) at: sample",
    "refuses": "ValueError: no such pass here",
}
ONE = {
    "directions": ["backward"],
    "sizes": [(1, 6, 32)],
    "dtypes": ["float64"],
    "gamma_dtypes": ["same"],
    "threads": [1],
}
ARGUMENTS = {
    "kernels": ["compact"],
    "repeats": 3,
    "at_least": 3,
    "at_least_resident": 3,
    "budget_s": 0.0,
    "error_elements": 128,
    "error_limit_u": {"float64": 100.0, "bfloat16": 0.0},
    "sums_limit_u": {"float64": 100.0, "bfloat16": 0.0},
    "answers_within_s": 300.0,
    "seed": 2,
}
HERE = {"PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, ROOT.parent)))}  # this very package
PARENT = f"""
import time
from layernorm_backward.peers_at_work.client import Peer
from layernorm_backward.peers_at_work.memory import SharedMemory
peer = Peer("right", "peer_at_work", "right", {HERE}, SharedMemory(4096).descriptor, 300)
print(peer._process.pid, flush=True)
time.sleep(3600)
"""


def fake(option: str) -> Setting:
    return Setting("numpy", option, "peer_at_work", (), ("OMP_NUM_THREADS",), HERE)


@pytest.fixture(scope="module")
def measured():
    """A right peer of every kind of fault's company, and one whose package is missing."""
    settings = {name: fake(name) for name in ("right", *FAULTS)}
    settings["absent"] = Setting("absent", "default", "peer_at_work", ("no_such_package",), (), HERE)
    with pytest.MonkeyPatch.context() as patch:
        for module in (peers_cpu, _peer_cells, _peers):
            patch.setattr(module, "SETTINGS", settings)
        return peers_cpu.run(sets={"all": ONE | {"kernels": list(settings)}}, **ARGUMENTS)


def test_a_right_peer_is_timed_beside_ours_and_the_roof(measured):
    found, samples = measured
    row = found[found["setting"] == "right"].iloc[0]
    assert row["median_s"] > 0 and row["ours_ratio"] > 0 and row["roof_fraction"] > 0
    assert row["error_u_max"] < 10 and row["sums_difference_u"] == 0
    assert row["version"].startswith("numpy") and row["reason"] == ""
    assert {"compact", "right", "triad"} <= set(samples["name"])
    ours = found[found["kernel"] == "compact"].set_index("setting")
    assert ours.loc["default", "ours_ratio"] == 1.0 and set(ours.index) == {"default", "allocating"}


@pytest.fixture
def one_peer(monkeypatch):
    """Times ours and one right peer in arrays that stay in the cache."""
    for module in (peers_cpu, _peer_cells, _peers):
        monkeypatch.setattr(module, "SETTINGS", {"right": fake("right")})
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 1 << 20)
    return lambda **given: peers_cpu.run(sets={"all": ONE | {"kernels": ["right"]}}, **ARGUMENTS | given)[0]


def test_a_ratio_is_the_time_of_the_peer_over_that_of_ours(monkeypatch, one_peer):
    planned(monkeypatch, 6, right=np.full(6, 3.0), compact=np.ones(6))
    assert one_peer().set_index("setting")["ours_ratio"].to_dict() == {"default": 1.0, "right": 3.0}


@pytest.mark.parametrize("setting", ["default", "tuned"])
def test_beside_a_package_as_it_comes_ours_is_timed_allocating_its_results_as_well(setting, monkeypatch):
    given, timed, right = [], {}, KERNELS["compact"]

    def noted(role):
        def call(*arguments, out=None):
            given.append(out is not None)
            return getattr(right, role)(*arguments, out=out)

        return call

    def compare(calls, **how):
        for name, call in calls.items():
            given.clear()
            call()
            timed[name] = list(given)
        return samples_of({name: np.full(3, 2.0 if "allocating" in name else 1.0) for name in calls})

    for module in (peers_cpu, _peer_cells, _peers):
        monkeypatch.setattr(module, "SETTINGS", {"right": replace(fake("right"), setting=setting)})
    ours = replace(right, forward=noted("forward"), backward=noted("backward"))
    monkeypatch.setattr(peers_cpu, "KERNELS", {"compact": ours})
    monkeypatch.setattr(stopwatch, "compare", compare)
    sets = {"all": ONE | {"kernels": ["right"], "directions": ["both"]}}
    found, _ = peers_cpu.run(sets=sets, **ARGUMENTS)
    rows = found[found["kernel"] == "compact"]
    as_well = setting == "default"
    expected = {"default": 1.0} | ({"allocating": 2.0} if as_well else {})
    assert rows.set_index("setting")["ours_ratio"].to_dict() == expected
    assert timed["compact"] == [True, True] and timed.get("compact_allocating") == (
        [False, False] if as_well else None
    )


def test_a_peer_keeps_its_time_where_ours_is_wrong(monkeypatch, one_peer, tmp_path):
    """The table is written: what is empty beside the time has its reason."""
    right = KERNELS["compact"]

    def backward(dy, saved, out=None):
        found = right.backward(dy, saved, out)
        found[0][...] = 0
        return found

    monkeypatch.setattr(peers_cpu, "KERNELS", {"compact": replace(right, backward=backward)})
    found = one_peer().set_index("setting")
    assert found.loc["default", "reason"].startswith("wrong: an error of ")
    assert found.loc["right", "reason"] == "compared with nothing: compact was not timed"
    assert found.loc["right", "median_s"] > 0 and np.isnan(found.loc["right", "ours_ratio"])
    tables.write(found.reset_index(), tmp_path / "peers_cpu.csv")


@pytest.mark.parametrize("residency", ["cache", "partly", "memory"])
def test_samples_that_may_be_short_last_long_enough_to_wake_all_threads(residency, monkeypatch, one_peer):
    """A call of microseconds may lie anywhere where no cache is told, but not beyond it."""
    seen, compare = [], stopwatch.compare
    monkeypatch.setattr(sizing, "residency", lambda size: residency)
    monkeypatch.setattr(
        stopwatch, "compare", lambda calls, **how: seen.append(how["minimum_s"]) or compare(calls, **how)
    )
    one_peer()
    assert seen == [0.0 if residency == "memory" else _peer_cells.RUN_UP_S] and _peer_cells.RUN_UP_S >= 0.01


def test_the_streams_are_loaded_and_expected_to_last_as_long_as_the_fastest_kernel(monkeypatch, one_peer):
    """So none of those that last long is tried before it is sampled."""
    steps, compare = [], stopwatch.compare

    def noted(calls, **how):
        steps.append((set(calls), how["known_s"]))
        return compare(calls, **how)

    monkeypatch.setattr(cell_roof, "load", lambda direction, arrays: steps.append(direction))
    monkeypatch.setattr(stopwatch, "compare", noted)
    one_peer()
    loaded, (calls, known_s) = steps
    assert loaded == "backward" and {"triad", "triad_again"} < calls <= set(known_s)
    kernels = [known_s[name] for name in calls if not name.startswith("triad")]
    assert known_s["triad"] == known_s["triad_again"] == min(kernels) > 0


@pytest.mark.parametrize(("residency", "repeats"), [("cache", 3), ("memory", 2), ("partly", 2)])
def test_a_cell_in_the_cache_has_repetitions_of_its_own(residency, repeats, monkeypatch, one_peer):
    """Where no cache is told, a cell is nowhere; where memory is small, it may lie partly in the cache."""
    monkeypatch.setattr(sizing, "residency", lambda size: residency)
    found = one_peer(at_least=2, at_least_resident=3)
    assert found["repeats"].tolist() == [repeats] * len(found)
    assert set(found["residency"]) == {residency}


@pytest.mark.parametrize("option", FAULTS)
def test_a_peer_that_fails_keeps_a_row_with_its_reason(measured, option):
    found, samples = measured
    row = found[found["setting"] == option].iloc[0]
    assert np.isnan(row["median_s"]) and option not in set(samples["name"])
    assert found.loc[found["setting"] == option, "reason"].str.match(FAULTS[option]).all()


def test_a_peer_that_is_not_installed_says_so(measured):
    found, _ = measured
    assert found.loc[found["kernel"] == "absent", "reason"].tolist() == ["not installed: no_such_package"]


def test_the_limit_is_that_of_the_dtype_of_x(monkeypatch):
    for module in (peers_cpu, _peer_cells, _peers):
        monkeypatch.setattr(module, "SETTINGS", {"right": fake("right")})
    limits = {"error_limit_u": {"float32": 100.0}, "sums_limit_u": {"float32": 0.0, "float64": 100.0}}
    sets = {"all": ONE | {"kernels": ["right"], "dtypes": ["float32"]}}
    found, _ = peers_cpu.run(sets=sets, **ARGUMENTS | limits | {"kernels": ["reference"]})
    assert found.set_index("setting").loc["right", "reason"].startswith("wrong: dgamma or dbeta is")


def test_a_peer_that_hangs_is_given_up_and_its_process_ended():
    memory = SharedMemory(4096)
    peer = Peer("slow", "peer_at_work", "hangs", HERE, memory.descriptor, 0.2)
    vector = np.ones(4)
    work = Work("backward", "float64", (2, 4), 64, vector, vector, 1e-5, 1, np.arange(2))
    with pytest.raises(Lost, match=r"no answer within 0.2 s to: prepare"):
        peer.prepare(work)
    peer.close()
    memory.close()
    assert peer._process.returncode is not None


def test_a_peers_process_ends_when_the_measuring_one_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    worker = psutil.Process(int(parent.stdout.readline()))
    assert worker.is_running()
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([worker], timeout=300)
    assert alive == []


@pytest.mark.parametrize("named", [True, False], ids=["memfd", "file"])
def test_all_who_map_the_memory_see_what_one_writes_and_nothing_stays_behind(named, monkeypatch, tmp_path):
    if not named:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = SharedMemory(4096)
    other = mapped(memory.descriptor, 4096)
    memory.array[7] = 5
    assert other[7] == 5 and list(tmp_path.iterdir()) == []
    memory.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(memory.descriptor)


def test_a_meter_tells_work_from_waiting_and_counts_no_idle_time(monkeypatch):
    now_s, worked_s = [0.0], [0.0]

    def call(seconds, work):
        now_s[0] += seconds
        worked_s[0] += work * seconds

    monkeypatch.setattr(meter, "perf_counter", lambda: now_s[0])
    monkeypatch.setattr(meter, "process_time", lambda: worked_s[0])
    monkeypatch.setattr(meter, "rest", lambda: call(100.0, 0.5))
    busy, waiting = (Meter(partial(call, 2.0, work)) for work in (1.0, 0.25))
    for one in (busy, waiting):
        one.sample(3, 1)
        call(50.0, 0.0)
        one.sample(3, 1)
    assert (busy.usage().cores_busy, waiting.usage().cores_busy) == (1.0, 0.25)
    assert np.isnan(Meter(int).usage().cores_busy)


def test_threads_and_allocator_reach_the_process_by_its_environment():
    assert SETTINGS["jax_default"].variables(1) == {"NPROC": "1"}
    assert SETTINGS["torch_tuned"].variables(2)["OMP_NUM_THREADS"] == "2"
    assert "MALLOC_MMAP_THRESHOLD_" not in SETTINGS["torch_default"].variables(2)


def test_it_is_timed_alone_and_requires_what_its_settings_require():
    assert "peers_cpu" in study.TIMED
    assert {name for one in SETTINGS.values() for name in one.requires} == set(peers_cpu.REQUIRES)


def test_a_peer_that_does_not_free_its_arrays_costs_nobody_a_time(monkeypatch):
    settings = {name: fake("right") for name in ("stuck", "right", "third")}
    for module in (peers_cpu, _peer_cells, _peers):
        monkeypatch.setattr(module, "SETTINGS", settings)
    release = Peer.release

    def fails(peer):
        if peer.name == "stuck":
            raise Lost(peer.name, "no answer")
        release(peer)

    monkeypatch.setattr(Peer, "release", fails)
    sets = {"all": ONE | {"kernels": list(settings), "sizes": [(1, 6, 32), (1, 7, 32)]}}
    found, _ = peers_cpu.run(sets=sets, **ARGUMENTS)
    assert len(found) == 8 and set(found["reason"]) == {""} and found["median_s"].notna().all()


def test_a_meter_lets_the_process_come_to_rest_after_each_sample(monkeypatch):
    rests = []
    monkeypatch.setattr(meter, "rest", lambda: rests.append(1))
    timed = Meter(int)
    for _ in range(3):
        timed.sample(2, 0)
    assert len(rests) == 3


def test_a_process_that_is_idle_is_waited_for_once_and_a_busy_one_until_it_is(monkeypatch):
    slept, used = [], iter([0.0, 0.0, 5.0, 5.0 + meter.WINDOW_S, 7.0, 7.0])
    monkeypatch.setattr(meter, "sleep", slept.append)
    monkeypatch.setattr(meter, "process_time", lambda: next(used))
    meter.rest()
    assert slept == [meter.WINDOW_S] and meter.WINDOW_S < 0.01
    meter.rest()
    assert slept == [meter.WINDOW_S] * 3 and next(used, None) is None


@pytest.mark.skipif(meter.getrusage is None, reason="this system counts no page faults")
def test_page_faults_are_for_each_run_the_untimed_ones_too(monkeypatch):
    monkeypatch.setattr(clock, "sample", lambda call, loops, lead: (1.0, loops, 0.0))
    faults = iter([0, 0, 12])
    monkeypatch.setattr(meter, "_state", lambda: meter._State(0.0, 0.0, next(faults, 12)))
    monkeypatch.setattr(meter, "rest", lambda: None)
    timed = Meter(int)
    timed.sample(2, 1)
    assert timed.usage().page_faults == 4
