// How threads are laid over rows. A team shares a row: some lanes of a warp, a warp, a block, or a cluster of
// blocks, each of which has a slice of the row. A team's threads take the slice's 16-byte chunks in turn.
#pragma once
#include "primitives.cuh"

template <int THREADS, int BLOCKS, int CLUSTER, int TEAM, int CHUNKS, int ROWS, bool RING, int LIE>
struct Map {
    static constexpr int threads = THREADS;  // of a block
    static constexpr int blocks = BLOCKS;    // on a multiprocessor at once: bounds the registers
    static constexpr int cluster = CLUSTER;  // blocks that share a row
    static constexpr int team = TEAM;        // threads of a block that share a row
    static constexpr int chunks = CHUNKS;    // a thread holds of a row, at most
    static constexpr int rows = ROWS;        // that a team loads before it works on them
    static constexpr bool ring = RING;       // rows come by bulk copies, some ahead
    static constexpr bool full = LIE < 0;    // every thread has `chunks` whole chunks of every row
    static constexpr bool ragged = LIE > 0;  // rows do not all begin and end at multiples of 16 bytes
    static constexpr bool apart = LIE > 1;   // nor do those of one array begin where those of another do
    static constexpr int teams = THREADS / TEAM;
};

// The team of this thread among all of the grid, and how many there are.
template <class M>
DEVICE int team_index() {
    const int first = block_index() / M::cluster * M::teams;
    return M::teams > 1 ? first + thread_index() / M::team : first;  // one for all threads, as the compiler must see
}
template <class M>
DEVICE int team_count() {
    return block_count() / M::cluster * M::teams;
}
