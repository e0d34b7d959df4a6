"""What the audit says of findings that failed names their cause, the cause before what follows from it."""

from dataclasses import replace

import numpy as np
import pytest

from audit_small import SMALL, failed
from layernorm_backward import oracle
from layernorm_backward.audit import audit, report
from layernorm_backward.audit.advice import _of_sweep, advice
from layernorm_backward.audit.advice_texts import (
    ADVICE,
    FEW,
    FLAT,
    LEVEL,
    OVERWRITTEN,
    READ_ONLY,
    SQUARE,
    SWEEP,
    UNLIKE,
    WRONG,
)
from layernorm_backward.audit.cases import CASES, case_limit
from layernorm_backward.audit.setting import Finding
from layernorm_backward.edge_cases import posed
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import KERNELS

HONEST = KERNELS["recentred"]
RANDOM = np.random.default_rng(0)


def said(kernel, dtype="float32", setting=SMALL):
    """Of each property that failed, what to think."""
    found = advice(audit(kernel, dtype, setting))
    return {name: thought for thought, names in found.items() for name in names}


def forwards(spoil):
    """HONEST with the arrays of its forward pass changed, or refused."""
    return replace(HONEST, forward=lambda x, gamma, beta, eps: HONEST.forward(*spoil(x, gamma, beta, eps)))


def backwards(change):
    """HONEST with dy and the gradients given to a function that returns them changed."""
    return replace(HONEST, backward=lambda dy, saved: change(dy, saved, *HONEST.backward(dy, saved)))


def test_sums_are_not_blamed_where_eps_is_ignored():
    kernel = forwards(lambda x, gamma, beta, eps: (x, gamma, beta, 1e-9))
    found = said(kernel, setting=replace(SMALL, eps=1e-3))
    assert found["eps_obeyed"] == "eps is not the one given, or not inside the root"
    assert found["long_sums"] == found["edge_width_1024"] == WRONG


def over_one_fewer(x, gamma, beta, eps):
    """HONEST divides the sum of squares by D; smaller rows and a smaller eps make that D - 1."""
    fewer = np.sqrt((x.shape[-1] - 1) / x.shape[-1]) if x.shape[-1] > 1 else 1.0
    return x, (gamma * fewer).astype(x.dtype), beta, eps * fewer**2


def test_eps_is_not_blamed_where_the_variance_is_over_one_element_fewer():
    found = said(forwards(over_one_fewer))
    assert found["eps_obeyed"] == WRONG
    assert found["y_error"] == LEVEL and "the variance is divided by D-1" in LEVEL


@pytest.mark.parametrize("result", range(3))
def test_eps_is_not_blamed_where_a_result_is_too_rough_everywhere(result):
    def rough(dy, saved, *gradients):
        return [
            part.astype(np.float16).astype(part.dtype) if number == result else part
            for number, part in enumerate(gradients)
        ]

    kernel = backwards(rough)
    assert {said(kernel, setting=replace(SMALL, seed=seed))["eps_obeyed"] for seed in range(3)} == {WRONG}


def test_neither_sums_nor_eps_are_blamed_for_what_no_two_runs_agree_on():
    def racing(dy, saved, dx, dgamma, dbeta):
        return dx, dgamma * (1 + 0.01 * RANDOM.random()), dbeta * (1 + 0.01 * RANDOM.random())

    found = said(backwards(racing))
    names = ("eps_obeyed", "long_sums", "ones_counted", "undisturbed", "dgamma_error", "dbeta_error")
    assert {found[name] for name in names} == {UNLIKE}


def test_a_y_that_the_backward_pass_writes_to_is_told():
    def forward(*given):
        y, saved = HONEST.forward(*given)
        return y, (saved, y)

    def backward(dy, saved):
        dx, *sums = HONEST.backward(dy, saved[0])
        saved[1][...] = dx
        return saved[1], *sums

    found = said(replace(HONEST, forward=forward, backward=backward))
    assert {found[name] for name in ("undisturbed", "eps_obeyed", "y_error", "y_kappa")} == {OVERWRITTEN}


