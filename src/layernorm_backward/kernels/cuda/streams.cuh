// The roofs: streams over arrays (a = b with the accesses of the forward pass, a = b + scale*c with those of the
// backward pass), and multiply-adds in registers.
#pragma once
#include "map.cuh"
#include "numbers.cuh"

constexpr int STREAM_CHUNKS = 4;  // of a thread, loaded before the first is used
using StreamMap = Map<256, 4, 1, 256, STREAM_CHUNKS, 1, false, 0>;

template <bool STREAMED>
DEVICE Quad read_chunk(const Quad* from) {
    return STREAMED ? load_stream(from) : *from;
}
template <bool STREAMED>
DEVICE void write_chunk(Quad* to, Quad quad) {
    if constexpr (STREAMED) {
        store_stream(to, quad);
    } else {
        *to = quad;
    }
}

// `count` chunks of 16 bytes, block by block; STREAMED: past the caches, as far as the device does that.
template <class T, bool TRIAD, bool STREAMED, class M>
KERNEL(M) stream(Quad* a, const Quad* b, const Quad* c, sum_t<T> scale, int64 count) {
    const int64 width = static_cast<int64>(M::threads) * M::chunks;
    for (int64 first = block_index() * width; first < count; first += block_count() * width) {
        Quad bs[M::chunks], cs[M::chunks];
#pragma unroll
        for (int k = 0; k < M::chunks; ++k) {
            const int64 i = first + k * M::threads + thread_index();
            if (i >= count) continue;
            bs[k] = read_chunk<STREAMED>(b + i);
            if constexpr (TRIAD) cs[k] = read_chunk<STREAMED>(c + i);
        }
#pragma unroll
        for (int k = 0; k < M::chunks; ++k) {
            const int64 i = first + k * M::threads + thread_index();
            if (i >= count) continue;
            if constexpr (TRIAD) {
                sum_t<T> from[LANES<T>], to[LANES<T>];
                unpack<T>(bs[k], to);
                unpack<T>(cs[k], from);
#pragma unroll
                for (int e = 0; e < LANES<T>; ++e) to[e] = multiply_add(scale, from[e], to[e]);
                bs[k] = pack<T>(to);
            }
            write_chunk<STREAMED>(a + i, bs[k]);
        }
    }
}

// In every thread, enough independent chains of multiply-adds to hide their latency; each thread stores one number.
template <class A, class M>
KERNEL(M) multiply_adds(A* out, A scale, int rounds) {
    constexpr int chains = 8;
    A values[chains];
#pragma unroll
    for (int k = 0; k < chains; ++k) values[k] = A(k + thread_index());
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int k = 0; k < chains; ++k) values[k] = multiply_add(values[k], scale, scale);
    }
    A sum = 0;
#pragma unroll
    for (int k = 0; k < chains; ++k) sum += values[k];
    out[static_cast<int64>(block_index()) * M::threads + thread_index()] = sum;
}
