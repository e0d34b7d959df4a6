// The forward pass: y, mean and rstd, in one read of x.
#pragma once
#include "formulas.cuh"
#include "ring.cuh"
#include "sample.cuh"
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
    // Writes chunk c of a row's y.
    DEVICE void normalize(int c, const Span<T>& span, const A (&zs)[LANES<T>], A rstd, A offset, T* y) const {
        A results[LANES<T>];
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) {
            results[e] = multiply_add(gamma[c][e], multiply_add(zs[e], rstd, offset), beta[c][e]);
        }
        store_chunk<M, T>(y, span, results);
    }
};

// z of a chunk, 0 where an element is not the row's.
template <class M, class T>
DEVICE void centred(Quad x, const Span<T>& span, sum_t<T> centre, sum_t<T> (&zs)[LANES<T>]) {
    numbers<M, T>(x, span, centre, zs);
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) zs[e] -= centre;
}

// Adds z and z*z of a chunk to their sums.
template <class A, int N>
DEVICE void add_powers(const A (&zs)[N], A* sums) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
        sums[0] += zs[e];
        sums[1] = multiply_add(zs[e], zs[e], sums[1]);
    }
}

// One thread of a team writes what there is one of for each row.
template <class M>
DEVICE bool writes_statistics() {
    return thread_index() % M::team == 0 && (M::cluster == 1 || cluster_rank() == 0);
}

// One round of rows in registers; WHOLE where every team has M::rows of them.
template <bool WHOLE, class T, class M>
DEVICE void normalize_round(const Rounds<M>& round, Share<T, M>& share, const Affine<T, M>& affine,
                            const Sample<T, M>& sample, Meeting<sum_t<T>, M>& meeting, const Array<T>& x, sum_t<T> eps,
                            T* y, sum_t<T>* mean, sum_t<T>* rstd) {
    using A = sum_t<T>;
    const A part = A(1) / share.hidden;
    const auto has = [&](int r) { return WHOLE || round.has(r); };
    share.compute_anew();
    Quad xs[M::rows][M::chunks];
    T elements[M::rows];
    A centres[M::rows], sums[2 * M::rows];
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const T* row = x.begin + (round.at + r * round.step);
        elements[r] = has(r) ? sample.element(row) : T();
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (!span.empty() && has(r)) xs[r][c] = load_chunk<M>(x, row, span);
        }
    }
    const auto add_rows = [&] {
#pragma unroll
        for (int r = 0; r < M::rows; ++r) {
            sums[2 * r] = sums[2 * r + 1] = 0;
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (span.empty() || !has(r)) continue;
                A zs[LANES<T>];
                centred<M, T>(xs[r][c], span, centres[r], zs);
                add_powers(zs, sums + 2 * r);
            }
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
#pragma unroll
    for (int r = 0; r < M::rows; ++r) {
        const Statistics<A> row(sums + 2 * r, part);
        const A scale = row.rstd(eps);
        if (has(r) && writes_statistics<M>()) {
            mean[round.row + r * round.teams] = centres[r] + row.delta;
            rstd[round.row + r * round.teams] = scale;
        }
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty() || !has(r)) continue;
            A zs[LANES<T>];  // computed anew, for want of registers to keep them
            centred<M, T>(xs[r][c], span, centres[r], zs);
            affine.normalize(c, span, zs, scale, -row.delta * scale, y + (round.at + r * round.step));
        }
    }
}

// Rows in registers: a team loads M::rows rows, then works on them.
template <class T, class M, class G>
DEVICE void normalize_registers(Share<T, M> share, const G* gamma, const G* beta, const Array<T>& x, sum_t<T> eps,
                                T* y, sum_t<T>* mean, sum_t<T>* rstd, const Portion<M>& mine) {
    MEETING(sum_t<T>, M, meeting);
    const Affine<T, M> affine(share, gamma, beta);
    const Sample<T, M> sample(share.hidden);
    Rounds<M> round(mine, share.hidden);
    for (; M::rows > 1 && round.all(); round.advance()) {
        normalize_round<true>(round, share, affine, sample, meeting, x, eps, y, mean, rstd);
    }
    for (; round.any(); round.advance()) {
        normalize_round<false>(round, share, affine, sample, meeting, x, eps, y, mean, rstd);
    }
}

