// Which elements of a row belong to a thread, and how they are loaded and stored.
//
// The chunks of a row are its 16-byte pieces at which the result is aligned to 16 bytes. Before the first and after the
// last chunk are fewer elements than a chunk has: the row's edges, which threads take one by one. All rows of a team
// have the same head, the number of elements before the first chunk.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

// The number of elements from the last multiple of 16 bytes to `at` (the phase), and from `at` to the next multiple.
template <class T>
DEVICE int phase_of(const T* at) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(at) % 16 / sizeof(T));
}
template <class T>
DEVICE int head_of(const T* at) {
    return (LANES<T> - phase_of(at)) % LANES<T>;
}
template <class T>
DEVICE bool aligned(const T* at) {
    return reinterpret_cast<unsigned long long>(at) % 16 == 0;
}

// The columns of a thread in the rows of its team.
template <class T, class M>
struct Share {
    static constexpr int step = M::team * LANES<T>;  // columns from one chunk of a thread to its next
    static constexpr int edges = M::ragged ? (2 * (LANES<T> - 1) + M::team - 1) / M::team : 0;  // of a thread, at most
    static constexpr int room = edges ? edges : 1;
    int hidden, first, last;  // columns first <= i < last belong to this block
    int column, limit;        // of the thread's first chunk; chunks begin before the limit
    int edge[room];           // columns; >= `last` where the thread has fewer edges

    // `before` elements precede the first chunk, if the row is as long.
    DEVICE Share(int hidden_, int before) : hidden(hidden_) {
        const int head = M::ragged ? before : 0;
        const int all = (hidden - head) / LANES<T>;
        const int slice = (all + M::cluster - 1) / M::cluster;
        const int rank = M::cluster > 1 ? cluster_rank() : 0;
        const int begin = rank * slice < all ? rank * slice : all;
        const int end = begin + slice < all ? begin + slice : all;
        const int thread = thread_index() % M::team;
        column = head + (begin + thread) * LANES<T>;
        limit = head + end * LANES<T>;
        first = rank == 0 ? 0 : head + begin * LANES<T>;
        last = rank == M::cluster - 1 || limit > hidden ? hidden : limit;
        const int heads = rank == 0 ? head : 0;
#pragma unroll
        for (int k = 0; k < edges; ++k) {
            const int i = M::team - 1 - thread + k * M::team;  // last threads first: they may have fewer chunks
            edge[k] = i < heads ? i : limit + i - heads;
        }
    }
    DEVICE void compute_anew() { column = anew(column); }

    // Calls use(number, first column) for each chunk of the thread.
    template <class F>
    DEVICE void each_chunk(const F& use) const {
#pragma unroll
        for (int c = 0; c < M::chunks; ++c) {
            if (M::full || column + c * step < limit) use(c, static_cast<int64>(column) + c * step);
        }
    }
    // Calls use(number, column) for each edge of the thread.
    template <class F>
    DEVICE void each_edge(const F& use) const {
#pragma unroll
        for (int k = 0; k < edges; ++k) {
            if (edge[k] < last) use(k, edge[k]);
        }
    }
};

// A thread's part of a row, in registers.
template <class T, class M>
struct Held {
    Quad chunks[M::chunks];
    T edges[Share<T, M>::room];

    DEVICE void load_chunk(int c, const T* from) {
        chunks[c] = !M::apart || aligned(from) ? load_quad(from) : gathered(from);
    }
    DEVICE Quad chunk(int c, int64) const { return chunks[c]; }
    DEVICE T edge(int k, int) const { return edges[k]; }
};

// The rounds of a team that holds rows in registers: M::rows at a time, every `teams`-th row of its portion.
template <class M>
struct Rounds {
    int64 rows, first, row, at, step;  // of row r: row + r*teams, and its first element at + r*step
    int teams, left;                   // row r is there if r*teams < left

    DEVICE Rounds(const Portion<M>& mine, int hidden)
        : rows(mine.rows), first(0), row(mine.team), teams(mine.teams) {
        step = static_cast<int64>(teams) * hidden;
        at = row * hidden;
        look();
    }
    // Whether any team of the portion has rows left, and whether all teams have M::rows: uniform over a warp.
    DEVICE bool any() const { return first < rows; }
    DEVICE bool all() const { return first + M::rows * static_cast<int64>(teams) <= rows; }
    DEVICE bool has(int r) const { return r * teams < left; }
    DEVICE void advance() {
        first += M::rows * static_cast<int64>(teams);
        row += M::rows * static_cast<int64>(teams);
        at += M::rows * step;
        look();
    }

  private:
    DEVICE void look() {
        constexpr int64 many = 1 << 30;
        left = static_cast<int>(rows - row < many ? rows - row : many);
    }
};

// The elements of a vector (hidden,) in the columns of a chunk.
template <class T, class G>
DEVICE void load_vector(const G* from, sum_t<T> (&to)[LANES<T>]) {
    static_assert(LANES<G> <= LANES<T>, "gamma and beta are no narrower than x");
    if (!aligned(from)) {
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) to[e] = widen(from[e]);
        return;
    }
#pragma unroll
    for (int q = 0; q < LANES<T> / LANES<G>; ++q) {
        sum_t<G> some[LANES<G>];
        unpack<G>(load_quad(from + q * LANES<G>), some);
#pragma unroll
        for (int e = 0; e < LANES<G>; ++e) to[q * LANES<G> + e] = some[e];
    }
}

// gamma or beta in the columns of a chunk, in registers through all rows: as numbers, or in the storage dtype, which
// may take fewer registers.
template <class T, class G, bool STORED>
struct Over {
    sum_t<T> numbers[LANES<T>];

    DEVICE void load(const G* from) { load_vector<T>(from, numbers); }
    DEVICE void compute_anew() {}
    DEVICE sum_t<T> operator[](int e) const { return numbers[e]; }
};
template <class T, class G>
struct Over<T, G, true> {
    Quad quads[LANES<T> / LANES<G>];

    DEVICE void load(const G* from) {
        const bool whole = aligned(from);
#pragma unroll
        for (int q = 0; q < LANES<T> / LANES<G>; ++q) {
            quads[q] = whole ? load_quad(from + q * LANES<G>) : gathered(from + q * LANES<G>);
        }
    }
    // The numbers are converted from the quads again rather than held in registers.
    DEVICE void compute_anew() {
#pragma unroll
        for (Quad& quad : quads) quad = anew(quad);
    }
    DEVICE sum_t<T> operator[](int e) const {
        sum_t<G> some[LANES<G>];
        unpack<G>(quads[e / LANES<G>], some);
        return some[e % LANES<G>];
    }
};

// Writes the sums of a chunk's columns to their place `to` in a vector (hidden,).
template <class T, class M>
DEVICE void store_vector(const sum_t<T> (&from)[LANES<T>], sum_t<T>* to) {
    constexpr int lanes = LANES<sum_t<T>>;
    if constexpr (M::ragged) {
#pragma unroll
        for (int e = 0; e < LANES<T>; ++e) to[e] = from[e];
    } else {
#pragma unroll
        for (int q = 0; q < LANES<T> / lanes; ++q) {
            sum_t<T> part[lanes];
#pragma unroll
            for (int e = 0; e < lanes; ++e) part[e] = from[q * lanes + e];
            *reinterpret_cast<Quad*>(to + q * lanes) = pack<sum_t<T>>(part);
        }
    }
}
