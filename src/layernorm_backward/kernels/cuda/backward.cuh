// The backward pass: dx, and one partial sum of dgamma and of dbeta per block, in one read of dy and x.
#pragma once
#include "formulas.cuh"
#include "ring.cuh"
#include "team.cuh"

enum { DGAMMA, DBETA };

// What a thread keeps of N columns through all rows: gamma, and its sums of dy*x_hat and dy.
template <class A, int N>
struct Columns {
    A gamma[N], sums[2][N];

    DEVICE Columns() {
#pragma unroll
        for (int e = 0; e < N; ++e) sums[DGAMMA][e] = sums[DBETA][e] = 0;
    }
    // Adds the terms of these columns to a row's sums of z (where the row is re-centred), g and g*z.
    template <bool CENTRED>
    DEVICE void project(const A (&xs)[N], const A (&dys)[N], A mean, A* to) const {
#pragma unroll
        for (int e = 0; e < N; ++e) {
            const A z = xs[e] - mean, g = rounded_product(gamma[e], dys[e]);
            if constexpr (CENTRED) to[0] += z;
            to[1] += g;
            to[2] = multiply_add(g, z, to[2]);
        }
    }
    // Computes dx of a row in these columns and adds the row to the sums over rows.
    DEVICE void differentiate(const A (&xs)[N], const A (&dys)[N], const Coefficients<A>& row, A (&dx)[N]) {
#pragma unroll
        for (int e = 0; e < N; ++e) {
            const A x_hat = multiply_add(xs[e] - row.mean, row.rstd, row.offset);
            dx[e] = multiply_add(row.slope, x_hat, multiply_add(gamma[e], dys[e], row.shift)) * row.scale;
            sums[DGAMMA][e] = multiply_add(dys[e], x_hat, sums[DGAMMA][e]);
            sums[DBETA][e] += dys[e];
        }
    }
};

// gamma and the partial sums of all columns of a thread. Rows are Held or Local.
template <class T, class M>
struct ThreadColumns {
    using A = sum_t<T>;
    Columns<A, LANES<T>> chunks[M::chunks];
    Columns<A, 1> edges[Share<T, M>::room];

    template <class G>
    DEVICE void begin(const Share<T, M>& share, const G* gamma) {
        share.each_chunk([&](int c, int64 at) { load_vector<T>(gamma + at, chunks[c].gamma); });
        share.each_edge([&](int k, int at) { edges[k].gamma[0] = widen(gamma[at]); });
    }
    template <bool CENTRED, class Row>
    DEVICE void project(const Share<T, M>& share, const Row& x, const Row& dy, A mean, A* sums) const {
        share.each_chunk([&](int c, int64 at) {
            A xs[LANES<T>], dys[LANES<T>];
            unpack<T>(x.chunk(c, at), xs);
            unpack<T>(dy.chunk(c, at), dys);
            chunks[c].template project<CENTRED>(xs, dys, mean, sums);
        });
        share.each_edge([&](int k, int at) {
            const A xs[1] = {widen(x.edge(k, at))}, dys[1] = {widen(dy.edge(k, at))};
            edges[k].template project<CENTRED>(xs, dys, mean, sums);
        });
    }
    template <class Row>
    DEVICE void differentiate(const Share<T, M>& share, const Row& x, const Row& dy, const Coefficients<A>& row,
                              T* dx) {
        share.each_chunk([&](int c, int64 at) {
            A xs[LANES<T>], dys[LANES<T>], results[LANES<T>];
            unpack<T>(x.chunk(c, at), xs);
            unpack<T>(dy.chunk(c, at), dys);
            chunks[c].differentiate(xs, dys, row, results);
            store_quad(dx + at, pack<T>(results));
        });
        share.each_edge([&](int k, int at) {
            const A xs[1] = {widen(x.edge(k, at))}, dys[1] = {widen(dy.edge(k, at))};
            A result[1];
            edges[k].differentiate(xs, dys, row, result);
            dx[at] = narrowed<T>(result[0]);
        });
    }
};

