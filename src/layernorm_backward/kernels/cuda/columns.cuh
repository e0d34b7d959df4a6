// The sum of the blocks' partial sums, column by column, in a fixed order.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

constexpr int ACROSS = 32, DOWN = 16;  // a block's threads: over columns, and over rows of a column
constexpr int AHEAD = 16;              // loads that a thread has in flight at once
using ColumnMap = Map<ACROSS * DOWN, 2, 1, ACROSS, 1, 1, false, 0>;

// partials (count, 2, hidden); dgamma, dbeta (hidden,). count = 0 gives zeros. ROWS threads of a block sum one column.
template <class A, class G, class M, int ROWS = DOWN>
KERNEL(M) add_partials(const A* partials, G* dgamma, G* dbeta, int64 count, int hidden) {
    constexpr int columns = M::threads / ROWS;
    SHARED(A, held, M::threads);
    const int64 width = 2 * static_cast<int64>(hidden);
    const int64 column = static_cast<int64>(block_index()) * columns + thread_index() % columns;
    const int down = thread_index() / columns;
    A sum = 0;
    wait_for_launch_before();
    for (int64 i = down; i < count; i += AHEAD * ROWS) {
        A parts[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int64 row = i + k * ROWS;
            parts[k] = row < count && column < width ? partials[row * width + column] : A(0);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) sum += parts[k];
    }
    held[thread_index()] = sum;
    for (int half = ROWS / 2; half > 0; half /= 2) {
        block_barrier();
        if (down < half) held[thread_index()] = sum += held[thread_index() + half * columns];
    }
    if (down > 0 || column >= width) return;
    narrow(sum, column < hidden ? dgamma[column] : dbeta[column - hidden]);
}
