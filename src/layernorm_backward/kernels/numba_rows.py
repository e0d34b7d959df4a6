"""The arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

Forward, about a shift s (the mean of the row's first line), which stands in for the mean until it is known:

    z = x - s     delta = mean(z)     var = mean(z**2) - delta**2     x_hat = (z - delta) * rstd

Where the shift is more than a standard deviation off, the row is swept again about s + delta. Backward, about
the rounded mean m, equation (14): z = x - m, delta = mean(z), sum(g*(z - delta)) = sum(g*z) - delta*sum(g).
So no error grows with mean/std, and re-centring takes no sweep of its own. Each row needs two sweeps, one for
its sums and one for its results. The second of one group runs in one loop with the first of the next, so that
memory is read and written all the time, and what is read ahead is asked for `ahead` elements before.

A result goes past the caches in whole lines at multiples of LINE bytes, from element `first` of the array on,
wherever a row begins; the parts of lines at a row's ends are stored as usual. `first` is -1 where all are.

x, dy, dx, y are flat, (N*D,); gamma, beta and `part`, the running sums of dgamma and dbeta, are padded to
whole lines, and by one more where rows begin within a line. A row's sums are added in the lanes of a line,
BLOCK lines at a time; lanes are added in pairs.
"""

from numba import njit

from layernorm_backward.kernels.lanes import (
    add_rows,
    choose,
    each,
    exceeds,
    keep,
    line,
    load,
    prefetch,
    prefetch_to_write,
    put_each,
    put_line,
    repeat,
    root,
    spread,
    store,
    stream,
    total,
    width,
)

BLOCK = 16  # lines added one after the other: more let squares of rows on a coarse grid round one way
EARLY = 4  # rows before one that begins within a line, this line is asked for: stores wait in turn
INLINE = {"forceinline": True, "error_model": "numpy"}
PLAIN = {"error_model": "numpy"}


@njit(**INLINE)
def _project(x, dy, gamma, at, j, hidden, count, mean, recentre, sums):
    """Add line j of a group to its sums of z, g and g*z."""
    z = keep(load(x, at + j, hidden, count, mean) - mean, count)
    g = load(dy, at + j, hidden, count, mean) * repeat(line(gamma, j, mean), mean)
    sum_z = sums[0] if recentre is None else sums[0] + z
    return sum_z, sums[1] + g, sums[2] + g * z


@njit(**INLINE)
def _differentiate(dy, x, gamma, dx, part, at, j, hidden, count, row, streamed, recentre):
    """Write line j of a group's dx, and add its dgamma and dbeta to `part`."""
    mean, delta, rstd, c1, c2 = row
    d = load(dy, at + j, hidden, count, mean)
    z = load(x, at + j, hidden, count, mean) - mean
    if recentre is not None:
        z = z - delta
    x_hat = z * rstd
    result = rstd * (repeat(line(gamma, j, mean), mean) * d - c1 - x_hat * c2)
    if streamed:
        stream(result, dx, at + j, hidden)
    else:
        store(result, dx, at + j, hidden, count)
    half = part.size // 2
    put_line(add_rows(line(part, j, mean), keep(d * x_hat, count)), part, j)
    put_line(add_rows(line(part, half + j, mean), d), part, half + j)


@njit(**PLAIN)
def backward_sums(rows, i, hidden, recentre, like):
    """The sums of z, g and g*z of the group at row i; rows are dy, x, mean, rstd, gamma, dx."""
    dy, x, mean, _, gamma, _ = rows
    lanes, at, centre = width(like), i * hidden, each(mean, i, like)
    sums = (like, like, like)
    for start in range(0, hidden, BLOCK * lanes):
        part = (like, like, like)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            part = _project(x, dy, gamma, at, j, hidden, lanes, centre, recentre, part)
        if end % lanes:
            part = _project(x, dy, gamma, at, end - end % lanes, hidden, end % lanes, centre, recentre, part)
        sums = (sums[0] + part[0], sums[1] + part[1], sums[2] + part[2])
    return sums


@njit(**INLINE)
def _coefficients(sums, mean, rstd, i, hidden, recentre, like):
    """mean, delta, rstd, c1 and c2 of the group at row i, one number a row in all of its lanes."""
    size = spread(hidden, like)
    scale = each(rstd, i, like)
    sum_g = total(sums[1])
    if recentre is None:
        return each(mean, i, like), like, scale, sum_g / size, total(sums[2]) * scale / size
    delta = total(sums[0]) / size
    c2 = (total(sums[2]) - delta * sum_g) * scale / size
    return each(mean, i, like), delta, scale, sum_g / size, c2


@njit(**INLINE)
def _whole_lines(first, at, hidden, lanes):
    """Columns between which the row at element `at` has whole lines to store."""
    head = min((first - at) % lanes, hidden) if first >= 0 else 0
    return head, head + (hidden - head) // lanes * lanes


