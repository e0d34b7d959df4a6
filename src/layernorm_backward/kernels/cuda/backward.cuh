// The backward pass: dx, and of dgamma and dbeta a partial sum a block, in one read of dy and x.
#pragma once
#include "formulas.cuh"
#include "ring.cuh"
#include "team.cuh"

// What a thread keeps through all rows: gamma, and its sums of dy*x_hat and dy.
template <class T, class M>
struct Columns {
    using A = sum_t<T>;
    A gamma[M::chunks][LANES<T>], dgamma[M::chunks][LANES<T>], dbeta[M::chunks][LANES<T>];

    template <class G>
    DEVICE void begin(const Share<T, M>& share, const G* vector) {
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            load_vector<T>(vector, share.span(c), gamma[c]);
#pragma unroll
            for (int e = 0; e < LANES<T>; ++e) dgamma[c][e] = dbeta[c][e] = 0;
        }
    }

    // Adds chunk c of a row to the sums of z (where the row is centred again), g and g*z.
    template <bool CENTRED>
    DEVICE void project(int c, const Span<T>& span, Quad x, Quad dy, A mean, A* sums) const {
        A xs[LANES<T>], dys[LANES<T>];
        numbers<M, T>(x, span, mean, xs);
        numbers<M, T>(dy, span, 0, dys);
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) {
            const A z = xs[e] - mean, g = rounded_product(gamma[c][e], dys[e]);
            if constexpr (CENTRED) sums[0] += z;
            sums[1] += g;
            sums[2] = multiply_add(g, z, sums[2]);
        }
    }

    // Writes chunk c of a row's dx, and adds the row to the sums over rows.
    DEVICE void differentiate(int c, const Span<T>& span, Quad x, Quad dy, const Coefficients<A>& row, T* dx) {
        A xs[LANES<T>], dys[LANES<T>], results[LANES<T>];
        numbers<M, T>(x, span, row.mean, xs);
        numbers<M, T>(dy, span, 0, dys);
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) {
            const A x_hat = multiply_add(xs[e] - row.mean, row.rstd, row.offset);
            const A g = rounded_product(gamma[c][e], dys[e]);
            results[e] = multiply_add(row.slope, x_hat, g + row.shift) * row.rstd;
            dgamma[c][e] = multiply_add(dys[e], x_hat, dgamma[c][e]);
            dbeta[c][e] += dys[e];
        }
        store_chunk<M, T>(dx, span, results);
    }
};

// Sums over columns of one block, to row block_index() of partials: dgamma (hidden,), then dbeta.
template <class T, class M>
DEVICE void store_sums(const Share<T, M>& share, const sum_t<T> (&sums)[M::chunks][LANES<T>], sum_t<T>* to) {
    using A = sum_t<T>;
    if constexpr (M::teams == 1) {
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty()) continue;
            if constexpr (M::ragged) {
#pragma unroll
                for (int e = 0; e < LANES<T>; ++e) {
                    if (span.holds(e)) to[span.column + e] = sums[c][e];
                }
            } else {
#pragma unroll
                for (int q = 0; q < LANES<T> / LANES<A>; ++q) {
                    A part[LANES<A>];
#pragma unroll
                    for (int e = 0; e < LANES<A>; ++e) part[e] = sums[c][q * LANES<A> + e];
                    *reinterpret_cast<Quad*>(to + span.column + q * LANES<A>) = pack<A>(part);
                }
            }
        }
    } else {
        SHARED(A, held, M::threads * M::chunks * LANES<T>);
        const int columns = M::team * M::chunks * LANES<T>;
        A* mine = held + thread_index() / M::team * columns;
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
#pragma unroll
            for (int e = 0; e < LANES<T>; ++e) {
                if (span.holds(e)) mine[span.column + e] = sums[c][e];
            }
        }
        block_barrier();
        for (int column = thread_index(); column < share.hidden; column += M::threads) {
            A total = 0;
            for (int team = 0; team < M::teams; ++team) total += held[team * columns + column];
            to[column] = total;
        }
        block_barrier();
    }
}

// One round of rows in registers; WHOLE where every team has M::rows of them.
template <bool CENTRED, bool WHOLE, class T, class M>
DEVICE void differentiate_round(const Rounds<M>& round, Share<T, M>& share, Columns<T, M>& columns,
                                Meeting<sum_t<T>, M>& meeting, const Array<T>& dy, const Array<T>& x,
                                const sum_t<T>* mean, const sum_t<T>* rstd, T* dx) {
    using A = sum_t<T>;
    const A part = A(1) / share.hidden;
    const auto has = [&](int r) { return WHOLE || round.has(r); };
    share.compute_anew();
    Quad xs[M::rows][M::chunks], dys[M::rows][M::chunks];
    A means[M::rows], rstds[M::rows], sums[3 * M::rows];
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        means[r] = has(r) ? mean[round.row + r * round.teams] : A(0);
        rstds[r] = has(r) ? rstd[round.row + r * round.teams] : A(0);
        sums[3 * r] = sums[3 * r + 1] = sums[3 * r + 2] = 0;
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty() || !has(r)) continue;
            xs[r][c] = load_chunk<M>(x, x.begin + (round.at + r * round.step), span);
            dys[r][c] = load_chunk<M>(dy, dy.begin + (round.at + r * round.step), span);
        }
    }
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty() || !has(r)) continue;
            columns.template project<CENTRED>(c, span, xs[r][c], dys[r][c], means[r], sums + 3 * r);
        }
    }
    meeting.add(sums);
    share.compute_anew();
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const Coefficients<A> row(means[r], rstds[r], sums + 3 * r, part);
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty() || !has(r)) continue;
            columns.differentiate(c, span, xs[r][c], dys[r][c], row, dx + (round.at + r * round.step));
        }
    }
}