// Writes a block's sums over rows to two vectors (hidden,): dgamma, then dbeta.
template <class T, class M>
DEVICE void store_sums(const Share<T, M>& share, const ThreadColumns<T, M>& kept, sum_t<T>* to) {
    using A = sum_t<T>;
    constexpr int width = M::team * (M::chunks * LANES<T> + Share<T, M>::edges);
    SHARED(A, held, M::teams == 1 ? 1 : M::teams * width);
    A* mine = held + thread_index() / M::team * width;
#pragma unroll
    for (int which = DGAMMA; which <= DBETA; ++which) {
        if constexpr (M::teams == 1) {
            share.each_chunk([&](int c, int64 at) { store_vector<T, M>(kept.chunks[c].sums[which], to + at); });
            share.each_edge([&](int k, int at) { to[at] = kept.edges[k].sums[which][0]; });
        } else {
            share.each_chunk([&](int c, int64 at) {
#pragma unroll
                for (int e = 0; e < LANES<T>; ++e) mine[at + e] = kept.chunks[c].sums[which][e];
            });
            share.each_edge([&](int k, int at) { mine[at] = kept.edges[k].sums[which][0]; });
            block_barrier();
            for (int column = thread_index(); column < share.hidden; column += M::threads) {
                A total = 0;
                for (int team = 0; team < M::teams; ++team) total += held[team * width + column];
                to[column] = total;
            }
            block_barrier();
        }
        to += share.hidden;
    }
}

// A thread's part of a round of rows, in registers.
template <class T, class M>
struct Loaded {
    using A = sum_t<T>;
    Held<T, M> x[M::rows], dy[M::rows];
    A mean[M::rows], rstd[M::rows];

    // Whether a thread has registers for two of these, by estimate, beside what it keeps.
    static constexpr int words = M::chunks * (2 * 8 * M::rows + 12 * sizeof(A) / sizeof(T));
    static constexpr bool twice = (words + 24) * M::threads * M::blocks <= 65536;

    // WHOLE: every team has M::rows rows in this round.
    template <bool WHOLE>
    DEVICE void load(const Rounds<M>& round, Share<T, M>& share, const T* from_dy, const T* from_x, const A* means,
                     const A* rstds) {
        share.compute_anew();
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const bool has = WHOLE || round.has(r);
            mean[r] = has ? means[round.row + r * round.teams] : A(0);
            rstd[r] = has ? rstds[round.row + r * round.teams] : A(0);
            if (!has) continue;
            const int64 row = round.at + r * round.step;
            share.each_chunk([&](int c, int64 at) {
                x[r].load_chunk(c, from_x + row + at);
                dy[r].load_chunk(c, from_dy + row + at);
            });
            share.each_edge([&](int k, int at) {
                x[r].edges[k] = from_x[row + at];
                dy[r].edges[k] = from_dy[row + at];
            });
        }
    }
};

template <bool CENTRED, bool WHOLE, class T, class M>
DEVICE void differentiate_round(const Loaded<T, M>& rows, const Rounds<M>& round, Share<T, M>& share,
                                ThreadColumns<T, M>& kept, Meeting<sum_t<T>, M>& meeting, T* dx) {
    using A = sum_t<T>;
    const A part = A(1) / share.hidden;
    const auto has = [&](int r) { return WHOLE || round.has(r); };
    A sums[3 * M::rows];
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        sums[3 * r] = sums[3 * r + 1] = sums[3 * r + 2] = 0;
        if (has(r)) kept.template project<CENTRED>(share, rows.x[r], rows.dy[r], rows.mean[r], sums + 3 * r);
    }
    meeting.add(sums);
    share.compute_anew();
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const Coefficients<A> row(rows.mean[r], rows.rstd[r], sums + 3 * r, part);
        if (has(r)) kept.differentiate(share, rows.x[r], rows.dy[r], row, dx + (round.at + r * round.step));
    }
}

// Rows in registers: a team loads M::rows rows, then computes on them. Where registers suffice, it loads the next ones
// first.
template <bool CENTRED, class T, class M, class G>
DEVICE void differentiate_registers(Share<T, M> share, ThreadColumns<T, M>& kept, const G* gamma, const T* dy,
                                    const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, T* dx,
                                    const Portion<M>& mine) {
    MEETING(sum_t<T>, M, meeting);
    kept.begin(share, gamma);
    Rounds<M> round(mine, share.hidden);
    Loaded<T, M> now, next;
    if constexpr (Loaded<T, M>::twice) {
        if (round.all()) now.template load<true>(round, share, dy, x, mean, rstd);
        while (round.all()) {
            Rounds<M> following = round;
            following.advance();
            if (following.all()) next.template load<true>(following, share, dy, x, mean, rstd);
            differentiate_round<CENTRED, true>(now, round, share, kept, meeting, dx);
            round = following;
            now = next;
        }
    } else {
        for (; M::rows > 1 && round.all(); round.advance()) {
            now.template load<true>(round, share, dy, x, mean, rstd);
            differentiate_round<CENTRED, true>(now, round, share, kept, meeting, dx);
        }
    }
    for (; round.any(); round.advance()) {
        now.template load<false>(round, share, dy, x, mean, rstd);
        differentiate_round<CENTRED, false>(now, round, share, kept, meeting, dx);
    }
}

