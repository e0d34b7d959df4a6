// The forward pass: y, mean and rstd, in one read of x.
#pragma once
#include "formulas.cuh"
#include "ring.cuh"
#include "sample.cuh"
#include "team.cuh"

// y of N elements of a row; gamma and beta of their columns are arrays or of type Over.
template <class A, int N, class V>
DEVICE void normalize(const A (&xs)[N], const V& gamma, const V& beta, A centre, A rstd, A offset, A (&y)[N]) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
        y[e] = multiply_add(gamma[e], multiply_add(xs[e] - centre, rstd, offset), beta[e]);
    }
}

// gamma and beta of all columns of a thread: in the storage dtype where the wider sum_t would need more registers than
// a thread has, by estimate. Rows are Held or Local.
template <class T, class G, class M>
struct ScaleShift {
    using A = sum_t<T>;
    static constexpr int words = M::chunks * 4 * (2 * sizeof(A) / sizeof(T) + (M::ring ? 0 : M::rows));
    static constexpr bool stored = (words + 24) * M::threads * M::blocks > 65536;
    struct {
        Over<T, G, stored> gamma, beta;
    } chunks[M::chunks];
    struct {
        A gamma[1], beta[1];
    } edges[Share<T, M>::room];

    DEVICE ScaleShift(const Share<T, M>& share, const G* gamma, const G* beta) {
        share.each_chunk([&](int c, int64 at) {
            chunks[c].gamma.load(gamma + at);
            chunks[c].beta.load(beta + at);
        });
        share.each_edge([&](int k, int at) {
            edges[k].gamma[0] = widen(gamma[at]);
            edges[k].beta[0] = widen(beta[at]);
        });
    }
    DEVICE void compute_anew() {
#pragma unroll
        for (auto& one : chunks) {
            one.gamma.compute_anew();
            one.beta.compute_anew();
        }
    }
    template <class Row>
    DEVICE void normalize(const Share<T, M>& share, const Row& x, A centre, A rstd, A offset, T* y) const {
        share.each_chunk([&](int c, int64 at) {
            A xs[LANES<T>], results[LANES<T>];
            unpack<T>(x.chunk(c, at), xs);
            ::normalize(xs, chunks[c].gamma, chunks[c].beta, centre, rstd, offset, results);
            store_quad(y + at, pack<T>(results));
        });
        share.each_edge([&](int k, int at) {
            const A xs[1] = {widen(x.edge(k, at))};
            A result[1];
            ::normalize(xs, edges[k].gamma, edges[k].beta, centre, rstd, offset, result);
            y[at] = narrowed<T>(result[0]);
        });
    }
};

// Adds z = x - centre and z*z to their sums.
template <class A, int N>
DEVICE void add_powers(const A (&xs)[N], A centre, A* sums) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
        const A z = xs[e] - centre;
        sums[0] += z;
        sums[1] = multiply_add(z, z, sums[1]);
    }
}

// A thread's sums of z and z*z over its part of a row.
template <class T, class M, class Row>
DEVICE void sum_powers(const Share<T, M>& share, const Row& x, sum_t<T> centre, sum_t<T>* sums) {
    sums[0] = sums[1] = 0;
    share.each_chunk([&](int c, int64 at) {
        sum_t<T> xs[LANES<T>];
        unpack<T>(x.chunk(c, at), xs);
        add_powers(xs, centre, sums);
    });
    share.each_edge([&](int k, int at) {
        const sum_t<T> xs[1] = {widen(x.edge(k, at))};
        add_powers(xs, centre, sums);
    });
}

// One thread of a team writes the mean and rstd of its rows.
template <class M>
DEVICE bool writes_statistics() {
    return thread_index() % M::team == 0 && (M::cluster == 1 || cluster_rank() == 0);
}

// One round of rows in registers; WHOLE: every team has M::rows rows in it.
template <bool WHOLE, class T, class G, class M>
DEVICE void normalize_round(const Rounds<M>& round, Share<T, M>& share, ScaleShift<T, G, M>& kept,
                            const Sample<T, M>& sample, Meeting<sum_t<T>, M>& meeting, const T* x, sum_t<T> eps,
                            T* y, sum_t<T>* mean, sum_t<T>* rstd) {
    using A = sum_t<T>;
    const A part = A(1) / share.hidden;
    const auto has = [&](int r) { return WHOLE || round.has(r); };
    share.compute_anew();
    Held<T, M> xs[M::rows];
    T elements[M::rows];
    A centres[M::rows], sums[2 * M::rows];
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const T* row = x + (round.at + r * round.step);
        elements[r] = has(r) ? sample.element(row) : T();
        if (!has(r)) continue;
        share.each_chunk([&](int c, int64 at) { xs[r].load_chunk(c, row + at); });
        share.each_edge([&](int k, int at) { xs[r].edges[k] = row[at]; });
    }
    const auto add_rows = [&] {
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            sums[2 * r] = sums[2 * r + 1] = 0;
            if (has(r)) sum_powers(share, xs[r], centres[r], sums + 2 * r);
        }
        meeting.add(sums);
    };
    sample.mean(elements, centres);
    add_rows();
    bool far = false;