// Rows in a ring of stages, from which each thread reads its chunks twice. Before it waits for the other threads' sums
// of a row, it works on the row before.
template <class T, class M, class G>
DEVICE void normalize_ring(Share<T, M> share, const G* gamma, const G* beta, const Array<T>& x, sum_t<T> eps, T* y,
                           sum_t<T>* mean, sum_t<T>* rstd, const Portion<M>& mine, int stages, int slot) {
    using A = sum_t<T>;
    static_assert(M::rows == 1 && M::teams == 1, "a ring brings one row to a block");
    MEETING(A, M, meeting);
    MEETING(A, M, second);
    const int64 stride = mine.teams, begin = mine.team, rows = mine.rows;
    const Slices<T, M> slices(x, share, begin);
    Ring<T, M, 1> ring(&slices, stages, slot);
    if (thread_index() == 0) {
        for (int s = 0; s < stages && begin + s * stride < rows; ++s) ring.fill(s, begin + s * stride);
    }
    const Sample<T, M> sample(share.hidden);
    const Affine<T, M> affine(share, gamma, beta);
    const A part = A(1) / share.hidden;
    const auto add_row = [&](const T* xs, A centre, A* sums) {
        sums[0] = sums[1] = 0;
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            const Span<T> span = share.span(c);
            if (span.empty()) continue;
            A zs[LANES<T>];
            centred<M, T>(local_chunk<M>(xs, span), span, centre, zs);
            add_powers(zs, sums);
        }
    };
    const int64 step = stride * share.hidden;
    const T* source = x.begin + begin * share.hidden;
    T* result = y + begin * share.hidden - step;  // of the row before
    T next[1];
    if (begin < rows) next[0] = sample.element(source);
    A centre = 0;
    const T* before = nullptr;  // the row before, and centre is its
    for (int64 i = begin; begin < rows; i += stride) {
        const bool more = i < rows;
        share.compute_anew();
        A sums[2], its_centre[1] = {0};
        if (more) {
            sample.mean(next, its_centre);
            ring.wait();
            add_row(ring.local(0), its_centre[0], sums);
            meeting.give(sums);
        }
        if (before) meeting.take(sums);
        source += step;
        if (i + stride < rows) next[0] = sample.element(source);
        if (before) {
            if (Statistics<A>(sums, part).far()) {
                centre += Statistics<A>(sums, part).delta;
                add_row(before, centre, sums);
                second.add(sums);
            }
            const Statistics<A> row(sums, part);
            const A scale = row.rstd(eps);
            if (writes_statistics<M>()) {
                mean[i - stride] = centre + row.delta;
                rstd[i - stride] = scale;
            }
            share.compute_anew();
#pragma unroll
            for (int c = 0; c < M::chunks; ++c) {
                const Span<T> span = share.span(c);
                if (span.empty()) continue;
                A zs[LANES<T>];
                centred<M, T>(local_chunk<M>(before, span), span, centre, zs);
                affine.normalize(c, span, zs, scale, -row.delta * scale, result);
            }
        }
        if (!more) break;
        meeting.template meet<2>();
        ring.refill(i, stride, rows, before != nullptr);
        before = ring.local(0);
        centre = its_centre[0];
        result += step;
        ring.advance();
    }
}

// x, y (rows, hidden); gamma, beta (hidden,); mean, rstd (rows,). The teams of a portion are a multiple of the number
// of phases that rows have.
template <class T, class G, class M>
KERNEL(M) forward(const T* x, const G* gamma, const G* beta, sum_t<T> eps, T* y, sum_t<T>* mean, sum_t<T>* rstd,
                  int64 rows, int hidden, int stages, int slot, int lead, int together, int64 shared, int64 group) {
    const Portion<M> mine(rows, {lead, together, shared, group});
    const int64 skipped = mine.first * hidden;
    const Share<T, M> share(hidden, phase_of(y + skipped + static_cast<int64>(mine.team) * hidden));
    const Array<T> xs(x + skipped, mine.rows, hidden);
    y += skipped;
    mean += mine.first;
    rstd += mine.first;
    if constexpr (M::ring) {
        normalize_ring(share, gamma, beta, xs, eps, y, mean, rstd, mine, stages, slot);
    } else {
        normalize_registers(share, gamma, beta, xs, eps, y, mean, rstd, mine);
    }
    if constexpr (M::cluster > 1) cluster_barrier();  // none ends while another reads its shared memory
}