// Rows in a ring of stages, from which each thread reads its chunks twice. Before a thread waits for the other threads'
// sums of a row, it finishes the previous row.
template <bool CENTRED, class T, class M, class G>
DEVICE void differentiate_ring(Share<T, M> share, ThreadColumns<T, M>& kept, const G* gamma, const T* dy,
                               const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, T* dx,
                               const Portion<M>& mine, int stages, int slot) {
    using A = sum_t<T>;
    static_assert(M::rows == 1 && M::teams == 1, "a ring brings one row to a block");
    MEETING(A, M, meeting);
    const int64 stride = mine.teams, first = mine.team, rows = mine.rows;
    const Slices<T, M> slices[2] = {{x, rows, share, first}, {dy, rows, share, first}};
    Ring<T, M, 2> ring(slices, stages, slot);
    if (thread_index() == 0) {
        for (int s = 0; s < stages && first + s * stride < rows; ++s) ring.fill(s, first + s * stride);
    }
    kept.begin(share, gamma);
    const A part = A(1) / share.hidden;
    struct Row {
        Local<T, M> x, dy;
        A mean, rstd;
    } row = {{nullptr}, {nullptr}, 0, 0}, before = row, next = row;
    if (first < rows) next.mean = mean[first], next.rstd = rstd[first];
    const int64 step = stride * share.hidden;
    T* result = dx + first * share.hidden - step;  // of the previous row
    for (int64 i = first; first < rows; i += stride) {
        const bool more = i < rows;
        A sums[3] = {0, 0, 0};
        share.compute_anew();
        if (more) {
            row = next;
            ring.wait();
            row.x = ring.local(0);
            row.dy = ring.local(1);
            kept.template project<CENTRED>(share, row.x, row.dy, row.mean, sums);
            meeting.give(sums);
        }
        if (before.x.begin) meeting.take(sums);
        if (i + stride < rows) next.mean = mean[i + stride], next.rstd = rstd[i + stride];
        if (before.x.begin) {
            share.compute_anew();
            const Coefficients<A> its(before.mean, before.rstd, sums, part);
            kept.differentiate(share, before.x, before.dy, its, result);
        }
        if (!more) break;
        meeting.template meet<3>();
        ring.refill(i, stride, rows, before.x.begin != nullptr);
        before = row;
        result += step;
        ring.advance();
    }
}

// dy, x, dx (rows, hidden); mean, rstd (rows,); gamma (hidden,); partials (teams, 2, hidden) with one row per block, or
// per cluster. The number of teams of a portion is a multiple of the number of phases that rows have. Without CENTRED
// the rounded mean that was saved is taken as exact, as most implementations do.
template <class T, class G, class M, bool CENTRED = true>
KERNEL(M) backward(const T* dy, const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, const G* gamma, T* dx,
                   sum_t<T>* partials, int64 rows, int hidden, int stages, int slot, int lead,
                   int together_bits, int64 shared, int64 group) {
    let_next_launch_begin();
    const Portion<M> mine(rows, {lead, together_bits, shared, group});
    const int64 skipped = mine.first * hidden;
    const Share<T, M> share(hidden, head_of(dx + skipped + static_cast<int64>(mine.team) * hidden));
    ThreadColumns<T, M> kept;
    dy += skipped;
    x += skipped;
    dx += skipped;
    mean += mine.first;
    rstd += mine.first;
    if constexpr (M::ring) {
        differentiate_ring<CENTRED>(share, kept, gamma, dy, x, mean, rstd, dx, mine, stages, slot);
    } else {
        differentiate_registers<CENTRED>(share, kept, gamma, dy, x, mean, rstd, dx, mine);
    }
    sum_t<T>* to = partials + static_cast<int64>(block_index() / M::cluster) * 2 * hidden;
    store_sums(share, kept, to);
    if constexpr (M::cluster > 1) cluster_barrier();  // no block ends while another reads its shared memory
}