def test_memory_that_was_never_set_is_told_as_a_cause():
    left = iter(range(1 << 20))  # what lies in new memory

    def added_to(dy, saved, dx, dgamma, dbeta):
        return dx, dgamma, dbeta + next(left)

    assert "uninitialized memory" in said(backwards(added_to))["repeatable"]


def in_random_order(dy, saved, dx, dgamma, dbeta):
    rows = dy.reshape(-1, dy.shape[-1])
    return dx, dgamma, rows[RANDOM.permutation(len(rows))].sum(axis=0)


def test_a_random_order_of_rows_shares_no_buffer_and_loses_no_row():
    found = said(backwards(in_random_order))
    assert found.keys() == {"repeatable", "undisturbed", "into_out"}
    assert found["undisturbed"] == found["into_out"] == UNLIKE


def test_a_shared_buffer_is_told_beside_a_random_order():
    buffers = {}

    def change(dy, saved, dx, dgamma, dbeta):
        kept = buffers.setdefault((dx.shape, dx.dtype), np.empty_like(dx))
        kept[...] = dx
        return kept, *in_random_order(dy, saved, dx, dgamma, dbeta)[1:]

    assert said(backwards(change))["undisturbed"].startswith("calls share a buffer")


def test_what_is_saved_in_one_place_for_all_calls_is_told_where_it_raises():
    kept = []

    def forward(*given):
        y, kept[:] = HONEST.forward(*given)
        return y, ()

    kernel = replace(HONEST, forward=forward, backward=lambda dy, saved: HONEST.backward(dy, tuple(kept)))
    found = {finding.property: finding for finding in audit(kernel, "float32", SMALL)}
    assert found["undisturbed"].raised
    assert said(kernel)["undisturbed"] == ADVICE["undisturbed"]


def test_rows_of_odd_lengths_that_are_refused_share_no_buffer():
    def spoil(x, *rest):
        if x.shape[-1] % 2:
            raise ValueError("odd")
        return x, *rest

    assert said(forwards(spoil))["undisturbed"] == "could not be run, for the reason above"


def test_a_norm_over_two_axes_is_told_to_take_the_last():
    """Of three, the last two; its dgamma and dbeta are the sums that they are to be."""

    def joined(array):
        return array.reshape(*array.shape[:-2], -1) if array.ndim > 2 else array

    def forward(x, gamma, beta, eps):
        many = [np.resize(part, joined(x).shape[-1]) for part in (gamma, beta)]
        y, saved = HONEST.forward(joined(x), *many, eps)
        return y.reshape(x.shape), saved

    def backward(dy, saved):
        dx, *sums = HONEST.backward(joined(dy), saved)
        return dx.reshape(dy.shape), *(part.reshape(-1, dy.shape[-1]).sum(axis=0) for part in sums)

    thought = said(replace(HONEST, forward=forward, backward=backward))["gradient_check"]
    assert thought == f"right where x has two axes: {ADVICE['edge_leading_axes']}"


def in_bfloat16(dy, saved, dx, dgamma, dbeta):
    total = np.zeros_like(dbeta)
    for row in dy.reshape(-1, dy.shape[-1]):
        total = total + row
    return dx, dgamma, total


def test_sums_that_stand_still_lose_no_row_after_whole_blocks():
    found = said(backwards(in_bfloat16), "bfloat16")
    assert found["edge_rows_1031"] == found["long_sums"] == "keep sums over rows in float32 or wider"


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_running_sum_in_float32_is_within_the_limit_of_many_rows(order):
    """In either order of the rows; eight roundings, the limit of short sums, are not enough."""
    limit = case_limit("rows_1031", "float32", SMALL)
    errors = []
    for seed in range(5):
        problem, _ = posed("rows_1031", "float32", SMALL.eps, seed, CASES)
        dy = problem.dy.copy()
        dy[:-7] /= 256
        exact = oracle.results(*problem._replace(dy=dy).values(), SMALL.eps).dbeta
        errors.append(float(error_u(np.cumsum(dy[order], axis=0)[-1], exact)))
    assert max(errors) <= limit
    assert (max(errors) > SMALL.limit_u) == (order.step == -1)


