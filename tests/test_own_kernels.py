"""Kernels of a reader in studies: what does not fit or is raised has no numbers, and spoils no others."""

import os
import subprocess
import sys

import numpy as np
import pytest
import yaml

from layernorm_backward import kernels
from layernorm_backward.experiments import (
    backward_error,
    cancellation,
    edge_cases,
    eps,
    gradient_check,
    scaling_points,
    timing_cpu,
)
from layernorm_backward.experiments._trials import Cast
from layernorm_backward.experiments._trials import _right as right
from layernorm_backward.timing import prepared
from layernorm_backward.untrusted.watch import COULD_NOT_BE_RUN
from own_kernels import DIVIDING, HALF_DGAMMA, NARROW, SPOILING, STRICT, WIDE_DGAMMA, WITHOUT_OUT, tiring

SMALL = {"dtypes": ["float32"], "hidden": 64, "rows": 8, "seed": 3}
ERRORS = {
    "backward_error": lambda kernels: backward_error.run(
        kernels=kernels,
        kappas=[1.0],
        hidden_sweep=[],
        hidden_kappas=[],
        upstreams=["shifted"],
        eps=1e-5,
        **SMALL,
    ),
    "cancellation": lambda kernels: cancellation.run(kernels=kernels, spreads=[0.1], eps=1e-5, **SMALL),
    "eps": lambda kernels: eps.run(kernels=kernels, eps=[1e-5], **SMALL),
}
EDGES = {"dtypes": ["float32"], "eps": 1e-5, "limit_u": 32.0, "seed": 5}


@pytest.mark.parametrize("stem", ERRORS)
@pytest.mark.parametrize(("kernel", "dtype"), [(HALF_DGAMMA, "float16"), (WIDE_DGAMMA, "float64")])
def test_sums_of_another_dtype_have_no_errors(stem, kernel, dtype, registered):
    found = ERRORS[stem]([registered(kernel), "compact"])
    theirs = found[found["kernel"] == kernel.name]
    said = f"{kernel.name}: dgamma is an array (64,) of {dtype}; expected: an array (64,) of float32"
    assert len(theirs) and set(theirs["reason"]) == {said}
    assert theirs["error_u_max"].isna().all()


@pytest.mark.parametrize("stem", ERRORS)
def test_what_is_raised_is_the_reason_and_others_are_measured(stem, registered):
    found = ERRORS[stem]([registered(NARROW), "compact"]).set_index("kernel")
    said = "sixty: backward raised ValueError: D > 60 is not written yet (own_kernels.py:"
    assert found.loc[["sixty"], "reason"].str.startswith(said).all()
    assert found.loc[["compact"], "error_u_max"].notna().any()


@pytest.mark.parametrize("stem", ERRORS)
def test_one_that_writes_to_dy_does_not_change_the_errors_of_others(stem, registered):
    found = ERRORS[stem]([registered(SPOILING), "compact"])
    alone = ERRORS[stem](["compact"])
    after = found[found["kernel"] == "compact"].reset_index(drop=True)
    assert after.equals(alone.reset_index(drop=True))


def test_one_that_has_numpy_raise_does_not_change_the_edge_cases_of_others(registered):
    settings = EDGES | {"dtypes": ["float16"]}
    with np.errstate():
        found = edge_cases.run(kernels=[registered(STRICT), "compact"], **settings)
    after = found[found["kernel"] == "compact"].reset_index(drop=True)
    assert after.equals(edge_cases.run(kernels=["compact"], **settings))


@pytest.mark.parametrize("kernel", [HALF_DGAMMA, WIDE_DGAMMA])
def test_sums_of_another_dtype_pass_no_edge_case(kernel, registered):
    found = edge_cases.run(kernels=[registered(kernel)], **EDGES)
    judged = found[found["passed"].notna()]
    assert len(judged) and not judged["passed"].any()
    assert judged["reason"].str.contains("dgamma is an array").all()


def test_one_that_divides_by_the_rows_fails_without_rows_and_nowhere_else(registered):
    found = edge_cases.run(kernels=[registered(DIVIDING), "recentred"], **EDGES)
    theirs = found[found["kernel"] == "dividing"].set_index("case")
    empty = theirs.loc["no_rows"]
    assert not empty["passed"] and np.isinf(empty["value"])
    assert "raised ZeroDivisionError: division by zero (own_kernels.py:" in empty["reason"]
    assert theirs.loc[["one_row", "width_1024"], "passed"].all()
    assert found[found["kernel"] == "recentred"]["passed"].dropna().all()


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (NARROW, "^sixty: backward raised ValueError: D"),
        (WIDE_DGAMMA, "^wide_dgamma: dgamma is an array"),
    ],
)
def test_tables_without_reasons_end_with_the_name_of_the_kernel(kernel, said, problem, registered):
    given = problem((8, 64), "float32")
    with pytest.raises(ValueError, match=said):
        right(Cast([], [registered(kernel)], []), given, 1e-5)
    cell = gradient_check.Cell(kernel.name, "central2", 1e-3, (1, 2, 64), 1, ("rows",))
    if kernel is NARROW:  # in float64 the other fits
        with pytest.raises(ValueError, match=said):
            gradient_check._measure([cell], {"rows": 1, "directions": 1})


