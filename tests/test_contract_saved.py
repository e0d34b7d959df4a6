"""What each kernel keeps for the backward pass, and how many bytes that is."""

from types import SimpleNamespace

import numpy as np
import pytest

from emulated import needs_compiler
from host_kernels import HOST
from kept_otherwise import KEPT as KEPT_OTHERWISE
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import KERNELS
from layernorm_backward.kernels.saved import saved_bytes, saved_items

N, D = 33, 129

# Bytes kept for N rows of D elements of s bytes with sums of w bytes (gamma and beta of s bytes as well).
KEPT = {
    "reference": (  # its gamma is the caller's only where that is float64
        lambda s, w: 8 * (N * D + N + D),
        lambda s, w: 8 * (N * D + N + (s < 8) * D),
    ),
    "compact": (lambda s, w: s * (N * D + D) + w * N, lambda s, w: s * N * D + w * N),
    "overcached": (
        lambda s, w: s * (3 * N * D + 2 * D) + w * 3 * N,
        lambda s, w: s * (2 * N * D + D) + w * 3 * N,
    ),
    "recentred": (lambda s, w: s * (N * D + D) + w * 2 * N, lambda s, w: w * 2 * N),
    "numpy_blocked": (lambda s, w: s * (N * D + D) + w * 3 * N, lambda s, w: w * 3 * N),
    "numba_fused": (lambda s, w: s * (N * D + D) + w * 2 * N, lambda s, w: w * 2 * N),
}


@pytest.mark.parametrize("kernel", list(KEPT))
def test_bytes_kept(kernel, problem):
    for dtype in KERNELS[kernel].dtypes:
        x, gamma, beta, _ = problem((3, 11, D), dtype)
        _, saved = KERNELS[kernel].forward(x, gamma, beta, 1e-5)
        size, wide = dtype_of(dtype).itemsize, 8 if dtype == "float64" else 4
        every, extra = KEPT[kernel]
        assert saved_bytes(saved) == every(size, wide)
        assert saved_bytes(saved, x, gamma) == extra(size, wide)


def test_every_kernel_here_is_in_the_table_of_bytes():
    assert {name for name in KERNELS if KERNELS[name].device == "cpu"} <= set(KEPT)


COUNTED = {  # bytes, bytes but for gamma, arrays and scalars
    "tuple": (4 * (N * D + N + D), 4 * (N * D + N), (3, 1)),
    "list": (4 * (N * D + N + D), 4 * (N * D + N), (3, 1)),
    "dict": (4 * (N * D + N + D), 4 * (N * D + N), (3, 1)),
    "nested": (4 * (N * D + N + D), 4 * (N * D + N), (3, 1)),
    "object": (4 * (N * D + N + D), 4 * (N * D + N), (3, 1)),
    "one array": (4 * (N + 1) * (D + 1), 4 * (N + 1) * (D + 1), (1, 0)),
}


@pytest.mark.parametrize("kind", list(KEPT_OTHERWISE))
def test_bytes_are_counted_whatever_a_kernel_saves_them_in(kind, problem):
    x, gamma, beta, _ = problem((N, D), "float32")
    _, saved = KEPT_OTHERWISE[kind].forward(x, gamma, beta, 1e-5)
    assert (saved_bytes(saved), saved_bytes(saved, x, gamma), saved_items(saved)) == COUNTED[kind]


def test_x_is_told_by_its_memory_in_whatever_shape_and_under_whatever_name(problem):
    x, gamma, _, _ = problem((3, 11, D))
    saved = SimpleNamespace(rows=x.reshape(N, D), scale=gamma[None])
    assert saved_bytes(saved) == x.nbytes + gamma.nbytes and saved_bytes(saved, x, gamma) == 0
    assert saved_bytes({"x": x.copy()}, x, gamma) == x.nbytes


class Opaque:
    """An array that does not tell where it lies, as a tensor of torch on the CPU."""

    ndim, nbytes = 2, 24


