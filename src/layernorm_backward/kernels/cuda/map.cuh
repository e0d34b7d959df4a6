// How threads are mapped to rows. A team is the threads that share a row: some lanes of a warp, a warp, a block, or a
// cluster of blocks, each of which has a slice of the row. A team's threads take the slice's 16-byte chunks in turn.
#pragma once
#include "primitives.cuh"

constexpr int WARP = 32;

template <int THREADS, int BLOCKS, int CLUSTER, int TEAM, int CHUNKS, int ROWS, bool RING, int LIE>
struct Map {
    static constexpr int threads = THREADS;  // of a block
    static constexpr int blocks = BLOCKS;    // on a multiprocessor at once: bounds the registers
    static constexpr int cluster = CLUSTER;  // blocks that share a row
    static constexpr int team = TEAM;        // threads of a block that share a row
    static constexpr int chunks = CHUNKS;    // that a thread holds of a row, at most
    static constexpr int rows = ROWS;        // that a team loads before it computes on them
    static constexpr bool ring = RING;       // bulk copies load rows into shared memory, several in advance
    static constexpr bool full = LIE < 0;    // every thread has `chunks` whole chunks of every row
    static constexpr bool ragged = LIE > 0;  // rows do not all begin and end at multiples of 16 bytes
    static constexpr bool apart = LIE > 1;   // ragged, and arrays differ in alignment modulo 16 bytes
    static constexpr int teams = THREADS / TEAM;
    static_assert((TEAM & (TEAM - 1)) == 0 && (CLUSTER & (CLUSTER - 1)) == 0, "sums meet in pairs");
    static_assert(TEAM == THREADS || (TEAM <= WARP && CLUSTER == 1), "one team meets in a block's shared memory");
};

// Which clusters process which rows. The first `lead` clusters, as many as run at once, take the first `shared` rows in
// turn. Of the later clusters, each 2^together_bits have `group` consecutive rows, which they take in turn.
struct Sharing {
    int lead, together_bits;
    int64 shared, group;
};

// The rows that this thread's team shares with others.
template <class M>
struct Portion {
    int64 first, rows;  // first <= i < first + rows
    int team, teams;

    DEVICE Portion(int64 all, const Sharing& how) : first(0), rows(how.shared), team(block_index() / M::cluster) {
        teams = how.lead;
        if (team >= how.lead) {
            const int later = team - how.lead;
            teams = 1 << how.together_bits;
            first = how.shared + (later >> how.together_bits) * how.group;
            rows = first + how.group < all ? how.group : all - first;
            team = later & (teams - 1);
        }
        teams *= M::teams;
        team *= M::teams;
        if (M::teams > 1) team += thread_index() / M::team;  // else uniform over the block, visibly to the compiler
    }
};