def timed(*names, shape=(2, 3, 64), directions=("forward", "backward", "both")):
    one = {
        "kernels": [*names],
        "directions": [*directions],
        "sizes": [shape],
        "dtypes": ["float32"],
        "gamma_dtypes": ["same"],
        "threads": [1],
    }
    found, _ = timing_cpu.run(
        kernels=[*names],
        threaded=[],
        sets={"one": one},
        rounds=2,
        repeats=2,
        at_least=2,
        budget_s=0.0,
        error_elements=128,
        error_limit_u=100.0,
        seed=2,
    )
    return found.set_index(["kernel", "direction"])


def test_one_without_out_is_timed_with_the_arrays_that_it_returns(registered):
    found = timed(registered(WITHOUT_OUT), "compact")
    assert (found["reason"] == "").all() and (found["median_s"] > 0).all()
    columns = ["error_u_max", "saved_bytes", "saved_extra_bytes"]
    assert found.loc["without_out", columns].equals(found.loc["compact", columns])


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (NARROW, "sixty: backward raised ValueError: D > 60 is not written yet (own_kernels.py:"),
        (
            HALF_DGAMMA,
            "half_dgamma: dgamma is an array (64,) of float16; expected: an array (64,) of float32",
        ),
        (SPOILING, "wrong: writes to dy, of which it may only read"),
    ],
)
def test_what_cannot_be_timed_says_why_and_the_others_are(kernel, said, registered):
    found = timed(registered(kernel), "compact", directions=["both"])
    row, other = found.loc[kernel.name, "both"], found.loc["compact", "both"]
    assert row["reason"].startswith(said) and np.isnan(row["median_s"])
    assert other["reason"] == "" and other["error_u_max"] > 0


CHECKED = 2  # calls of each function before the timed ones: on one row, and on all


@pytest.mark.parametrize(
    ("role", "direction"),
    [
        ("forward", "forward"),
        ("backward", "backward"),
        ("forward", "both"),
        ("backward", "both"),
        ("forward", "backward"),  # which a later round needs once more
    ],
)
def test_one_that_raises_after_it_was_checked_says_why_and_the_others_are_timed(role, direction, registered):
    found = timed(registered(tiring(role, CHECKED)), "compact", "recentred", directions=[direction])
    row = found.loc["tiring", direction]
    said = f"tiring: {role} raised RuntimeError: no more of this (own_kernels.py:"
    assert row["reason"].startswith(said) and np.isnan(row["median_s"]) and np.isnan(row["error_u_max"])
    others = found.loc[["compact", "recentred"]]
    assert (others["reason"] == "").all() and (others["repeats"] == 2).all()
    assert len(found) == 3


def test_one_that_raises_where_a_long_run_is_repeated_says_why(registered, monkeypatch):
    monkeypatch.setattr(prepared, "LONG_S", 0.0)
    found = timed(registered(tiring("backward", CHECKED)), "compact", directions=["backward"])
    assert "no more of this" in found.loc["tiring", "backward"]["reason"]
    assert found.loc["compact", "backward"]["reason"] == ""


def test_points_without_out_or_beyond_what_a_kernel_takes_leave_the_others_measured(registered):
    names = [registered(WITHOUT_OUT), registered(NARROW), "compact"]
    found, _ = scaling_points.run(
        kernels=names,
        directions=["backward"],
        axes={"hidden": [32, 64]},
        fixed={"hidden": 4},
        dtype="float64",
        repeats=2,
        at_least=2,
        budget_s=0.0,
        error_rows=2,
        error_limit_u=100.0,
        seed=1,
    )
    refused = found[found["reason"] != ""]
    assert refused[["kernel", "hidden"]].values.tolist() == [["sixty", 64]]
    assert len(found) == 6 and found["median_s"].notna().sum() == 5


ENDS = """
import ctypes, os
from dataclasses import replace
from layernorm_backward.kernels import KERNELS

def backward(dy, saved, out=None):
    {how}

KERNEL = replace(KERNELS["compact"], name="ends", backward=backward)
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("ctypes.string_at(0)", 'theirs.py", line 7 in backward'),
        ("ctypes.string_at(0)", "error: the process was terminated by SIGSEGV in cancellation, backward\n"),
        ("os._exit(0)", "error: the process exited with code 0 in cancellation, backward\n"),
    ],
)
def test_one_that_ends_the_process_is_told_with_its_place(tmp_path, how, said):
    told = tmp_path / "theirs-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (told / "entry_points.txt").write_text(f"[{kernels.GROUP}]\nends = theirs:KERNEL\n")
    (tmp_path / "theirs.py").write_text(ENDS.format(how=how))
    config = tmp_path / "cancellation.yaml"
    given = SMALL | {"kernels": ["ends"], "spreads": [0.1], "eps": 1e-5}
    config.write_text(yaml.safe_dump(given))
    command = [sys.executable, "-m", "layernorm_backward", "cancellation"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [*command, config, config.with_suffix(".csv")],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == COULD_NOT_BE_RUN and said in done.stderr