#pragma unroll
    for (int r = 0; r < M::rows; ++r) far |= has(r) && Statistics<A>(sums + 2 * r, part).far();
    if (any_of_warp(far)) {
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const Statistics<A> row(sums + 2 * r, part);
            if (row.far()) centres[r] += row.delta;
        }
        add_rows();
    }
    share.compute_anew();
    kept.compute_anew();
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const Statistics<A> row(sums + 2 * r, part);
        const A scale = row.rstd(eps);
        if (has(r) && writes_statistics<M>()) {
            mean[round.row + r * round.teams] = centres[r] + row.delta;
            rstd[round.row + r * round.teams] = scale;
        }
        if (has(r)) {  // z is recomputed: there are no registers to keep it
            kept.normalize(share, xs[r], centres[r], scale, -row.delta * scale, y + (round.at + r * round.step));
        }
    }
}

// Rows in registers: a team loads M::rows rows, then computes on them.
template <class T, class M, class G>
DEVICE void normalize_registers(Share<T, M> share, const G* gamma, const G* beta, const T* x, sum_t<T> eps,
                                T* y, sum_t<T>* mean, sum_t<T>* rstd, const Portion<M>& mine) {
    MEETING(sum_t<T>, M, meeting);
    ScaleShift<T, G, M> kept(share, gamma, beta);
    const Sample<T, M> sample(share.hidden);
    Rounds<M> round(mine, share.hidden);
    for (; M::rows > 1 && round.all(); round.advance()) {
        normalize_round<true>(round, share, kept, sample, meeting, x, eps, y, mean, rstd);
    }
    for (; round.any(); round.advance()) {
        normalize_round<false>(round, share, kept, sample, meeting, x, eps, y, mean, rstd);
    }
}

// Rows in a ring of stages, from which each thread reads its chunks twice. Before a thread waits for the other threads'
// sums of a row, it finishes the previous row.
template <class T, class M, class G>
DEVICE void normalize_ring(Share<T, M> share, const G* gamma, const G* beta, const T* x, sum_t<T> eps, T* y,
                           sum_t<T>* mean, sum_t<T>* rstd, const Portion<M>& mine, int stages, int slot) {
    using A = sum_t<T>;
    static_assert(M::rows == 1 && M::teams == 1, "a ring brings one row to a block");
    MEETING(A, M, meeting);
    MEETING(A, M, second);
    const int64 stride = mine.teams, begin = mine.team, rows = mine.rows;
    const Slices<T, M> slices(x, rows, share, begin);
    Ring<T, M, 1> ring(&slices, stages, slot);
    if (thread_index() == 0) {
        for (int s = 0; s < stages && begin + s * stride < rows; ++s) ring.fill(s, begin + s * stride);
    }
    const Sample<T, M> sample(share.hidden);
    ScaleShift<T, G, M> kept(share, gamma, beta);
    const A part = A(1) / share.hidden;
    const int64 step = stride * share.hidden;
    const T* source = x + begin * share.hidden;
    T* result = y + begin * share.hidden - step;  // of the previous row
    T next[1];
    if (begin < rows) next[0] = sample.element(source);
    A centre = 0;
    Local<T, M> before = {nullptr};  // the previous row, to which `centre` belongs
    for (int64 i = begin; begin < rows; i += stride) {
        const bool more = i < rows;
        share.compute_anew();
        A sums[2], its_centre[1] = {0};
        if (more) {
            sample.mean(next, its_centre);
            ring.wait();
            sum_powers(share, ring.local(0), its_centre[0], sums);
            meeting.give(sums);
        }
        if (i != begin) meeting.take(sums);
        source += step;
        if (i + stride < rows) next[0] = sample.element(source);
        if (i != begin) {
            if (Statistics<A>(sums, part).far()) {
                centre += Statistics<A>(sums, part).delta;
                sum_powers(share, before, centre, sums);
                second.add(sums);
            }
            const Statistics<A> row(sums, part);
            const A scale = row.rstd(eps);
            if (writes_statistics<M>()) {
                mean[i - stride] = centre + row.delta;
                rstd[i - stride] = scale;
            }
            share.compute_anew();
            kept.compute_anew();
            kept.normalize(share, before, centre, scale, -row.delta * scale, result);
        }
        if (!more) break;
        meeting.template meet<2>();
        ring.refill(i, stride, rows, i != begin);
        before = ring.local(0);
        centre = its_centre[0];
        result += step;
        ring.advance();
    }
}

// The map with fewer resident blocks where gamma and beta are wider than x and take twice the registers.
template <class T, class G, class M>
struct Roomy : M {
    static constexpr int blocks = sizeof(G) > sizeof(T) && M::blocks > 4 && !M::ring ? 4 : M::blocks;
};

// x, y (rows, hidden); gamma, beta (hidden,); mean, rstd (rows,). The number of teams of a portion is a multiple of the
// number of phases that rows have.
template <class T, class G, class M, class R = Roomy<T, G, M>>
KERNEL(R) forward(const T* x, const G* gamma, const G* beta, sum_t<T> eps, T* y, sum_t<T>* mean, sum_t<T>* rstd,
                  int64 rows, int hidden, int stages, int slot, int lead, int together_bits, int64 shared,
                  int64 group) {
    const Portion<M> mine(rows, {lead, together_bits, shared, group});
    const int64 skipped = mine.first * hidden;
    const Share<T, M> share(hidden, head_of(y + skipped + static_cast<int64>(mine.team) * hidden));
    x += skipped;
    y += skipped;
    mean += mine.first;
    rstd += mine.first;
    if constexpr (M::ring) {
        normalize_ring(share, gamma, beta, x, eps, y, mean, rstd, mine, stages, slot);
    } else {
        normalize_registers(share, gamma, beta, x, eps, y, mean, rstd, mine);
    }
    if constexpr (M::cluster > 1) cluster_barrier();  // no block ends while another reads its shared memory
}