// Rows in registers: a team loads M::rows rows, then works on them.
template <bool CENTRED, class T, class M, class G>
DEVICE void differentiate_registers(Share<T, M> share, Columns<T, M>& columns, const G* gamma, const Array<T>& dy,
                                    const Array<T>& x, const sum_t<T>* mean, const sum_t<T>* rstd, T* dx,
                                    const Portion<M>& mine) {
    MEETING(sum_t<T>, M, meeting);
    columns.begin(share, gamma);
    Rounds<M> round(mine, share.hidden);
    for (; M::rows > 1 && round.all(); round.advance()) {
        differentiate_round<CENTRED, true>(round, share, columns, meeting, dy, x, mean, rstd, dx);
    }
    for (; round.any(); round.advance()) {
        differentiate_round<CENTRED, false>(round, share, columns, meeting, dy, x, mean, rstd, dx);
    }
}

// Rows in a ring of stages, from which each thread reads its chunks twice. Before it waits for the other threads' sums
// of a row, it works on the row before.
template <bool CENTRED, class T, class M, class G>
DEVICE void differentiate_ring(Share<T, M> share, Columns<T, M>& columns, const G* gamma, const Array<T>& dy,
                               const Array<T>& x, const sum_t<T>* mean, const sum_t<T>* rstd, T* dx,
                               const Portion<M>& mine, int stages, int slot) {
    using A = sum_t<T>;
    static_assert(M::rows == 1 && M::teams == 1, "a ring brings one row to a block");
    MEETING(A, M, meeting);
    const int64 stride = mine.teams, first = mine.team, rows = mine.rows;
    const Slices<T, M> slices[2] = {{x, share, first}, {dy, share, first}};
    Ring<T, M, 2> ring(slices, stages, slot);
    if (thread_index() == 0) {
        for (int s = 0; s < stages && first + s * stride < rows; ++s) ring.fill(s, first + s * stride);
    }
    columns.begin(share, gamma);
    const A part = A(1) / share.hidden;
    struct Row {
        const T *x, *dy;
        A mean, rstd;
    } row = {nullptr, nullptr, 0, 0}, before = row, next = row;
    if (first < rows) next.mean = mean[first], next.rstd = rstd[first];
    const int64 step = stride * share.hidden;
    T* result = dx + first * share.hidden - step;  // of the row before
    for (int64 i = first; first < rows; i += stride) {
        const bool more = i < rows;
        A sums[3] = {0, 0, 0};
        share.compute_anew();
        if (more) {
            row = next;
            ring.wait();
            row.x = ring.local(0);
            row.dy = ring.local(1);
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (span.empty()) continue;
                columns.template project<CENTRED>(c, span, local_chunk<M>(row.x, span),
                                                  local_chunk<M>(row.dy, span), row.mean, sums);
            }
            meeting.give(sums);
        }
        if (before.x) meeting.take(sums);
        if (i + stride < rows) next.mean = mean[i + stride], next.rstd = rstd[i + stride];
        if (before.x) {
            share.compute_anew();
            const Coefficients<A> its(before.mean, before.rstd, sums, part);
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (span.empty()) continue;
                columns.differentiate(c, span, local_chunk<M>(before.x, span), local_chunk<M>(before.dy, span), its,
                                      result);
            }
        }
        if (!more) break;
        meeting.template meet<3>();
        ring.refill(i, stride, rows, before.x != nullptr);
        before = row;
        result += step;
        ring.advance();
    }
}

// dy, x, dx (rows, hidden); mean, rstd (rows,); gamma (hidden,); partials (teams, 2, hidden) with a row for each
// block, or for each cluster. The teams of a portion are a multiple of the number of phases that rows have. Without
// CENTRED the saved mean is taken for the mean, as most implementations do.
template <class T, class G, class M, bool CENTRED = true>
KERNEL(M) backward(const T* dy, const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, const G* gamma, T* dx,
                   sum_t<T>* partials, int64 rows, int hidden, int stages, int slot, int lead, int together,
                   int64 shared, int64 group) {
    const Portion<M> mine(rows, {lead, together, shared, group});
    const int64 skipped = mine.first * hidden;
    const Share<T, M> share(hidden, phase_of(dx + skipped + static_cast<int64>(mine.team) * hidden));
    Columns<T, M> columns;
    const Array<T> dys(dy + skipped, mine.rows, hidden), xs(x + skipped, mine.rows, hidden);
    mean += mine.first;
    rstd += mine.first;
    dx += skipped;
    if constexpr (M::ring) {
        differentiate_ring<CENTRED>(share, columns, gamma, dys, xs, mean, rstd, dx, mine, stages, slot);
    } else {
        differentiate_registers<CENTRED>(share, columns, gamma, dys, xs, mean, rstd, dx, mine);
    }
    sum_t<T>* to = partials + static_cast<int64>(block_index() / M::cluster) * 2 * hidden;
    store_sums<T, M>(share, columns.dgamma, to);
    store_sums<T, M>(share, columns.dbeta, to + hidden);
    if constexpr (M::cluster > 1) cluster_barrier();  // none ends while another reads its shared memory
}
