"""Lanes: conversions bit for bit, sums in pairs, and lines that touch nothing beside them."""

import ctypes
import mmap
import platform
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numba import intp, njit, prange, typeof
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.kernels import half, processor
from layernorm_backward.kernels.lane_memory import (
    align_stack,
    as_stored,
    fence,
    fetch_add,
    in_columns,
    in_lanes,
    line,
    load,
    numbers,
    parity_lanes,
    put,
    store,
    stream,
)
from layernorm_backward.kernels.lanes import (
    LINE,
    add_folded_products,
    add_products,
    broadcast,
    by_parity,
    fma,
    fold,
    mask_tail,
    totals,
    width,
    zeros,
)

SHORT = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
NAN = {  # what is kept of a float32 NaN: sign, quiet bit, and of float16 the upper bits of the payload
    "float16": lambda bits: (bits >> 16 & 0x8000) | 0x7E00 | (bits >> 13 & 0x3FF),
    "bfloat16": lambda bits: (bits >> 16 & 0x8000) | 0x7FC0,
}


class Converters(NamedTuple):
    widened: Callable[..., NDArray]
    narrowed: Callable[..., NDArray]


def converters(masked):
    """Compiled anew at their first call: lines of which some lanes are wanted, or whole ones by parity."""

    @njit
    def in_part(x, out, like):
        lanes = width(like)
        for j in range(0, x.size, lanes):
            count = min(lanes, x.size - j)
            store(load(x, j, 0, count, like), out, j, 0, count)

    @njit
    def whole(x, out, like):
        for j in range(0, x.size, width(like)):
            store(load(x, j, 0, None, like), out, j, 0, None)

    if masked:
        widen = njit(lambda x, out: in_part(x, out, zeros(x, 1)))
        narrow = njit(lambda x, out: in_part(x, out, zeros(out, 1)))
    else:
        widen = njit(lambda x, out: whole(x, out, by_parity(zeros(x, 1))))
        narrow = njit(lambda x, out: whole(x, out, by_parity(zeros(out, 1))))

    def widened(stored):
        out = np.full(stored.size, 7, np.float32)
        widen(as_stored(stored), out)
        return out if masked else in_columns(out, parity_lanes(stored.dtype))

    def narrowed(values, dtype, out=None):
        padded = values if masked else np.resize(values, -(-values.size // 32) * 32)
        out = np.full(padded.size, 7, dtype) if out is None else out
        narrow(padded if masked else in_lanes(padded, parity_lanes(np.dtype(dtype))).copy(), as_stored(out))
        return out[: values.size]

    return Converters(widened, narrowed)


@pytest.fixture(scope="module", params=[True, False], ids=["in part", "whole lines"])
def masked(request):
    return request.param


@pytest.fixture(scope="module", params=["as this processor does", "in integers"])
def convert(request, masked):
    """Conversions by the processor's instructions, where it has them, and as on one that has none."""
    with pytest.MonkeyPatch.context() as changed:
        if request.param == "in integers":
            changed.setattr(half, "instructions", lambda context: ())
            changed.setattr(processor, "features", lambda context: set())
        yield converters(masked)


PATTERNS = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("name", SHORT)
def test_all_patterns_are_widened_exactly(name, convert):
    with np.errstate(invalid="ignore"):  # NumPy's own conversion tells of signalling NaNs on AArch64
        expected = PATTERNS.view(SHORT[name]).astype(np.float32)
    found = convert.widened(PATTERNS.view(SHORT[name]))
    nan = np.isnan(expected)
    assert nan.sum() > 100
    assert np.array_equal(found[~nan].view(np.uint32), expected[~nan].view(np.uint32))
    quiet = 0x400000 if name == "float16" else 0
    shift = 13 if name == "float16" else 16
    bits = PATTERNS[nan].astype(np.uint32)
    kept = (bits & 0x8000) << 16 | (bits & 0x7FFF) << shift | quiet | 0x7F800000
    assert np.array_equal(found[nan].view(np.uint32), kept)


@pytest.mark.parametrize("name", SHORT)
def test_products_of_16_bits_are_exact_in_float32(name):
    """So that gamma*dy may be rounded or not, in `numba_backward_lines`; but for what float32 cannot hold."""
    with np.errstate(invalid="ignore"):
        values = PATTERNS.view(SHORT[name]).astype(np.float64)
    values = values[np.isfinite(values)]
    one, other = np.random.default_rng(8).choice(values, (2, 1 << 18))
    exact = one * other
    held = (np.abs(exact) < 2.0**128) & (np.abs(exact) >= 2.0**-126)
    assert held.mean() > 0.4
    assert np.array_equal(exact[held], exact[held].astype(np.float32))


def hard_to_round(dtype):
    """Every value of a 16-bit dtype, the midpoints to its neighbours, and one float32 to either side."""
    with np.errstate(invalid="ignore"):
        values = PATTERNS.view(dtype).astype(np.float32).view(np.uint32)
        ends = values.view(np.float32)[:-1].astype(np.float64), values.view(np.float32)[1:].astype(np.float64)
    middle = ((ends[0] + ends[1]) / 2).astype(np.float32).view(np.uint32)
    limit = np.array([65519.996, 65520, 3.3961775e38, 3.4028235e38, np.inf, -np.inf], np.float32)
    bits = np.concatenate([values, middle, limit.view(np.uint32)])
    return np.concatenate([bits, bits + np.uint32(1), bits - np.uint32(1)])


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("kind", ["hard", "random"])
def test_float32_is_rounded_to_nearest_even(name, kind, convert):
    rng = np.random.default_rng(5)
    bits = hard_to_round(SHORT[name]) if kind == "hard" else rng.integers(0, 1 << 32, 1 << 20, np.uint32)
    values = bits.view(np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = values.astype(SHORT[name]).view(np.uint16)
    found, nan = convert.narrowed(values, SHORT[name]).view(np.uint16), np.isnan(values)
    assert np.array_equal(found[~nan], expected[~nan])
    assert nan.any() and np.array_equal(found[nan], NAN[name](bits[nan]))


def moved(x, out, count):
    """The first elements of a line of x, written to out."""
    njit(lambda x, out: store(load(x, 0, 0, count, zeros(x, 1)), out, 0, 0, count))(x, out)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 30, 31, 32])
@pytest.mark.parametrize("masks", ["its own", "none for 16 bits"])
def test_of_a_part_of_a_line_nothing_else_is_read_or_written(name, count, masks, monkeypatch):
    if masks != "its own":
        monkeypatch.setattr(processor, "features", lambda context: set())
    x, out = (np.full(40, value, SHORT[name]) for value in (np.nan, 7))
    x[:count] = np.arange(1, count + 1)
    moved(as_stored(x), as_stored(out), count)
    assert np.array_equal(out, [*range(1, count + 1), *[7] * (40 - count)])


@njit
def sums(x, count, first, lines):
    """Of two rows: what is kept of a line, its total, and the total's first lane at `first`."""
    like = zeros(x, 2)
    row = x.size // 2
    kept = mask_tail(load(x, 0, row, row, like), count)
    store(kept, lines[0], 0, row, row)
    store(broadcast(totals(kept), like), lines[1], 0, row, row)
    put(totals(kept), lines[2], first)
    store(broadcast(numbers(lines[2], first, like), like), lines[3], 0, row, row)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_are_added_in_pairs_and_each_row_keeps_its_own(dtype):
    row = 64 // np.dtype(dtype).itemsize
    x = (np.random.default_rng(1).normal(size=2 * row) * 10.0 ** np.arange(2 * row)).astype(dtype)
    lines = np.full((4, 2 * row), 7, dtype)
    sums(x, row - 1, 1, lines)
    kept = x.reshape(2, row).copy()
    kept[:, -1] = 0
    assert np.array_equal(lines[0].reshape(2, row), kept)
    pairs = kept
    while pairs.shape[1] > 1:
        middle = pairs.shape[1] // 2
        pairs = pairs[:, :middle] + pairs[:, middle:]
    assert not np.array_equal(pairs[:, 0], np.add.accumulate(kept, axis=1)[:, -1])
    assert np.array_equal(lines[1].reshape(2, row), pairs.repeat(row, axis=1))
    assert np.array_equal(lines[2], [7, *pairs[:, 0], *[7] * (2 * row - 3)])
    assert np.array_equal(lines[3], lines[1])


@njit
def folds(x, y, z, out):
    """Of two rows of lines: their fold, z and the folded products, and the totals of lines and of folds."""
    like, row = zeros(x, 2), x.size // 2
    left, right = load(x, 0, row, row, like), load(y, 0, row, row, like)
    sums = fold(like)
    part = width(sums)
    store(fold(left), out[0], 0, part, None)
    store(add_folded_products(load(z, 0, part, None, sums), left, right), out[1], 0, part, None)
    put(totals(left), out[2], 0)
    put(totals(fold(left)), out[2], 2)


def halves_added(lines, name):
    """Of bfloat16 the even elements and the odd ones, else the first half of a line and the second."""
    half = lines.shape[1] // 2
    return lines[:, ::2] + lines[:, 1::2] if name == "bfloat16" else lines[:, :half] + lines[:, half:]


@pytest.mark.parametrize("name", ["float32", "float64", *SHORT])
def test_lines_of_16_bits_are_folded_once(name):
    dtype = SHORT.get(name) or np.dtype(name)
    number = np.dtype(np.float64 if name == "float64" else np.float32)
    row, part = LINE // dtype.itemsize, LINE // number.itemsize
    rng = np.random.default_rng(8)
    x, y = (rng.normal(size=2 * row).astype(dtype) for _ in range(2))
    z, out = rng.normal(size=2 * part).astype(number), np.full((3, 2 * part), 7, number)
    folds(as_stored(x), as_stored(y), z, out)
    left, right = (lines.astype(number).reshape(2, row) for lines in (x, y))
    if name in SHORT:  # whose products float32 holds exactly
        folded, products = halves_added(left, name), halves_added(left * right, name)
        sums = z + products.ravel()
    else:
        folded, sums = left, rounded_once(left.ravel(), right.ravel(), z)
    assert np.array_equal(out[0], folded.ravel())
    assert np.array_equal(out[1], sums)
    assert np.array_equal(out[2][:2], out[2][2:4])


def in_both_orders(x, count, copies, totalled):
    """Two lines as they are and by parity: kept, written again, added up, and their squares."""

    @njit
    def in_order_of(like, x, copy, total):
        row = x.size // 2
        kept = mask_tail(load(x, 0, row, row, like), count)
        store(kept, copy, 0, row, row)
        put(totals(kept), total, 0)
        put(totals(fold(kept)), total, 2)
        put(totals(add_folded_products(fold(like), kept, kept)), total, 4)

    @njit
    def both(x, copies, totalled):
        in_order_of(zeros(x, 2), x, copies[0], totalled[0])
        in_order_of(by_parity(zeros(x, 2)), x, copies[1], totalled[1])

    both(x, copies, totalled)


@pytest.mark.parametrize("count", [1, 2, 17, 31, 32])
@pytest.mark.parametrize("instructions", ["its own", "none"])
def test_even_lanes_before_odd_ones_change_no_bit(count, instructions, monkeypatch):
    if instructions == "none":
        monkeypatch.setattr(half, "instructions", lambda context: ())
    rng = np.random.default_rng(6)
    x = (rng.normal(size=64) * 10.0 ** rng.uniform(-5, 0, 64)).astype(ml_dtypes.bfloat16)
    x[40] = 1e-40
    copies, totalled = np.zeros((2, 64), x.dtype), np.zeros((2, 6), np.float32)
    in_both_orders(as_stored(x), count, as_stored(copies), totalled)
    kept = np.where(np.arange(64) % 32 < count, x, 0).astype(x.dtype).view(np.uint16)
    assert np.array_equal(copies.view(np.uint16), [kept, kept])
    assert np.array_equal(totalled[0], totalled[1]) and not np.isnan(totalled).any()


def test_only_bfloat16_has_another_order_and_vectors_follow_it():
    columns = np.arange(64)
    for dtype in (np.dtype(np.float64), np.dtype(np.float32), SHORT["float16"]):
        assert parity_lanes(dtype) == 0
        assert np.array_equal(in_lanes(columns, 0), columns)
    lanes = parity_lanes(SHORT["bfloat16"])
    ordered = in_lanes(columns, lanes)
    assert np.array_equal(ordered, [*range(0, 32, 2), *range(1, 32, 2), *range(32, 64, 2), *range(33, 64, 2)])
    assert np.array_equal(in_columns(ordered, lanes), columns)


@njit
def fused(a, b, c, fours, ones):
    """Lines of four rows: a * b + c in each row, and the products of all rows added to one line of c."""
    like = zeros(a, 4)
    row = width(like)
    left, right = load(a, 0, row, row, like), load(b, 0, row, row, like)
    store(fma(left, right, load(c, 0, row, row, like)), fours, 0, row, row)
    put(add_products(line(c, 0, like), left, right), ones, 0)


def rounded_once(a, b, c):
    """a * b + c by exact arithmetic: one rounding, to nearest even."""
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)
    ]
    nearest = np.array([value.numerator / value.denominator for value in exact])
    if a.dtype == np.float64:
        return nearest
    neighbours = np.stack([np.nextafter(nearest.astype(a.dtype), way) for way in (-np.inf, np.inf)])
    candidates = np.vstack([neighbours, nearest.astype(a.dtype)])
    found = []
    for value, column in zip(exact, candidates.T, strict=True):
        off = [abs(Fraction(float(number)) - value) for number in column]
        best = [number for number, distance in zip(column, off, strict=True) if distance == min(off)]
        found.append(min(best, key=lambda number: int(number.view(np.uint32)) & 1))
    return np.array(found, a.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_and_a_sum_are_rounded_once(dtype):
    rng, count = np.random.default_rng(3), 4 * 64 // np.dtype(dtype).itemsize
    a, b = (rng.normal(size=count).astype(dtype) for _ in range(2))
    c = (-a * b * (1 + 4 * np.finfo(dtype).eps * rng.normal(size=count))).astype(dtype)
    fours, ones = np.zeros(count, dtype), np.zeros(count // 4, dtype)
    fused(a, b, c, fours, ones)
    assert np.array_equal(fours, rounded_once(a, b, c))
    assert (fours != a * b + c).mean() > 0.5
    one = c[: count // 4]
    for left, right in zip(a.reshape(4, -1), b.reshape(4, -1), strict=True):
        one = rounded_once(left, right, one)
    assert np.array_equal(ones, one)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="reads the code of x86-64")
def test_the_stack_begins_at_a_line_where_it_is_asked_to():
    def code(function):
        compiled = njit("intp(intp)", no_cpython_wrapper=True)(function)
        return "".join(compiled.inspect_asm().values())

    @njit(forceinline=True)
    def within():
        align_stack()

    def aligned(x):
        within()
        return x

    assert re.search(rf"andq\s+\$-{LINE}, %rsp", code(aligned))
    assert not re.search(r"andq\s+\$-\d+, %rsp", code(lambda x: x))


def test_fetch_add_gives_every_thread_another_number():
    @njit(parallel=True)
    def taken(counter, threads, seen):
        for _ in prange(threads):
            number = fetch_add(counter)
            while number < seen.size:
                seen[number] += 1
                number = fetch_add(counter)

    counter, seen = np.zeros(1, np.intp), np.zeros(100_000, np.intp)
    taken(counter, 2, seen)
    assert np.array_equal(seen, np.ones(seen.size))
    assert counter[0] == seen.size + 2


@njit
def streamed(x, y, start):
    like = zeros(x, 1)
    stream(load(x, 0, 0, width(like), like), y, start, 0)
    fence()


@pytest.mark.parametrize("name", ["float64", "float32", *SHORT])
def test_a_streamed_line_is_written_whole_and_alone(name):
    dtype = SHORT.get(name) or np.dtype(name)
    lanes = 64 // dtype.itemsize
    x, y = np.arange(lanes).astype(dtype), aligned_empty(3 * lanes, dtype)
    y[:] = 9
    streamed(as_stored(x), as_stored(y), lanes)
    assert np.array_equal(y.reshape(3, lanes), [np.full(lanes, 9), x, np.full(lanes, 9)])


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="reads the code of x86-64")
@pytest.mark.parametrize("name", ["float64", "float32", *SHORT])
def test_streaming_is_non_temporal_in_the_machine_code(name):
    """LLVM silently drops the hint where it has no such store, as for vectors of float16."""
    stored = as_stored(np.zeros(1, SHORT.get(name) or np.dtype(name)))
    line_of = njit(streamed.py_func)
    line_of.compile((typeof(stored), typeof(stored), intp))
    (code,) = line_of.inspect_asm().values()
    written = re.findall(r"\bv?movnt(?:ps|pd|dq|i[lq]?)\b[^\n]*([xyz])mm", code)
    assert sum({"x": 16, "y": 32, "z": 64}[size] for size in written) == 64
    if name == "float16" and "avx512f" in processor.features(cpu_target.target_context):
        assert written == ["y", "y"]  # as they are rounded, not joined


@pytest.fixture
def page():
    """Bytes of a page whose next page may not be touched: a read or write there ends the process."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * size)
    array = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    assert protect(array.ctypes.data + size, size, 0) == 0
    yield array[:size]
    assert protect(array.ctypes.data + size, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect is called as on Linux")
@pytest.mark.parametrize("masked", [True], indirect=True)
@pytest.mark.parametrize("name", SHORT)
def test_a_partial_line_at_the_end_of_a_page_touches_nothing_behind_it(name, page, convert):
    for count in (1, 5, 31):
        values = np.arange(1, count + 1, dtype=np.float32)
        tail = page[-2 * count :].view(SHORT[name])
        convert.narrowed(values, tail.dtype, out=tail)
        assert np.array_equal(convert.widened(tail), values)
