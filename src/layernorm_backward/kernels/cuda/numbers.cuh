// Storage types and the type of their sums; conversion between 16 bytes of memory and numbers.
#pragma once
#include "primitives.cuh"

template <class T>
struct Sums {
    using type = float;
};
template <>
struct Sums<double> {
    using type = double;
};
template <class T>
using sum_t = typename Sums<T>::type;

// Elements in 16 bytes.
template <class T>
constexpr int LANES = 16 / sizeof(T);

template <class T>
DEVICE void unpack(Quad quad, sum_t<T> (&to)[LANES<T>]) {
    const unsigned words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int i = 0; i < LANES<T>; ++i) {
        if constexpr (sizeof(T) == 8) {
            to[i] = from_bits(words[2 * i], words[2 * i + 1]);
        } else if constexpr (sizeof(T) == 4) {
            to[i] = from_bits(words[i]);
        } else {
            to[i] = widen(T{static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16))});
        }
    }
}

template <class T>
DEVICE Quad pack(const sum_t<T> (&from)[LANES<T>]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 8) {
            if (i % 2 == 0) to_bits(from[i / 2], words[i], words[i + 1]);
        } else if constexpr (sizeof(T) == 4) {
            words[i] = to_bits(from[i]);
        } else {
            words[i] = narrow_pair(from[2 * i], from[2 * i + 1], T{});
        }
    }
    return {words[0], words[1], words[2], words[3]};
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
// The chunk that begins at `from`, of any alignment.
template <class T>
DEVICE Quad gathered(const T* from) {
    Quad quad = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < LANES<T>; ++e) insert(quad, e, from[e]);
    return quad;
}

template <class T>
DEVICE T narrowed(sum_t<T> value) {
    T result;
    narrow(value, result);
    return result;
}
