"""The loops of numba_fused over the rows of a piece: groups in blocks, blocks in chunks.

A chunk consists of blocks of `block` rows; the number of chunks depends on N and D only. dgamma and dbeta are
added row by row within a block, pairwise over the blocks of a chunk, and pairwise over the chunks: neither
the number of threads nor the rows in a group change a bit. One pipeline runs through the rows of neighbouring
chunks.
"""

from numba import int64, njit

from layernorm_backward.kernels.lane_memory import (
    align_stack,
    elements,
    fence,
    line,
    moved,
    put,
    stack_lines,
)
from layernorm_backward.kernels.lanes import by_parity, fold, height, width, zeros
from layernorm_backward.kernels.numba_backward import backward_group, first_sums
from layernorm_backward.kernels.numba_forward import first_moments, forward_group
from layernorm_backward.kernels.numba_ring import RING_LINES, flush
from layernorm_backward.kernels.numba_scratch import BEYOND, part_row
from layernorm_backward.kernels.numba_sharing import next_piece
from layernorm_backward.kernels.numba_walk import PLAIN, prefetch_line, prefetch_schedule

_STEP = 4  # lines of a chunk's sums that are added at a time
_GROUP_RING_LINES = 4 * RING_LINES


@njit(**PLAIN)
def _chunk_start(chunk, chunks, rows, block):
    blocks = (rows + block - 1) // block
    return min(chunk * blocks // chunks * block, rows)


@njit(**PLAIN)
def _carry(levels, running, number, columns, like):
    """Add block `number` of a chunk to the sums of 1, 2, 4, ... blocks, like a carry in a binary counter."""
    top = 0
    while number >> top & 1:
        top += 1
    for which in range(2):
        for j in range(0, columns, width(like)):
            sums, place = line(running[which], j, like), which * columns + j
            for level in range(top):
                sums = sums + line(levels, 2 * columns * level + place, like)
            put(sums, levels, 2 * columns * top + place)
            put(like, running[which], j)


@njit(**PLAIN)
def _collect(levels, running, carried, out, chunk, columns, like):
    """Write to `out` the sum of a chunk's last block and those carried, the sums of the fewest first."""
    for which in range(2):
        for j in range(0, columns, width(like)):
            sums, place, level = line(running[which], j, like), which * columns + j, 0
            while carried >> level:
                if carried >> level & 1:
                    sums = sums + line(levels, 2 * columns * level + place, like)
                level += 1
            put(sums, out, 2 * columns * chunk + place)
            put(like, running[which], j)


@njit(**PLAIN)
def _with_copied_statistics(rows, given, i, count, copies):
    """`rows` with mean and rstd replaced by copies of the given ones, of `count` rows from row i on."""
    dy, x, _, _, gamma, dx = rows
    for which in range(2):
        source, target = moved(given[which], i), copies[which]
        for row in range(count):
            target[row] = source[row]
    return dy, x, moved(copies[0], -i), moved(copies[1], -i), gamma, dx


@njit(**PLAIN)
def _backward_chunks(
    rows, copies, sums, chunks, levels, running, widened, shape, how, ragged, lag, recentre, like, one
):
    """A range of chunks in one pipeline, in groups of the rows of `like`; `one` is for single remaining rows.

    mean and rstd are copied `stretch` rows at a time, or read in place where that is 0.
    """
    align_stack()
    block, hidden, ahead, spread, pages, first, stretch = how
    count, whole, columns = shape
    group = height(like)
    distance = ahead, spread, pages
    schedule = prefetch_schedule(hidden, distance, like)
    schedule_single = prefetch_schedule(hidden, distance, one)
    i, end = _chunk_start(chunks[0], whole, count, block), _chunk_start(chunks[1], whole, count, block)
    zero, ring = fold(like), (stack_lines(rows[5], RING_LINES), first, i * hidden)
    known, given, copied = ((zero, zero, zero), (zero, zero, zero)), rows[2:4], i
    if i + group <= end:
        following = i + group if i + 2 * group <= end else i
        known = first_sums(rows, widened, i, following, hidden, lag, recentre, like)
    for chunk in range(chunks[0], chunks[1]):
        stop, number = _chunk_start(chunk + 1, whole, count, block), int64(0)
        while i < stop:
            until = min(i + block, stop)
            if stretch > 0 and copied < until:
                wanted = min(stretch + BEYOND, count - i)
                rows, copied = _with_copied_statistics(rows, given, i, wanted, copies), i + stretch
            while i + group <= until:
                following = i + group if i + 2 * group <= end else i
                later = i + 2 * group if i + 3 * group <= end else i
                where = (i, following, later), known, hidden, schedule, ring
                known = backward_group(rows, running, widened, *where, ragged, lag, recentre, like, one)
                i += group
            while i < until:
                single = first_sums(rows, widened, i, i, hidden, None, recentre, one)
                where = (i, i, i), single, hidden, schedule_single, ring
                backward_group(rows, running, widened, *where, ragged, None, recentre, one, one)
                i += 1
            if i < stop:
                _carry(levels, running, number, columns, one)
                number += 1
        _collect(levels, running, number, sums, chunk, columns, one)
    if ragged is not None:
        flush(rows[5], end * hidden, hidden, ring, one)
    fence()


@njit(**PLAIN)
def backward_task(rows, sums, chunks, levels, part, copies, how, widened, ragged, lag, recentre, like, one):
    running = elements(part)
    for j in range(part.size):
        running[j] = 0
    dy, x, mean, rstd, gamma, dx = rows
    columns = gamma.size
    held = elements(dy), elements(x), elements(mean), elements(rstd), elements(gamma), elements(dx)
    near = elements(copies[0]), elements(copies[1])
    count = 2 if widened is None else 4
    running = elements(part_row(part, 0, count, columns)), elements(part_row(part, 1, count, columns))
    shape = mean.size, sums.shape[0], columns
    sums, levels = elements(sums), elements(levels)
    _backward_chunks(
        held, near, sums, chunks, levels, running, widened, shape, how, ragged, lag, recentre, like, one
    )


@njit(**PLAIN)
def add_chunks(sums, shape, left, right, like):
    """Add columns of the sums of all chunks, (chunks, columns) in C order, pairwise into the first.

    It goes a few lines of each at a time and prefetches the next: the sums of early chunks are in no cache.
    """
    chunks, columns = shape
    step = _STEP * width(like)
    for start in range(left, right, step):
        end = min(start + step, right)
        for chunk in range(chunks):
            for j in range(start, end, width(like)):
                prefetch_line(sums, chunk * columns + step + j, like)
        count = chunks
        while count > 1:
            half = (count + 1) // 2
            for chunk in range(half, count):
                for j in range((chunk - half) * columns + start, (chunk - half) * columns + end, width(like)):
                    put(line(sums, j, like) + line(sums, j + half * columns, like), sums, j)
            count = half


@njit(**PLAIN)
def copy_total(sums, dgamma, dbeta):
    half, total, first, second = sums.shape[1] // 2, elements(sums), elements(dgamma), elements(dbeta)
    for j in range(dgamma.size):
        first[j] = total[j]
    for j in range(dbeta.size):
        second[j] = total[half + j]


@njit(**PLAIN)
def _forward_rows(rows, widened, i, end, how, ragged, lag, like, one):
    """Whole groups of rows from row i on in one pipeline; returns the row after the last."""
    align_stack()
    hidden, ahead, spread, pages, first = how
    group, schedule, begin = height(like), prefetch_schedule(hidden, (ahead, spread, pages), like), i
    held = stack_lines(rows[4], _GROUP_RING_LINES)
    if i + group <= end:
        following = i + group if i + 2 * group <= end else i
        known = first_moments(rows, widened, i, following, hidden, lag, like)
        while i + group <= end:
            following, ring = i + group if i + 2 * group <= end else i, (held, first, begin * hidden)
            later = i + 2 * group if i + 3 * group <= end else i
            where = (i, following, later), known, hidden, schedule, ring
            known = forward_group(rows, widened, *where, ragged, lag, like, one)
            if ragged is not None and (group > 1 or following == i):
                flush(rows[4], (i + 1) * hidden, hidden, ring, like)
                begin = i + group
            i += group
    return i


@njit(**PLAIN)
def forward_task(rows, widened, i, end, how, ragged, lag, like, one):
    x, gamma, beta, eps, y, mean, rstd = rows
    held = elements(x), elements(gamma), elements(beta), eps, elements(y), elements(mean), elements(rstd)
    i = _forward_rows(held, widened, i, end, how, ragged, lag, like, one)
    if height(like) > 1:
        _forward_rows(held, None, i, end, how, ragged, None, one, one)
    fence()


@njit(**PLAIN)
def forward_serial(rows, kept, how, widened, ragged, lag, like):
    """All rows, by a single task; kept: the buffers of `numba_scratch.of_forward`."""
    like, one = by_parity(like), by_parity(zeros(rows[0], 1))
    forward_task(rows, _kept(kept, int64(0), widened), int64(0), rows[-1].size, how, ragged, lag, like, one)


@njit(**PLAIN)
def backward_serial(rows, scratch, how, widened, ragged, lag, recentre, like):
    """As `forward_serial`; scratch: the arrays of `numba_scratch` that follow gamma."""
    like, one = by_parity(like), by_parity(zeros(rows[0], 1))
    sums, levels, parts, copies = scratch
    widened = _widened(parts[0], widened, rows[4].size)
    given = rows, sums, (int64(0), sums.shape[0]), levels[0], parts[0], copies[0], how
    backward_task(*given, widened, ragged, lag, recentre, like, one)


@njit(**PLAIN)
def _kept(kept, task, widened):
    """A task's buffer for z of a row in the dtype of the sums; None if it has none."""
    if widened is None:
        return None
    return elements(kept[task])


@njit(**PLAIN)
def _widened(part, widened, columns):
    """The buffers for z and dy of a row in the dtype of the sums; None if there are none."""
    if widened is None:
        return None
    return elements(part_row(part, 2, 4, columns)), elements(part_row(part, 3, 4, columns))


@njit(**PLAIN)
def forward_pieces(task, work, rows, kept, how, widened, ragged, lag, like):
    """All pieces of the rows that a task takes; work: the pieces' bounds, and the counters of those taken."""
    like, one, span = by_parity(like), by_parity(zeros(rows[0], 1)), next_piece(*work, task)
    count, units, widened = rows[-1].size, work[0][-1, -1], _kept(kept, task, widened)
    while span[0] < span[1]:
        begin, end = span[0] * count // units, span[1] * count // units
        forward_task(rows, widened, begin, end, how, ragged, lag, like, one)
        span = next_piece(*work, task)


@njit(**PLAIN)
def backward_pieces(task, work, rows, scratch, how, widened, ragged, lag, recentre, like):
    """As `forward_pieces` and `backward_serial`."""
    like, one, span = by_parity(like), by_parity(zeros(rows[0], 1)), next_piece(*work, task)
    sums, levels, parts, copies = scratch
    part = parts[task]
    widened = _widened(part, widened, rows[4].size)
    while span[0] < span[1]:
        given = rows, sums, span, levels[task], part, copies[task], how
        backward_task(*given, widened, ragged, lag, recentre, like, one)
        span = next_piece(*work, task)
