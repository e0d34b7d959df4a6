"""Kernels of a reader in studies: what does not fit or is raised has no numbers, and spoils no others."""

import numpy as np
import pytest

from layernorm_backward.experiments import backward_error, cancellation, edge_cases, eps, gradient_check
from layernorm_backward.experiments._trials import Cast
from layernorm_backward.experiments._trials import _right as right
from own_kernels import DIVIDING, HALF_DGAMMA, NARROW, SPOILING, WIDE_DGAMMA

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
    said = f"{kernel.name}: dgamma is an array (64,) of {dtype}; wanted: an array (64,) of float32"
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
