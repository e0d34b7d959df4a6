"""numba_fused refuses results that share memory, found by the compiled pass or by NumPy, before it writes."""

import re
from itertools import combinations

import numpy as np
import pytest

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import checks, numba_fused
from layernorm_backward.kernels.numba_disjoint import disjoint

ROWS, HIDDEN = 6, 8
RESULTS = ("dx", "dgamma", "dbeta")
NAMES = ("dy", "x", "mean", "rstd", "gamma", *RESULTS)
PAIRS = [(one, other) for one, other in combinations(NAMES, 2) if other in RESULTS]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ((0, 8), (8, 16), False),
        ((0, 9), (8, 16), True),
        ((0, 32), (8, 16), True),
        ((8, 16), (8, 16), True),
        ((12, 12), (8, 16), False),
        ((12, 12), (12, 12), False),
    ],
)
def test_spans_share_a_byte_or_none(one, other, shared):
    """Neighbours share none, and neither does a span without a byte inside another."""
    for left, right in ((one, other), (other, one)):
        far = 100, 108
        assert disjoint.py_func((far, left), (far[:1] * 2, right)) is not shared
        assert disjoint.py_func((left, right), (far,)) is not shared


def _arrays(dtype, gamma_dtype, one=None, other=None):
    """All arrays of a backward pass; `other` begins with the last element of `one`."""
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    kinds = [dtype, dtype, wide, wide, gamma_dtype, dtype, gamma_dtype, gamma_dtype]
    shapes = [(ROWS, HIDDEN)] * 2 + [(ROWS, 1)] * 2 + [(HIDDEN,), (ROWS, HIDDEN), (HIDDEN,), (HIDDEN,)]
    found = {name: np.zeros(shape, kind) for name, shape, kind in zip(NAMES, shapes, kinds, strict=True)}
    found["rstd"] += 1
    if one:
        pair = [found[one], found[other]]
        step = max(array.itemsize for array in pair)
        block = np.zeros(sum(array.nbytes for array in pair) - step, np.uint8)
        found[one] = block[: pair[0].nbytes].view(pair[0].dtype).reshape(pair[0].shape)
        found[other] = block[-pair[1].nbytes :].view(pair[1].dtype).reshape(pair[1].shape)
    return found


def _backward(arrays):
    saved = numba_fused.Saved(*[arrays[name] for name in ("x", "mean", "rstd", "gamma")])
    return numba_fused.backward(arrays["dy"], saved, tuple(arrays[name] for name in RESULTS))


@pytest.mark.parametrize(
    ("dtype", "gamma_dtype"), [("float64",) * 2, ("float32",) * 2, ("bfloat16", "float32"), ("float16",) * 2]
)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_each_pair_that_shares_an_element_is_refused_and_nothing_written(dtype, gamma_dtype, one, other):
    arrays = _arrays(dtype_of(dtype), dtype_of(gamma_dtype), one, other)
    before = {name: array.copy() for name, array in arrays.items()}
    message = f"out {other} overlaps another array of the call; allowed: memory of its own"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        _backward(arrays)
    assert all(np.array_equal(arrays[name], before[name]) for name in NAMES)


@pytest.mark.parametrize(
    ("dtype", "gamma_dtype"), [("float64",) * 2, ("float32",) * 2, ("bfloat16", "float32"), ("float16",) * 2]
)
@pytest.mark.parametrize("name", ["x", "gamma", "beta"])
def test_a_result_of_the_forward_pass_that_shares_an_element_is_refused_too(dtype, gamma_dtype, name):
    """`out` begins with the last element of what is given: where the two differ in size, with half of it."""
    kinds = {"x": dtype_of(dtype), "gamma": dtype_of(gamma_dtype), "beta": dtype_of(gamma_dtype)}
    shapes = {"x": (ROWS, HIDDEN), "gamma": (HIDDEN,), "beta": (HIDDEN,)}
    given = {one: np.ones(shapes[one], kind) for one, kind in kinds.items()}
    size, taken = given["x"].nbytes, given[name].nbytes
    block = np.zeros(size + taken - kinds["x"].itemsize, np.uint8)
    given[name] = block[:taken].view(kinds[name]).reshape(shapes[name])
    out = block[-size:].view(kinds["x"]).reshape(shapes["x"])
    with pytest.raises(ValueError, match=r"^out overlaps another array of the call"):
        numba_fused.forward(*given.values(), 1e-5, out=out)
    assert not block.any()


@pytest.mark.parametrize("name", NAMES)
def test_a_view_with_gaps_is_refused_too(name):
    """Of such an array the pass sees a copy."""
    arrays = _arrays(np.dtype(np.float32), np.dtype(np.float32))
    wide = np.zeros((*arrays[name].shape, 2), np.float32)
    wide[..., 0] = arrays[name]
    arrays[name] = wide[..., 0]
    _backward(arrays)
    partner = "dgamma" if name == "dbeta" else "dbeta"
    arrays[partner] = wide.reshape(-1)[:HIDDEN]
    with pytest.raises(ValueError, match="overlaps another array of the call"):
        _backward(arrays)


def test_numpy_does_not_check_overlap_of_plain_arrays(monkeypatch):
    """18 pairs at 0.3 us each: as much as the pass over a few rows."""
    arrays = _arrays(np.dtype(np.float32), np.dtype(np.float32))
    asked = []
    monkeypatch.setattr(checks, "HOST", checks.HOST._replace(overlap=lambda *pair: asked.append(pair)))
    monkeypatch.setattr(checks.gradients, "__defaults__", (checks.HOST,))
    _backward(arrays)
    assert not asked
    arrays["dy"] = np.asfortranarray(arrays["dy"])
    _backward(arrays)
    assert len(asked) == len(PAIRS)


def test_numpy_does_not_check_overlap_of_plain_arrays_of_the_forward_pass(monkeypatch):
    x, vector, asked = np.ones((ROWS, HIDDEN)), np.ones(HIDDEN), []
    monkeypatch.setattr(
        checks.output, "__defaults__", (checks.HOST._replace(overlap=lambda *pair: asked.append(pair)),)
    )
    numba_fused.forward(x, vector, vector, 1e-5, out=np.empty_like(x))
    assert not asked
    numba_fused.forward(np.asfortranarray(x), vector, vector, 1e-5, out=np.empty_like(x))
    assert len(asked) == 3