def test_an_array_that_does_not_tell_where_it_lies_counts_once():
    one = Opaque()
    assert saved_bytes((one, one, Opaque())) == 48


@pytest.mark.parametrize("kernel", ["reference", "compact"])
def test_a_kernel_that_does_not_save_x_shares_no_memory_with_it(kernel, problem):
    x, gamma, beta, dy = problem((N, D))
    _, saved = KERNELS[kernel].forward(x, gamma, beta, 1e-5)
    right = KERNELS[kernel].backward(dy, saved)
    assert "x" not in saved._fields
    x[...] = np.nan
    for result, wanted in zip(KERNELS[kernel].backward(dy, saved), right, strict=True):
        assert np.array_equal(result, wanted)


def test_memory_that_two_fields_share_counts_once(problem):
    x, gamma, beta, _ = problem((N, D))
    _, saved = KERNELS["overcached"].forward(x, gamma, beta, 1e-5)
    shared = saved._replace(x_centered=x.reshape(3, 11, D), beta=gamma)
    assert saved_bytes(saved) - saved_bytes(shared) == x.nbytes + beta.nbytes
    assert saved_bytes(saved, gamma) - saved_bytes(shared, gamma) == x.nbytes + beta.nbytes


ROWS = {"x": "mean rstd", "x_hat": "rstd"}  # what is saved of each row, beside x or x_hat
SPOILT = {
    "nothing": (lambda s, of: None, "saved is a builtins.NoneType; allowed: what forward returned"),
    "a field less": (lambda s, of: tuple(s)[:-1], "saved is a builtins.tuple of [23]; allowed: what forward"),
    "a list": (lambda s, of: s._replace(rstd=s.rstd.tolist()), r"saved rstd is a builtins.list of 64; allow"),
    "short gamma": (
        lambda s, of: s._replace(gamma=s.gamma[:8]),
        r"saved gamma has shape \(8,\); allowed: \(16,\), the last axis of x",
    ),
    "gamma of another dtype": (
        lambda s, of: s._replace(gamma=s.gamma.astype(np.float64)),
        "gamma has dtype float64 beside x of float32; allowed: float32",
    ),
    "few of a row": (
        lambda s, of: s._replace(**{of: getattr(s, of)[:4]}),
        r"saved {of} has shape \(4, 1\) and dtype float32; allowed: 64 of float32",
    ),
    "wide ones of a row": (
        lambda s, of: s._replace(**{of: getattr(s, of).astype(np.float64)}),
        r"saved {of} has shape .* and dtype float64; allowed: 64 of float32",
    ),
    "narrow ones of a row": (
        lambda s, of: s._replace(**{of: getattr(s, of).astype(np.float16)}),
        r"saved {of} has shape .* and dtype float16; allowed: 64 of float32",
    ),
}


@needs_compiler
@pytest.mark.parametrize("how", list(SPOILT))
@pytest.mark.parametrize("name", ["cuda_fused (emulated)", "cuda_separate (emulated)"])
def test_a_cuda_kernel_refuses_what_forward_has_not_saved(name, how, problem):
    x, gamma, beta, dy = problem((64, 16), "float32")
    _, saved = HOST[name].forward(x, gamma, beta, 1e-5)
    spoil, told = SPOILT[how]
    for of in ROWS[saved._fields[0]].split():
        with pytest.raises((TypeError, ValueError), match=told.format(of=of)):
            HOST[name].backward(dy, spoil(saved, of))


@needs_compiler
def test_x_hat_of_another_dtype_than_the_sums_is_refused(problem):
    x, gamma, beta, dy = problem((64, 16), "float32")
    kernel = HOST["cuda_separate (emulated)"]
    _, saved = kernel.forward(x, gamma, beta, 1e-5)
    with pytest.raises(ValueError, match="saved x_hat has dtype float16; allowed: float32, for x of float32"):
        kernel.backward(dy, saved._replace(x_hat=saved.x_hat.astype(np.float16)))
