"""The roof of a cell moves the very bytes that the pass beside it moves, and its noise is a stream's own."""

import numpy as np
import pandas as pd
import pytest

from layernorm_backward import roofs
from layernorm_backward.timing import cell_roof
from layernorm_backward.timing.pool import Pool

SHAPE = (40, 33)
DIRECTIONS = list(cell_roof.ROOFS)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_stream_reads_and_writes_what_its_pass_does_and_nothing_else(direction):
    pool = Pool(int(np.prod(SHAPE)) * 8, seed=3)
    arrays = pool.buffers(SHAPE, "float64")
    copied, added = direction in ("forward", "both"), direction in ("backward", "both")
    calls = cell_roof.streams(direction, arrays)
    assert set(calls) <= set(cell_roof.ROOFS[direction])
    for call in calls.values():
        arrays.y.fill(np.nan)
        arrays.out.fill(np.nan)
        call()
        assert np.array_equal(arrays.y, arrays.x) == copied
        assert np.allclose(arrays.out, arrays.x + roofs.SCALE * arrays.dy) == added
        assert np.isnan(arrays.out if not added else arrays.y).all() == (direction != "both")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_stream_stores_as_its_name_says(direction, monkeypatch):
    made = []
    monkeypatch.setattr(roofs, "missing", lambda _: "")
    monkeypatch.setattr(roofs, "stream", lambda operation, *_: made.append(operation) or len)
    arrays = Pool(64, seed=3).buffers((2, 4), "float64")
    past_the_cache = [name.endswith("_nt") for name in cell_roof.streams(direction, arrays)]
    each = len(made) // len(past_the_cache)
    assert [operation.endswith("_nt") for operation in made] == [
        it for it in past_the_cache for _ in range(each)
    ]
    assert past_the_cache == [False, True]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_stream_is_loaded_on_the_first_row_alone(direction):
    arrays = Pool(int(np.prod(SHAPE)) * 8, seed=3).buffers(SHAPE, "float64")
    arrays.y.fill(np.nan)
    arrays.out.fill(np.nan)
    cell_roof.load(direction, arrays)
    written = {"forward": [arrays.y], "backward": [arrays.out], "both": [arrays.y, arrays.out]}[direction]
    for result in (one.reshape(-1, SHAPE[-1]) for one in written):
        assert not np.isnan(result[0]).any() and np.isnan(result[1:]).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_beyond_the_cache_a_stream_asks_in_pages_and_is_no_roof(direction, monkeypatch):
    arrays = Pool(int(np.prod(SHAPE)) * 8, seed=3).buffers(SHAPE, "float64")
    assert cell_roof.in_pages(direction, arrays, "cache") == {}
    assert cell_roof.in_pages(direction, arrays, "partly") == {}
    ((name, call),) = cell_roof.in_pages(direction, arrays, "memory").items()
    assert name not in cell_roof.ROOFS[direction]
    arrays.y.fill(np.nan)
    arrays.out.fill(np.nan)
    call()
    if direction != "backward":
        assert np.array_equal(arrays.y, arrays.x)
    if direction != "forward":
        assert np.allclose(arrays.out, arrays.x + roofs.SCALE * arrays.dy)
    rows = [(it, 0, 1.0, False) for it in (*cell_roof.ROOFS[direction], name)]
    samples = pd.DataFrame(rows, columns=["name", "repeat", "seconds", "waited"])
    assert cell_roof.paged(samples, direction) == name
    assert cell_roof.paged(samples[samples["name"] != name], direction) == ""
    samples.loc[samples["name"] == name, "seconds"] = 0.5
    assert cell_roof.fastest(samples, direction) != name
    monkeypatch.setattr(roofs, "missing", lambda _: "no such store")
    assert cell_roof.in_pages(direction, arrays, "memory") == {}


@pytest.mark.parametrize(("residency", "expected"), [("memory", "copy_nt"), ("cache", "copy")])
def test_the_stream_that_is_expected_to_be_the_roof_runs_twice(residency, expected):
    calls = {"copy": print, "copy_nt": len}
    found = cell_roof.with_noise(calls, residency)
    assert set(found) - set(calls) == {expected + cell_roof.AGAIN}
    assert found[expected + cell_roof.AGAIN] is calls[expected]
    assert set(cell_roof.with_noise({"copy": print}, residency)) == {"copy", "copy_again"}


def test_a_stream_that_was_clearly_slower_in_earlier_rounds_is_no_contender_but_the_doubled_one_stays():
    calls = cell_roof.with_noise({"copy": print, "copy_nt": len}, "memory")
    assert cell_roof.contenders(calls, {}) == calls
    before_s = {"copy": 1.2, "copy_nt": 1.0, "copy_nt_again": 1.0, "kernel": 0.1}
    assert cell_roof.contenders(calls, before_s) == calls
    assert set(cell_roof.contenders(calls, before_s | {"copy": 1.3})) == {"copy_nt", "copy_nt_again"}
    assert cell_roof.contenders(calls, before_s | {"copy": 0.5}) == calls


def test_the_faster_of_the_streams_is_the_roof_and_the_noise_is_that_of_the_one_timed_twice():
    seconds = {"triad": 2.0, "triad_nt": 1.0, "triad_nt_again": 1.1, "kernel": 0.5}
    rows = [(name, repeat, it, False) for name, it in seconds.items() for repeat in range(8)]
    samples = pd.DataFrame(rows, columns=["name", "repeat", "seconds", "waited"])
    assert cell_roof.fastest(samples, "backward") == "triad_nt"
    assert cell_roof.noise(samples) == pytest.approx(0.1)
