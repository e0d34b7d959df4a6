// The forward pass: y, mean and rstd, in one read of x.
#pragma once
#include "formulas.cuh"
#include "ring.cuh"
#include "team.cuh"

// gamma and beta over a thread's chunks.
template <class T, class M>
struct Affine {
    using A = sum_t<T>;
    A gamma[M::chunks][LANES<T>], beta[M::chunks][LANES<T>];

    template <class G>
    DEVICE Affine(const Share<T, M>& share, const G* gamma_, const G* beta_) {
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            load_vector<T>(gamma_, share.span(c), gamma[c]);
            load_vector<T>(beta_, share.span(c), beta[c]);
        }
    }
    DEVICE static void add(const Span<T>& span, Quad x, A first, A& sum) {
        A xs[LANES<T>];
        numbers<M, T>(x, span, first, xs);
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) sum += xs[e] - first;
    }
    DEVICE static void add_about(const Span<T>& span, Quad x, const Centre<T>& about, A* sums) {
        A xs[LANES<T>];
        numbers<M, T>(x, span, 0, xs);
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) {
            const A z = !M::ragged || span.holds(e) ? about.z(xs[e]) : A(0);
            sums[0] += z;
            sums[1] = multiply_add(z, z, sums[1]);
        }
    }
    DEVICE void normalize(int c, const Span<T>& span, Quad x, const Centre<T>& about, const Statistics<A>& row,
                          T* y) const {
        A xs[LANES<T>], results[LANES<T>];
        unpack<T>(x, xs);
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) {
            const A x_hat = multiply_add(about.z(xs[e]), row.rstd, row.offset);
            results[e] = multiply_add(gamma[c][e], x_hat, beta[c][e]);
        }
        store_chunk<M, T>(y, span, results);
    }
};

// One thread of a team writes what there is one of for each row.
template <class M>
DEVICE bool writes_statistics() {
    return thread_index() % M::team == 0 && (M::cluster == 1 || cluster_rank() == 0);
}

// Rows in registers: a team loads M::rows rows, then works on them.
template <class T, class M>
DEVICE void normalize_registers(Share<T, M> share, const Affine<T, M>& affine, const Array<T>& x, sum_t<T> eps, T* y,
                                sum_t<T>* mean, sum_t<T>* rstd, int64 rows) {
    using A = sum_t<T>;
    MEETING(A, M, meeting);
    const A part = A(1) / share.hidden;
    const int64 teams = team_count<M>(), stride = teams * M::rows;
    for (int64 begin = 0; begin < rows; begin += stride) {
        share.compute_anew();
        Quad xs[M::rows][M::chunks];
        A firsts[M::rows], totals[M::rows], sums[2 * M::rows], centres[M::rows], rests[M::rows];
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const int64 i = begin + r * teams + team_index<M>();
            firsts[r] = i < rows ? A(widen(*x.row(i))) : A(0);
            totals[r] = sums[2 * r] = sums[2 * r + 1] = 0;
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (!span.empty() && i < rows) xs[r][c] = load_chunk<M>(x, x.row(i), span);
            }
        }
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const int64 i = begin + r * teams + team_index<M>();
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (!span.empty() && i < rows) affine.add(span, xs[r][c], firsts[r], totals[r]);
            }
        }
        meeting.add(totals);
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const int64 i = begin + r * teams + team_index<M>();
            const Centre<T> about(firsts[r], totals[r], part);
            centres[r] = about.centre;
            rests[r] = about.rest;
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (!span.empty() && i < rows) affine.add_about(span, xs[r][c], about, sums + 2 * r);
            }
        }
        meeting.add(sums);
        share.compute_anew();
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            const int64 i = begin + r * teams + team_index<M>();
            const Centre<T> about{centres[r], rests[r]};
            const Statistics<A> row(about, sums + 2 * r, eps, part);
            if (i < rows && writes_statistics<M>()) {
                mean[i] = row.mean;
                rstd[i] = row.rstd;
            }
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (!span.empty() && i < rows) affine.normalize(c, span, xs[r][c], about, row, y + i * share.hidden);
            }
        }
    }
}

// Rows in a ring of stages, from which each thread reads its chunks three times.
template <class T, class M>
DEVICE void normalize_ring(Share<T, M> share, const Affine<T, M>& affine, const Array<T>& x, sum_t<T> eps, T* y,
                           sum_t<T>* mean, sum_t<T>* rstd, int64 rows, int stages, int slot) {
    using A = sum_t<T>;
    static_assert(M::rows == 1 && M::teams == 1, "a ring brings one row to a block");
    MEETING(A, M, meeting);
    const A part = A(1) / share.hidden;
    const int64 stride = team_count<M>(), begin = team_index<M>();
    const Slices<T, M> slices(x, share, begin);
    Ring<T, M, 1> ring(&slices, stages, slot);
    if (thread_index() == 0) {
        for (int s = 0; s < stages && begin + s * stride < rows; ++s) ring.fill(s, begin + s * stride);
    }
    A next_first = begin < rows ? A(widen(*x.row(begin))) : A(0);
    for (int64 i = begin; i < rows; i += stride) {
        const A first = next_first;
        if (i + stride < rows) next_first = widen(*x.row(i + stride));
        share.compute_anew();
        ring.wait();
        const T* xs = ring.local(0);
        A total[1] = {0}, sums[2] = {0, 0};
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (!span.empty()) affine.add(span, local_chunk<M>(xs, span), first, total[0]);
        }
        meeting.add(total);
        const int64 ahead = i + (stages - 1) * stride;
        if (thread_index() == 0 && i != begin && ahead < rows) ring.fill(ring.previous(), ahead);
        const Centre<T> about(first, total[0], part);
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (!span.empty()) affine.add_about(span, local_chunk<M>(xs, span), about, sums);
        }
        meeting.add(sums);
        share.compute_anew();
        const Statistics<A> row(about, sums, eps, part);
        if (writes_statistics<M>()) {
            mean[i] = row.mean;
            rstd[i] = row.rstd;
        }
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (!span.empty()) affine.normalize(c, span, local_chunk<M>(xs, span), about, row, y + i * share.hidden);
        }
        ring.advance();
    }
}

// x, y (rows, hidden); gamma, beta (hidden,); mean, rstd (rows,). team_count() is a multiple of the number of
// phases that rows have.
template <class T, class G, class M>
KERNEL(M) forward(const T* x, const G* gamma, const G* beta, sum_t<T> eps, T* y, sum_t<T>* mean, sum_t<T>* rstd,
                  int64 rows, int hidden, int stages, int slot) {
    const Share<T, M> share(hidden, phase_of(y + static_cast<int64>(team_index<M>()) * hidden));
    const Affine<T, M> affine(share, gamma, beta);
    const Array<T> xs(x, rows, hidden);
    if constexpr (M::ring) {
        normalize_ring(share, affine, xs, eps, y, mean, rstd, rows, stages, slot);
    } else {
        normalize_registers(share, affine, xs, eps, y, mean, rstd, rows);
    }
    if constexpr (M::cluster > 1) cluster_barrier();  // none ends while another reads its shared memory
}
