// The textbook equations as a framework without fusion runs them: each operator is one kernel, whose result is an array
// in global memory. Arrays are (rows, hidden), or (rows,) and (hidden,) for values per row and per column.
#pragma once
#include "columns.cuh"
#include "team.cuh"

constexpr int UNROLL = 4;  // elements that a thread of `combine` loads before it uses the first
using WarpMap = Map<256, 4, 1, 32, 1, 1, false, 0>;
using BlockMap = Map<256, 4, 1, 256, 1, 1, false, 0>;

struct Plus {
    template <class A>
    DEVICE static A of(A a, A b) { return a + b; }
};
struct Minus {
    template <class A>
    DEVICE static A of(A a, A b) { return a - b; }
};
struct Times {
    template <class A>
    DEVICE static A of(A a, A b) { return a * b; }
};

// The column and row of a thread under ColumnMap: blocks go over tiles of ACROSS columns, then over parts of the rows.
struct Tile {
    int64 column;
    int part, parts, down;  // `down`: the thread's row among the DOWN that the block processes at once

    DEVICE Tile(int hidden) {
        const int tiles = (hidden - 1) / ACROSS + 1;
        column = static_cast<int64>(block_index() % tiles) * ACROSS + thread_index() % ACROSS;
        part = block_index() / tiles;
        parts = block_count() / tiles;
        down = thread_index() / ACROSS;
    }
};

// result (rows, hidden) = a F b. Operands are broadcast: _row and _column are their strides, or 0.
template <class F, class X, class Y, class R, class M>
KERNEL(M) combine(const X* a, int a_row, int a_column, const Y* b, int b_row, int b_column, R* result, int64 rows,
                  int hidden) {
    const Tile tile(hidden);
    if (tile.column >= hidden) return;
    const int64 begin = static_cast<int64>(tile.part) * DOWN + tile.down;
    const int64 stride = static_cast<int64>(tile.parts) * DOWN;
    int64 from_a = begin * a_row + tile.column * a_column;
    int64 from_b = begin * b_row + tile.column * b_column;
    int64 to = begin * hidden + tile.column;
#pragma unroll 1
    for (int64 i = begin; i < rows; i += UNROLL * stride) {
        sum_t<R> as[UNROLL], bs[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (i + u * stride < rows) {
                as[u] = widen(a[from_a]);
                bs[u] = widen(b[from_b]);
            }
            from_a += stride * a_row;
            from_b += stride * b_row;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (i + u * stride < rows) narrow(F::of(as[u], bs[u]), result[to]);
            to += stride * hidden;
        }
    }
}

// means (rows,) of terms (rows, hidden). Teams take rows in turn.
template <class T, class M>
KERNEL(M) mean_rows(const T* terms, sum_t<T>* means, int64 rows, int hidden) {
    using A = sum_t<T>;
    MEETING(A, M, meeting);
    const int lane = thread_index() % M::team;
    const Portion<M> mine(rows, {block_count(), 1, rows, 0});
    for (int64 i = mine.team; i < rows; i += mine.teams) {
        const T* row = terms + i * hidden;
        A sum[1] = {0};
#pragma unroll 4
        for (int64 c = lane; c < hidden; c += M::team) sum[0] += widen(row[c]);
        meeting.add(sum);
        if (lane == 0) means[i] = sum[0] / hidden;
    }
}

// rstd (rows,) = 1/sqrt(var + eps).
template <class A, class M>
KERNEL(M) inverse_root(const A* var, A eps, A* rstd, int64 rows) {
    const int64 stride = static_cast<int64>(block_count()) * M::threads;
    for (int64 i = static_cast<int64>(block_index()) * M::threads + thread_index(); i < rows; i += stride) {
        rstd[i] = 1 / square_root(var[i] + eps);
    }
}

// Column sums of terms (rows, hidden) over each part of the rows, written to one half of partials (parts, 2, hidden),
// which begins at `sums`.
template <class T, class M>
KERNEL(M) sum_columns(const T* terms, sum_t<T>* sums, int64 rows, int hidden) {
    using A = sum_t<T>;
    SHARED(A, held, M::threads);
    const Tile tile(hidden);
    const int64 end = rows * (tile.part + 1) / tile.parts;
    A sum = 0;
    if (tile.column < hidden) {
#pragma unroll 4
        for (int64 i = rows * tile.part / tile.parts + tile.down; i < end; i += DOWN) {
            sum += widen(terms[i * hidden + tile.column]);
        }
    }
    held[thread_index()] = sum;
    block_barrier();
    if (tile.down > 0 || tile.column >= hidden) return;
    for (int i = 1; i < DOWN; ++i) sum += held[i * ACROSS + thread_index()];
    sums[tile.part * 2 * static_cast<int64>(hidden) + tile.column] = sum;
}