def test_many_rows_in_16_bits_have_the_limit_of_few():
    assert case_limit("rows_1031", "bfloat16", SMALL) == SMALL.limit_u < SMALL.sum_limit_u(1031, "float64")


def refusing(condition):
    def spoil(x, *rest):
        if condition(x):
            raise ValueError("refused")
        return x, *rest

    return forwards(spoil)


@pytest.mark.parametrize(
    ("name", "condition", "thought"),
    [
        ("edge_width_1", lambda x: x.shape[-1] == 1, "for D = 1 dx and dgamma must be exactly 0"),
        ("edge_no_rows", lambda x: len(x) == 0, "for no rows dgamma and dbeta must be 0"),
        ("edge_non_contiguous", lambda x: not x.flags.forc, "arrays may be non-contiguous"),
    ],
)
def test_what_was_asked_for_is_told_where_it_was_refused(name, condition, thought):
    assert said(refusing(condition))[name].startswith(thought)


def test_what_is_refused_everywhere_is_no_matter_of_the_case():
    found = said(refusing(lambda x: True))
    assert set(found.values()) == {"could not be run, for the reason above"}


def written_to(x, gamma, beta, eps):
    x += 0
    return x, gamma, beta, eps


def test_the_gradient_check_that_was_refused_names_its_read_only_arrays():
    found = said(forwards(written_to))
    assert found["gradient_check"] == found["edge_read_only"] == READ_ONLY


def test_an_edge_case_that_was_refused_names_its_read_only_array():
    def scaled(dy, saved):
        dy *= 1
        return HONEST.backward(dy, saved)

    found = said(replace(HONEST, backward=scaled))
    assert found["edge_dy_expanded"] == found["edge_read_only"] == READ_ONLY


def test_a_std_of_0_is_not_called_small_beside_the_mean():
    found = said(KERNELS["compact"])
    assert found["edge_constant_rows"] == FLAT
    assert found["edge_tiny_variance"].startswith("the mean is much larger than the std")


def test_edge_cases_that_are_as_wrong_as_everywhere_are_counted_and_come_last():
    wrong = backwards(lambda dy, saved, dx, dgamma, dbeta: (1.5 * dx, dgamma, dbeta))
    found = audit(wrong, "float32", SMALL)
    lines = report.text(wrong, "float32", SMALL, found).splitlines()
    cases = [name for name in failed(wrong) if name.startswith("edge_") and name != "edge_cases"]
    assert [line for line in lines if "FAILED  edge_" in line] == [
        line for line in lines if line.startswith("FAILED  edge_cases ")
    ]
    counted = [line.split(maxsplit=1)[1] for line in lines if f"{len(cases)} edge cases" in line]
    assert len(counted) == 2 and counted[0].endswith(WRONG)
    bullets = [line for line in lines if line.startswith("- ")]
    assert bullets[0].startswith("- gradient_check: backward is not the derivative of forward")
    assert bullets[-1].endswith(f"{len(cases)} edge cases: {WRONG}")


@pytest.mark.parametrize(
    ("reached", "power", "flat", "thought"),
    [
        (0.0, 1.0, False, LEVEL),
        (1.0, 1.0, False, SWEEP),
        (1.0, 1.4, False, SWEEP),
        (1.0, 1.6, False, SQUARE),
        (1.0, 0.1, True, FEW),
    ],
)
def test_the_power_of_kappa_tells_a_rounded_mean_from_a_difference_of_squares(reached, power, flat, thought):
    found = [Finding("dx_slope", power, 0.25, flat), Finding("dx_kappa", reached, 1e7, False)]
    assert _of_sweep("dx", {one.property: one for one in found}) == thought
