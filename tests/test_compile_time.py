"""Compile times: the first calls of new processes, with an empty cache and with a filled one."""

import json
import subprocess
import sys

import pytest

from layernorm_backward import first_call
from layernorm_backward.experiments import compile_time

ARGUMENTS = {"kernels": ["compact"], "dtypes": ["float64"], "compilations": 2, "loads": 3}


@pytest.fixture
def caches(monkeypatch):
    """The cache folder of each process that would have been started; its n-th call takes n seconds."""
    folders = []

    def run(command, env, **_):
        folders.append(env.get("NUMBA_CACHE_DIR"))
        seconds = {"forward": len(folders), "backward": 10 * len(folders)}
        return subprocess.CompletedProcess(command, 0, json.dumps(seconds), "")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    return folders


def test_each_compilation_has_an_empty_cache_and_loads_share_a_filled_one(caches):
    found = compile_time.run(**ARGUMENTS).set_index(["cache", "direction"])
    assert len(set(caches[:2])) == 2 and caches[2:] == [caches[1]] * 3
    assert found["median_s"].to_dict() == {
        ("empty", "forward"): 1.5,
        ("empty", "backward"): 15,
        ("filled", "forward"): 4,
        ("filled", "backward"): 40,
    }
    assert found["repeats"].tolist() == [2, 2, 3, 3]


def test_without_a_compilation_the_users_cache_is_loaded(caches):
    found = compile_time.run(**ARGUMENTS | {"compilations": 0, "loads": 1}).set_index("cache")
    assert caches == [None]
    assert set(found.loc["empty", "reason"]) == {"not measured in this study"}
    assert (found.loc["filled", "median_s"] > 0).all()


def test_a_process_that_fails_says_why():
    with pytest.raises(
        ValueError, match=r"first_call nobody float64: it ended \(1\): ValueError: unknown kernel 'n"
    ):
        compile_time._first_calls("nobody", "float64", None)


def test_a_process_that_is_killed_without_a_word_is_told_with_its_code(monkeypatch):
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, -9, "", "\n")
    )
    with pytest.raises(ValueError, match=r"first_call compact float64: it ended \(-9\): no message$"):
        compile_time.run(**ARGUMENTS)


def test_the_first_call_of_each_direction_is_timed():
    assert set(first_call.seconds("compact", "float64")) == set(compile_time.DIRECTIONS)
    program = [sys.executable, "-m", "layernorm_backward.first_call", "compact", "float32"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert all(seconds > 0 for seconds in json.loads(done.stdout).values())
