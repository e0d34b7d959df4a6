// Sums over the threads of a team, in a fixed order; every thread gets them, with the same bits.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

// Three numbers and nothing, so that they travel as 16-byte pieces.
template <class A>
struct alignas(16) Parts {
    A value[4];
};

constexpr int WARP = 32;

// Over groups of `width` lanes, a power of two.
template <class A, int N>
DEVICE void add_lanes(A (&values)[N], int width) {
#pragma unroll
    for (int mask = 1; mask < WARP; mask *= 2) {
        if (mask >= width) break;
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += shuffle_xor(values[i], mask);
    }
}

// Shared memory of a team's sums. Two sets take turns, so that one barrier a sum is enough: a set is written
// again only after the barrier of the sum between, which no thread passes before it has read the set.
template <class A, class M>
struct Meeting {
    static constexpr int warps = M::team > WARP ? M::team / WARP : 1;
    Parts<A> *parts, *blocks;
    int turn = 0;

    DEVICE Meeting(Parts<A>* parts_, Parts<A>* blocks_) : parts(parts_), blocks(blocks_) {}

    // N <= 4 sums over the team; where the team is part of a warp, N is any number.
    template <int N>
    DEVICE void add(A (&values)[N]) {
        add_lanes(values, M::team < WARP ? M::team : WARP);
        if constexpr (M::team > WARP || M::cluster > 1) {
            static_assert(N <= 4, "parts hold four numbers");
            Parts<A>* set = parts + turn * warps;
            if (thread_index() % WARP == 0) put(set[thread_index() / WARP], values);
            block_barrier();
            get(set[thread_index() % warps], values);
            add_lanes(values, warps);
            if constexpr (M::cluster > 1) add_blocks(values);
            turn ^= 1;
        }
    }

  private:
    template <int N>
    DEVICE void add_blocks(A (&values)[N]) {
        Parts<A>* mine = blocks + turn;
        if (thread_index() == 0) put(*mine, values);
        cluster_barrier();
        Parts<A> other;
        const Quad* at = reinterpret_cast<const Quad*>(mine);
        Quad* to = reinterpret_cast<Quad*>(&other);
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(Parts<A>) / 16); ++i) {
            to[i] = cluster_load(at + i, thread_index() % M::cluster);
        }
        get(other, values);
        add_lanes(values, M::cluster);
    }
    template <int N>
    DEVICE static void put(Parts<A>& to, const A (&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) to.value[i] = values[i];
    }
    template <int N>
    DEVICE static void get(const Parts<A>& from, A (&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = from.value[i];
    }
};

#define MEETING(A, M, name)                                          \
    SHARED(Parts<A>, name##_parts, 2 * (Meeting<A, M>::warps));      \
    SHARED(Parts<A>, name##_blocks, 2);                              \
    Meeting<A, M> name(name##_parts, name##_blocks)
