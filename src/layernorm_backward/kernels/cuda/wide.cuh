// Rows that are too long to be kept on the chip: x and dy are read once more.
#pragma once
#include "formulas.cuh"
#include "sample.cuh"

constexpr int WIDE_COLUMNS = 4;  // of a thread
using WideMap = Map<512, 2, 1, 512, WIDE_COLUMNS, 1, false, 0>;

// x, y (rows, hidden); gamma, beta (hidden,); mean, rstd (rows,). Blocks take rows in turn.
template <class T, class G, class M>
KERNEL(M) forward_wide(const T* x, const G* gamma, const G* beta, sum_t<T> eps, T* y, sum_t<T>* mean, sum_t<T>* rstd,
                       int64 rows, int hidden) {
    using A = sum_t<T>;
    MEETING(A, M, meeting);
    const A share = A(1) / hidden;
    const Sample<T, M> sample(hidden);
    for (int64 i = block_index(); i < rows; i += block_count()) {
        const T* row = x + i * hidden;
        const T element[1] = {sample.element(row)};
        A centre[1], sums[2];
        sample.mean(element, centre);
        for (int sweep = 0;; ++sweep) {
            sums[0] = sums[1] = 0;
            for (int c = thread_index(); c < hidden; c += M::threads) {
                const A z = widen(row[c]) - centre[0];
                sums[0] += z;
                sums[1] = multiply_add(z, z, sums[1]);
            }
            meeting.add(sums);
            if (sweep == 1 || !Statistics<A>(sums, share).far()) break;
            centre[0] += Statistics<A>(sums, share).delta;
        }
        const Statistics<A> its(sums, share);
        const A scale = its.rstd(eps), offset = -its.delta * scale;
        if (thread_index() == 0) {
            mean[i] = centre[0] + its.delta;
            rstd[i] = scale;
        }
        for (int c = thread_index(); c < hidden; c += M::threads) {
            const A x_hat = multiply_add(widen(row[c]) - centre[0], scale, offset);
            narrow(multiply_add(A(widen(gamma[c])), x_hat, A(widen(beta[c]))), y[i * hidden + c]);
        }
    }
}

// coefficients (rows, 3): offset, slope and shift of each row, as in Coefficients. Blocks take rows in turn.
template <class T, class G, class M>
KERNEL(M) project_wide(const T* dy, const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, const G* gamma,
                       sum_t<T>* coefficients, int64 rows, int hidden) {
    using A = sum_t<T>;
    MEETING(A, M, meeting);
    for (int64 i = block_index(); i < rows; i += block_count()) {
        A sums[3] = {0, 0, 0};
        for (int c = thread_index(); c < hidden; c += M::threads) {
            const A z = widen(x[i * hidden + c]) - mean[i];
            const A g = rounded_product(A(widen(gamma[c])), A(widen(dy[i * hidden + c])));
            sums[0] += z;
            sums[1] += g;
            sums[2] = multiply_add(g, z, sums[2]);
        }
        meeting.add(sums);
        const Coefficients<A> row(mean[i], rstd[i], sums, A(1) / hidden);
        if (thread_index() == 0) {
            coefficients[3 * i] = row.offset;
            coefficients[3 * i + 1] = row.slope;
            coefficients[3 * i + 2] = row.shift;
        }
    }
}

// dx (rows, hidden), partials (parts, 2, hidden). Blocks go over tiles of columns, then over parts of the rows.
template <class T, class G, class M>
KERNEL(M) differentiate_wide(const T* dy, const T* x, const sum_t<T>* mean, const sum_t<T>* rstd, const G* gamma,
                             const sum_t<T>* coefficients, T* dx, sum_t<T>* partials, int64 rows, int hidden,
                             int parts) {
    using A = sum_t<T>;
    constexpr int width = M::threads * M::chunks;
    const int tiles = (hidden + width - 1) / width, tile = block_index() % tiles, part = block_index() / tiles;
    A gammas[M::chunks], dgamma[M::chunks], dbeta[M::chunks];
#pragma unroll
    for (int k = 0; k < M::chunks; ++k) {
        const int c = tile * width + k * M::threads + thread_index();
        gammas[k] = c < hidden ? A(widen(gamma[c])) : A(0);
        dgamma[k] = dbeta[k] = 0;
    }
    for (int64 i = rows * part / parts; i < rows * (part + 1) / parts; ++i) {
        const A centre = mean[i], scale = rstd[i];
        const A offset = coefficients[3 * i], slope = coefficients[3 * i + 1], shift = coefficients[3 * i + 2];
#pragma unroll
        for (int k = 0; k < M::chunks; ++k) {
            const int c = tile * width + k * M::threads + thread_index();
            if (c >= hidden) continue;
            const A d = widen(dy[i * hidden + c]);
            const A x_hat = multiply_add(widen(x[i * hidden + c]) - centre, scale, offset);
            narrow(multiply_add(slope, x_hat, rounded_product(gammas[k], d) + shift) * scale, dx[i * hidden + c]);
            dgamma[k] = multiply_add(d, x_hat, dgamma[k]);
            dbeta[k] += d;
        }
    }
    A* to = partials + static_cast<int64>(part) * 2 * hidden;
#pragma unroll
    for (int k = 0; k < M::chunks; ++k) {
        const int c = tile * width + k * M::threads + thread_index();
        if (c >= hidden) continue;
        to[c] = dgamma[k];
        to[hidden + static_cast<int64>(c)] = dbeta[k];
    }
}
