// Sums over the threads of a team, in a fixed order; every thread gets the same bits.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

// Room for four sums, of which at most three are used, so that they are moved in 16-byte pieces.
template <class A>
struct alignas(16) Parts {
    A value[4];
};

// Sums over groups of `width` lanes, a power of two.
template <class A, int N>
DEVICE void add_lanes(A (&values)[N], int width) {
#pragma unroll
    for (int mask = 1; mask < WARP; mask *= 2) {
        if (mask >= width) break;
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += shuffle_xor(values[i], mask);
    }
}

DEVICE void cluster_barrier() {
    cluster_arrive();
    cluster_wait();
}

// A team's reduction, through shared memory where the team is more than a warp. Such a sum has three steps, between
// which a thread may do other work, even that of the previous sum:
//     give    write each warp's part
//     meet    a barrier: no thread passes before all have given
//     take    add up all parts
// Two sets of parts alternate. A set is written again only after the meeting in between, which no thread reaches before
// it has taken from the set.
template <class A, class M>
struct Meeting {
    static constexpr int warps = M::team > WARP ? M::team / WARP : 1;
    Parts<A> *parts, *blocks;
    int turn = 0;

    DEVICE Meeting(Parts<A>* parts_, Parts<A>* blocks_) : parts(parts_), blocks(blocks_) {}

    // All three steps, for N <= 4 sums; where the team is part of a warp, N is any number.
    template <int N>
    DEVICE void add(A (&values)[N]) {
        if constexpr (M::team > WARP || M::cluster > 1) {
            give(values);
            meet<N>();
            take(values);
        } else {
            add_lanes(values, M::team);
        }
    }
    template <int N>
    DEVICE void give(A (&values)[N]) {
        static_assert(N <= 4, "parts hold four numbers");
        add_lanes(values, WARP);
        if (thread_index() % WARP == 0) put(parts[turn * warps + thread_index() / WARP], values);
    }
    template <int N>
    DEVICE void meet() {
        block_barrier();
        if constexpr (M::cluster > 1) {
            if (thread_index() < WARP) {
                A values[N];
                add_parts(turn, values);
                if (thread_index() == 0) {
                    put(blocks[turn], values);
                    order_before_arrival();
                }
            }
            cluster_arrive();
        }
        turn ^= 1;
    }
    template <int N>
    DEVICE void take(A (&values)[N]) {
        const int set = turn ^ 1;
        if constexpr (M::cluster > 1) {
            cluster_wait();
            add_blocks(set, values);
        } else {
            add_parts(set, values);
        }
    }

  private:
    template <int N>
    DEVICE void add_parts(int set, A (&values)[N]) const {
        get(parts[set * warps + thread_index() % warps], values);
        add_lanes(values, warps);
    }
    template <int N>
    DEVICE void add_blocks(int set, A (&values)[N]) const {
        Parts<A> other;
        const Quad* at = reinterpret_cast<const Quad*>(blocks + set);
        Quad* to = reinterpret_cast<Quad*>(&other);
#pragma unroll
        for (int i = 0; i < static_cast<int>((N * sizeof(A) + 15) / 16); ++i) {
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
