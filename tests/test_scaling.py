"""Scaling: known exponents are found, memory is what a call keeps alive, small sizes are left out."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kept_otherwise import saving
from layernorm_backward.experiments import scaling, scaling_points
from layernorm_backward.experiments._memory import memory
from layernorm_backward.kernels import KERNELS
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import sizing
from layernorm_backward.timing.pool import buffers

SIZES = 2 ** np.arange(6, 17)


def points(seconds, peak=None, **changed):
    rows = [
        {"kernel": "compact", "direction": "forward", "axis": "rows", "hidden": 8, "dtype": "float64"}
        | {"rows": size, "median_s": time, "overhead_s": 0.0, "peak_bytes": memory, "extra_bytes": 1e3}
        | changed
        for size, time, memory in zip(SIZES, seconds, SIZES if peak is None else peak, strict=True)
    ]
    return table(rows, "scaling_points")


def exponent(quantity, found):
    return found.set_index("quantity").loc[quantity]


def test_a_known_exponent_is_found_with_its_interval():
    noise = np.exp(0.02 * np.random.default_rng(1).standard_normal(SIZES.size))
    found = scaling.run(
        decades=3.1, above=1.0, scaling_points=points(1e-9 * SIZES**1.5 * noise, peak=3 * SIZES)
    )
    time = exponent("time", found)
    assert time["exponent_low"] <= 1.5 <= time["exponent_high"]
    assert time["exponent_high"] - time["exponent_low"] < 0.1
    assert exponent("memory", found)["exponent"] == pytest.approx(1, abs=1e-12)
    assert time["points"] == SIZES.size


def test_growth_with_d_is_over_d_and_of_extra_memory_is_that_of_the_extra_bytes():
    found = points(1e-9 * SIZES.astype(float), peak=SIZES.astype(float) ** 2)
    found = found.rename(columns={"rows": "hidden", "hidden": "rows"}).assign(axis="hidden")
    found = scaling.run(decades=3.1, above=1.0, scaling_points=found)
    exponents = [exponent(name, found)["exponent"] for name in scaling.QUANTITIES]
    assert exponents == pytest.approx([1, 2, 0])


def test_a_size_that_is_just_the_decades_below_the_largest_is_fitted():
    tens = points(1e-9 * SIZES.astype(float)).iloc[:4].assign(rows=[1, 10, 100, 1000])
    assert exponent("memory", scaling.run(decades=2, above=1.0, scaling_points=tens))["points"] == 3


def test_one_spoilt_point_does_not_move_the_exponent():
    seconds = 1e-9 * SIZES.astype(float)
    seconds[-1] *= 10
    assert (
        exponent("time", scaling.run(decades=3.1, above=1.0, scaling_points=points(seconds)))["exponent"]
        < 1.1
    )


def test_only_the_upper_decades_are_fitted():
    seconds = 1e-9 * np.maximum(SIZES, 600)  # small sizes cost the same: the call itself
    whole = exponent("time", scaling.run(decades=3.1, above=1.0, scaling_points=points(seconds)))
    upper = exponent("time", scaling.run(decades=2.0, above=1.0, scaling_points=points(seconds)))
    assert whole["exponent"] < 0.99 and upper["exponent"] == pytest.approx(1)
    assert upper["points"] == 7


def test_too_few_points_leave_a_reason():
    found = scaling.run(decades=0.5, above=1.0, scaling_points=points(SIZES.astype(float)))
    assert set(found["reason"]) == {"2 points; a fit needs 3"}
    found = scaling.run(
        decades=2, above=1.0, scaling_points=points(SIZES.astype(float), reason="not measured")
    )
    assert set(found["reason"]) == {"0 points; a fit needs 3"}


def test_times_near_the_cost_of_a_call_are_left_out():
    seconds = 1e-6 + 1e-9 * SIZES
    found = {
        above: exponent("time", scaling.run(decades=3.1, above=above, scaling_points=late(seconds)))
        for above in (1.0, 10.0)
    }
    assert found[1.0]["points"] == SIZES.size and found[1.0]["exponent"] < 0.9
    assert found[10.0]["points"] == 3 and found[10.0]["exponent"] > 0.95
    assert (
        exponent("memory", scaling.run(decades=3.1, above=10.0, scaling_points=late(seconds)))["points"]
        == SIZES.size
    )


def late(seconds):
    return points(seconds, overhead_s=1e-6)


@pytest.mark.parametrize(("name", "arrays"), [("compact", (2.9, 3.1)), ("numpy_blocked", (0, 0.1))])
def test_extra_memory_is_what_is_neither_input_nor_result(name, arrays):
    data = buffers((4096, 512), "float64", seed=1)
    found = memory(KERNELS[name], "backward", data)
    low, high = arrays
    assert low * data.x.nbytes <= found.extra_bytes <= high * data.x.nbytes
    assert found.extra_share == pytest.approx(found.extra_bytes / (found.peak_bytes - found.extra_bytes))
    assert found.peak_bytes > 3 * data.x.nbytes


def test_what_the_forward_pass_saves_is_no_extra_memory():
    data = buffers((4096, 64), "float64", seed=1)
    assert memory(KERNELS["numba_fused"], "forward", data).extra_bytes < 16 * 4096 / 2


def test_what_a_first_call_keeps_for_later_ones_is_no_extra_memory():
    kernel, kept = KERNELS["recentred"], []

    def forward(*given):
        kept.append(np.zeros(1 << 20) if not kept else 0)
        return kernel.forward(*given)

    data = buffers((512, 64), "float64", seed=1)
    usual, first = (memory(one, "forward", data) for one in (kernel, replace(kernel, forward=forward)))
    assert first.extra_bytes == pytest.approx(usual.extra_bytes, rel=0.01)


@pytest.mark.parametrize("kept", [tuple, list, lambda saved: saved._asdict()])
def test_x_that_is_saved_is_no_result_of_the_forward_pass_whether_it_has_a_name_or_not(kept):
    data, kernel = buffers((4096, 64), "float64", seed=1), KERNELS["recentred"]
    named, found = (memory(one, "forward", data) for one in (kernel, saving(kernel, kept, kept)))
    assert found.peak_bytes == pytest.approx(named.peak_bytes, rel=0.01)
    assert found.extra_bytes == pytest.approx(named.extra_bytes, rel=0.01)
    assert found.extra_share == pytest.approx(named.extra_share, rel=0.01)


ARGUMENTS = {
    "kernels": ["compact", "numba_fused"],
    "directions": ["forward", "backward"],
    "axes": {"rows": [8, 16], "hidden": [32]},
    "fixed": {"rows": 4, "hidden": 4},
    "dtype": "float64",
    "repeats": 2,
    "at_least": 2,
    "budget_s": 0.0,
    "error_rows": 2,
    "error_limit_u": 100.0,
    "seed": 1,
}


def test_a_point_is_measured_for_every_kernel_and_direction():
    found, samples = scaling_points.run(**ARGUMENTS)
    assert len(found) == 2 * 2 * 3
    sizes = found[["axis", "rows", "hidden"]].drop_duplicates().values.tolist()
    assert sizes == [["rows", 8, 4], ["rows", 16, 4], ["hidden", 4, 32]]
    assert (found["median_s"] > 0).all() and (found["peak_bytes"] > 8 * 4 * 8).all()
    assert set(samples["name"]) == {"compact", "numba_fused"}


def test_each_direction_has_its_own_overhead_and_the_backward_pass_of_ours_its_chunks(monkeypatch):
    def overheads(ready, how):
        return {name: {"overhead_s": float(how["seed"])} for name in ready}

    monkeypatch.setattr(scaling_points, "_overheads", overheads)
    found, _ = scaling_points.run(**ARGUMENTS)
    each = found.groupby("direction")["overhead_s"].unique()
    assert [len(values) for values in each] == [1, 1] and each["forward"] != each["backward"]
    ours = (found["kernel"] == "numba_fused") & (found["direction"] == "backward")
    assert (found["chunks"].notna() == ours).all()


def test_chunks_are_those_of_the_rows_of_the_point(monkeypatch):
    monkeypatch.setattr(scaling_points.numba_plan, "choose", lambda *size: SimpleNamespace(chunks=size))
    cell = {"direction": "backward", "rows": 4096, "hidden": 64, "dtype": "float64"}
    assert scaling_points._chunks("numba_fused", cell)["chunks"] == (4096, 64, np.dtype("float64"))


def test_a_kernel_that_fails_on_a_single_element_is_not_timed_and_says_so(monkeypatch):
    prepare = scaling_points.prepare

    def refusing(kernels, direction, arrays, **checked):
        ready, refused = prepare(kernels, direction, arrays, **checked)
        if arrays.x.size == 1:
            refused["compact"] = f"wrong: {ready.pop('compact').error_u_max} u"
        return ready, refused

    monkeypatch.setattr(scaling_points, "prepare", refusing)
    found, samples = scaling_points.run(**ARGUMENTS)
    reasons = found.groupby("kernel")["reason"].unique()
    assert reasons["compact"].tolist() == ["on a single element: wrong: 0.0 u"]
    assert reasons["numba_fused"].tolist() == [""] and len(found) == 12
    assert set(samples["name"]) == {"numba_fused"}


def test_a_point_whose_arrays_do_not_fit_says_so_and_takes_no_memory(monkeypatch):
    limit, taken = 3 * 8 * 4 * 8, []
    monkeypatch.setattr(sizing, "memory_limit", lambda: limit)
    monkeypatch.setattr(
        scaling_points, "buffers", lambda shape, *more: taken.append(shape) or buffers(shape, *more)
    )
    found, _ = scaling_points.run(**ARGUMENTS)
    fits = found["rows"] * found["hidden"] <= 8 * 4
    assert fits.sum() == 4 and len(found) == 12
    assert (found[fits]["reason"] == "").all() and found[~fits]["median_s"].isna().all()
    assert set(found[~fits]["reason"].str.split(";").str[1]) == {
        f" a third of the available memory is {limit}"
    }
    assert taken == [(1, 1), (8, 4)]
    fits = scaling.run(decades=1, above=1.0, scaling_points=found)
    assert set(fits["points"]) == {0, 1}
