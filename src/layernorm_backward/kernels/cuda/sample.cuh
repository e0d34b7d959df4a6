// A number near a row's mean, about which the row is centred before it is summed.
#pragma once
#include "team.cuh"

// The mean of a row's first elements, as many as the team has lanes in a warp. Where the row is shorter, each of its
// first 2^k elements serves several lanes. The mean of equal elements is exact.
template <class T, class M>
struct Sample {
    using A = sum_t<T>;
    static constexpr int lanes = M::team < WARP ? M::team : WARP;
    int column;

    DEVICE explicit Sample(int hidden) {
        const int count = hidden < lanes ? power_of_two(hidden) : lanes;
        column = thread_index() & (count - 1);
    }
    // A lane's element, as it is stored: nothing waits for this load yet.
    DEVICE T element(const T* row) const { return row[column]; }

    template <int N>
    DEVICE static void mean(const T (&elements)[N], A (&means)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) means[i] = rounded_product(A(widen(elements[i])), A(1) / lanes);
        add_lanes(means, lanes);
    }
};
