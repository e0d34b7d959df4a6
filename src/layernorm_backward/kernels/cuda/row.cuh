// The chunks of a row that belong to a thread, and their elements in memory.
//
// Chunks lie where 16-byte stores of the result may go, so the first of a row may begin before it and the last
// may end after it: `phase` counts the elements before. All rows of a team have the same phase.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

// Elements from the multiple of 16 bytes before `at` to `at`.
template <class T>
DEVICE int phase_of(const T* at) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(at) % 16 / sizeof(T));
}

// One chunk: the column of its first element, and which of its elements belong to the row: low <= e < high.
template <class T>
struct Span {
    int column, low, high;

    DEVICE bool empty() const { return high <= low; }
    DEVICE bool whole() const { return low == 0 && high == LANES<T>; }
    DEVICE bool holds(int e) const { return low <= e && e < high; }
};

// What a thread holds of the rows of its team.
template <class T, class M>
struct Share {
    static constexpr int step = M::team * LANES<T>;  // columns from one chunk of a thread to its next
    int hidden, phase, begin, end;                   // chunks begin <= i < end belong to this block
    int column;                                      // of the thread's first chunk

    DEVICE Share(int hidden_, int phase_) : hidden(hidden_), phase(M::ragged ? phase_ : 0) {
        const int all = (phase + hidden + LANES<T> - 1) / LANES<T>;
        const int slice = (all + M::cluster - 1) / M::cluster;
        const int rank = M::cluster > 1 ? cluster_rank() : 0;
        begin = rank * slice;
        end = begin + slice < all ? begin + slice : all;
        column = (begin + thread_index() % M::team) * LANES<T> - phase;
    }
    DEVICE void compute_anew() { column = anew(column); }
    DEVICE Span<T> span(int c) const {
        const int at = column + c * step;
        if (!M::full && at >= end * LANES<T> - phase) return {at, 0, 0};
        if (!M::ragged) return {at, 0, LANES<T>};
        const int left = hidden - at;
        return {at, at < 0 ? -at : 0, left < LANES<T> ? left : LANES<T>};
    }
    // The columns of this block: first <= column < last.
    DEVICE int first() const { return begin * LANES<T> > phase ? begin * LANES<T> - phase : 0; }
    DEVICE int last() const {
        const int last = end * LANES<T> - phase;
        return last < hidden ? last : hidden;
    }
};

// An array (rows, hidden), in global memory.
template <class T>
struct Array {
    const T *begin, *end;
    int hidden;

    DEVICE Array(const T* at, int64 rows, int hidden_) : begin(at), end(at + rows * hidden_), hidden(hidden_) {}
    DEVICE const T* row(int64 i) const { return begin + i * hidden; }
    DEVICE bool has(const T* from) const { return from >= begin && from + LANES<T> <= end; }
};

template <class T>
DEVICE bool aligned(const T* at) {
    return reinterpret_cast<unsigned long long>(at) % 16 == 0;
}

// Puts one element into 16 bytes.
template <class T>
DEVICE void insert(Quad& quad, int e, T element) {
    unsigned* words = &quad.x;
    if constexpr (sizeof(T) == 8) {
        to_bits(element, words[2 * e], words[2 * e + 1]);
    } else if constexpr (sizeof(T) == 4) {
        words[e] = to_bits(element);
    } else {
        words[e / 2] |= static_cast<unsigned>(element.bits) << (e % 2 * 16);
    }
}

// A chunk of a row from global memory; elements that are not the row's are anything.
template <class M, class T>
DEVICE Quad load_chunk(const Array<T>& array, const T* row, const Span<T>& span) {
    const T* from = row + span.column;
    if (!M::ragged || ((!M::apart || aligned(from)) && array.has(from))) return load_quad(from);
    Quad quad = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) {
        if (span.holds(e)) insert(quad, e, from[e]);
    }
    return quad;
}

// The numbers of a chunk, `fill` where an element is not the row's.
template <class M, class T>
DEVICE void numbers(Quad quad, const Span<T>& span, sum_t<T> fill, sum_t<T> (&to)[LANES<T>]) {
    unpack<T>(quad, to);
    if (!M::ragged || span.whole()) return;
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) {
        if (!span.holds(e)) to[e] = fill;
    }
}

// Rounds a chunk's numbers and writes those that are the row's.
template <class M, class T>
DEVICE void store_chunk(T* row, const Span<T>& span, const sum_t<T> (&from)[LANES<T>]) {
    T* to = row + span.column;
    if (!M::ragged || span.whole()) {
        store_quad(to, pack<T>(from));
        return;
    }
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) {
        if (span.holds(e)) to[e] = narrowed<T>(from[e]);
    }
}

// The rows of a team in registers: M::rows of them at a time, one for each `teams` rows of its portion.
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
    // Whether any team of the portion has rows left, and whether all teams have M::rows: threads of a warp go on together.
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

// The elements of a vector (hidden,) that stand over a chunk, 0 where it has none.
template <class T, class G>
DEVICE void load_vector(const G* vector, const Span<T>& span, sum_t<T> (&to)[LANES<T>]) {
    static_assert(LANES<G> <= LANES<T>, "gamma and beta are no narrower than x");
    const G* from = vector + span.column;
    if (span.whole() && aligned(from)) {
#pragma unroll
        for (int q = 0; q < LANES<T> / LANES<G>; ++q) {
            sum_t<G> some[LANES<G>];
            unpack<G>(load_quad(from + q * LANES<G>), some);
#pragma unroll
            for (int e = 0; e < LANES<G>; ++e) to[q * LANES<G> + e] = some[e];
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) to[e] = span.holds(e) ? widen(from[e]) : sum_t<T>(0);
}