@njit(**PLAIN)
def backward_group(rows, part, i, following, sums, hidden, ahead, first, recentre, like):
    """Results of the group at row i, whose sums are known; returns the sums of that at row `following`."""
    dy, x, mean, rstd, gamma, dx = rows
    lanes, at, then = width(like), i * hidden, following * hidden
    head, tail = _whole_lines(first, at, hidden, lanes)
    row = _coefficients(sums, mean, rstd, i, hidden, recentre, like)
    centre = each(mean, following, like)
    sums = (like, like, like)
    for start in range(0, hidden, BLOCK * lanes):
        block = (like, like, like)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            if ahead:
                prefetch(x, then + j + ahead, hidden, like)
                prefetch(dy, then + j + ahead, hidden, like)
            if head + j < tail:
                _differentiate(dy, x, gamma, dx, part, at, head + j, hidden, lanes, row, first >= 0, recentre)
            block = _project(x, dy, gamma, then, j, hidden, lanes, centre, recentre, block)
        if end % lanes:
            j, count = end - end % lanes, end % lanes
            block = _project(x, dy, gamma, then, j, hidden, count, centre, recentre, block)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    if head or tail < hidden:
        prefetch_to_write(dx, at + EARLY * hidden, hidden, like)
    for j, count in ((0, head), (tail, hidden - tail)):
        if count:
            _differentiate(dy, x, gamma, dx, part, at, j, hidden, count, row, False, recentre)
    return sums


@njit(**INLINE)
def _moment(x, at, j, hidden, count, shift, sums):
    """Add line j of a group to its sums of z and z**2."""
    z = keep(load(x, at + j, hidden, count, shift) - shift, count)
    return sums[0] + z, sums[1] + z * z


@njit(**INLINE)
def _normalize(x, gamma, beta, y, at, j, hidden, count, row, streamed):
    """Write line j of a group's y."""
    shift, delta, rstd = row
    x_hat = (load(x, at + j, hidden, count, shift) - shift - delta) * rstd
    result = repeat(line(gamma, j, shift), shift) * x_hat + repeat(line(beta, j, shift), shift)
    if streamed:
        stream(result, y, at + j, hidden)
    else:
        store(result, y, at + j, hidden, count)


@njit(**INLINE)
def first_shift(x, i, hidden, like):
    """The mean of the first line of each row of the group at row i; its first element where D is shorter."""
    count = width(like) if hidden >= width(like) else 1
    return total(load(x, i * hidden, hidden, count, like) * spread(1 / count, like))


@njit(**PLAIN)
def forward_sums(rows, i, hidden, shift, like):
    """The shift of the group at row i, and its sums of z and z**2."""
    x = rows[0]
    lanes, at = width(like), i * hidden
    sums = (like, like)
    for start in range(0, hidden, BLOCK * lanes):
        block = (like, like)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = _moment(x, at, j, hidden, lanes, shift, block)
        if end % lanes:
            block = _moment(x, at, end - end % lanes, hidden, end % lanes, shift, block)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return shift, sums[0], sums[1]


@njit(**INLINE)
def _delta_and_variance(state, size):
    delta = total(state[1]) / size
    return delta, total(state[2]) / size - delta * delta


@njit(**INLINE)
def _statistics(rows, i, hidden, state, like):
    """shift, delta and rstd of the group at row i; its mean and rstd are written."""
    eps, mean, rstd = rows[3], rows[5], rows[6]
    size, shift = spread(hidden, like), state[0]
    delta, var = _delta_and_variance(state, size)
    if exceeds(delta * delta, var):
        shift = choose(delta * delta, var, shift + delta, shift)
        delta, var = _delta_and_variance(forward_sums(rows, i, hidden, shift, like), size)
    var = choose(like - var, like, like, var)
    scale = spread(1.0, like) / root(var + spread(eps, like))
    put_each(shift + delta, mean, i)
    put_each(scale, rstd, i)
    return shift, delta, scale


@njit(**PLAIN)
def forward_group(rows, i, following, state, hidden, ahead, first, like):
    """y, mean and rstd of the group at row i, whose shift and sums are its state; returns `following`'s.

    rows are x, gamma, beta, eps, y, mean, rstd.
    """
    x, gamma, beta, _, y, _, _ = rows
    lanes, at, then = width(like), i * hidden, following * hidden
    head, tail = _whole_lines(first, at, hidden, lanes)
    row = _statistics(rows, i, hidden, state, like)
    shift = first_shift(x, following, hidden, like)
    sums = (like, like)
    for start in range(0, hidden, BLOCK * lanes):
        block = (like, like)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            if ahead:
                prefetch(x, then + j + ahead, hidden, like)
            if head + j < tail:
                _normalize(x, gamma, beta, y, at, head + j, hidden, lanes, row, first >= 0)
            block = _moment(x, then, j, hidden, lanes, shift, block)
        if end % lanes:
            block = _moment(x, then, end - end % lanes, hidden, end % lanes, shift, block)
        sums = (sums[0] + block[0], sums[1] + block[1])
    if head or tail < hidden:
        prefetch_to_write(y, at + EARLY * hidden, hidden, like)
    for j, count in ((0, head), (tail, hidden - tail)):
        if count:
            _normalize(x, gamma, beta, y, at, j, hidden, count, row, False)
    return shift, sums[0], sums[1]
