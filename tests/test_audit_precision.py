"""The formula is checked in a dtype that the functions compute in, unless float64 was asked for."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from audit_small import SMALL, failed
from layernorm_backward.audit import audit
from layernorm_backward.audit.precision import BENT, _straight, computes_in_float64, formula_dtype
from layernorm_backward.audit.target import as_kernel
from layernorm_backward.gradient_check import mutants
from layernorm_backward.kernels import KERNELS

HONEST = KERNELS["recentred"]


def widened(narrowest, back=True):
    """A right kernel that computes in the wider of its input's dtype and the one that `narrowest` gives."""

    def forward(x, gamma, beta, eps):
        kind = narrowest(x)
        y, saved = HONEST.forward(*(part.astype(kind) for part in (x, gamma, beta)), eps)
        return y.astype(x.dtype) if back else y, saved

    def backward(dy, saved):
        found = HONEST.backward(dy.astype(saved[1].dtype), saved)
        return tuple(part.astype(dy.dtype) for part in found) if back else found

    return as_kernel("widened", (forward, backward))


def refuse(x):
    if x.dtype == np.float64:
        raise TypeError("float32 only")
    return np.float32


RIGHT = {
    "always float32": widened(lambda x: np.float32),
    "float32 comes back": widened(lambda x: np.float32, back=False),
    "float32 signatures": widened(refuse),
    "no narrower than float32": widened(lambda x: np.result_type(x, np.float32)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_that_computes_in_float32_passes_in_float32(name):
    assert failed(RIGHT[name]) == set()


def checked_in(kernel, dtype, asked):
    found = {finding.property: finding for finding in audit(kernel, dtype, SMALL, asked=asked)}
    return found["gradient_check"].passed, found["gradient_check"].note[:10]


def test_the_widest_dtype_that_is_asked_for_is_taken_where_float64_is_not_computed_in():
    narrow, wide = RIGHT["always float32"], RIGHT["no narrower than float32"]
    assert checked_in(narrow, "float16", ["float16", "float32"]) == (True, "in float32")
    assert checked_in(narrow, "float16", ["float16"]) == (True, "in float16")
    assert checked_in(wide, "bfloat16", ["bfloat16"]) == (True, "in float64")


def test_float64_that_was_asked_for_is_a_finding():
    assert checked_in(RIGHT["always float32"], "float32", ["float32", "float64"]) == (False, "in float64")


@pytest.mark.parametrize("name", [*mutants.MUTANTS])
def test_a_wrong_formula_in_float64_is_checked_in_float64(name):
    assert computes_in_float64(mutants.kernel(name), SMALL)


def test_a_result_that_is_overwritten_by_the_next_call_is_none_that_stands_still():
    buffers = [np.zeros((4, 16)), np.zeros(16), np.zeros(16)]

    def backward(dy, saved):
        for buffer, found in zip(buffers, HONEST.backward(dy, saved), strict=True):
            buffer[...] = found
        return tuple(buffers)

    assert computes_in_float64(dataclasses.replace(HONEST, backward=backward), SMALL)


def test_one_sum_in_float32_is_not_computing_in_float64():
    def backward(dy, saved, which):
        found = list(HONEST.backward(dy, saved))
        found[which] = found[which].astype(np.float32).astype(dy.dtype)
        return tuple(found)

    for which in range(3):
        assert not computes_in_float64(
            dataclasses.replace(HONEST, backward=partial(backward, which=which)), SMALL
        )


def test_a_kernel_that_states_that_it_takes_no_float64_is_not_tried_in_it():
    narrow = dataclasses.replace(HONEST, unsupported={"float64": "no"})
    assert formula_dtype(narrow, ["float16", "float32"], SMALL) == "float32"


@pytest.mark.parametrize(("bend", "straight"), [(BENT, True), (1.01 * BENT, False), (-1.01 * BENT, False)])
def test_steps_are_straight_within_a_small_part_of_their_length(bend, straight):
    start, once = np.zeros(2), np.array([2.0, 0.0])
    assert _straight(start, once, 2 * once + [2 * bend, 0.0]) is straight
