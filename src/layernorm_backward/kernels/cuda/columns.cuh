// The sum of the blocks' partial sums, column by column, always in the same order.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

constexpr int ACROSS = 32, DOWN = 16;  // of a block's threads: columns, and rows that are summed side by side
using ColumnMap = Map<ACROSS * DOWN, 2, 1, ACROSS, 1, 1, false, 0>;

// partials (count, 2, hidden); dgamma, dbeta (hidden,). No rows give zeros.
template <class A, class G, class M>
KERNEL(M) add_partials(const A* partials, G* dgamma, G* dbeta, int64 count, int hidden) {
    SHARED(A, held, ACROSS * DOWN);
    const int64 width = 2 * static_cast<int64>(hidden);
    const int64 column = static_cast<int64>(block_index()) * ACROSS + thread_index() % ACROSS;
    const int down = thread_index() / ACROSS;
    A sum = 0;
    if (column < width) {
#pragma unroll 4
        for (int64 i = down; i < count; i += DOWN) sum += partials[i * width + column];
    }
    held[thread_index()] = sum;
    block_barrier();
    if (down > 0 || column >= width) return;
    for (int i = 1; i < DOWN; ++i) sum += held[i * ACROSS + thread_index()];
    narrow(sum, column < hidden ? dgamma[column] : dbeta[column - hidden]);
}
