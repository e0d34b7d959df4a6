// Operations of a GPU that C++ cannot express, by the emulation on a CPU (see emulation.hpp). Without <cmath>, which
// takes as long to compile as a kernel.
#pragma once
#include <cstring>

#include "emulation.hpp"

using int64 = long long;

// These copy member by member, for ThreadSanitizer: g++ does not instrument accesses to a struct that a function takes
// or returns by value.
struct alignas(16) Quad {
    unsigned x, y, z, w;

    Quad() = default;
    Quad(unsigned x_, unsigned y_, unsigned z_, unsigned w_) : x(x_), y(y_), z(z_), w(w_) {}
    Quad(const Quad& a) : x(a.x), y(a.y), z(a.z), w(a.w) {}
    Quad& operator=(const Quad& a) {
        x = a.x, y = a.y, z = a.z, w = a.w;
        return *this;
    }
};
template <int KIND>
struct Half {
    unsigned short bits;

    Half() = default;
    explicit Half(unsigned short bits_) : bits(bits_) {}
    Half(const Half& a) : bits(a.bits) {}
    Half& operator=(const Half& a) {
        bits = a.bits;
        return *this;
    }
};
using f16 = Half<16>;
using bf16 = Half<8>;

#define DEVICE inline
#define KERNEL(M) void
#define SHARED(type, name, count)         \
    static const char name##_place = 0;   \
    type* const name = static_cast<type*>(emulation::shared(&name##_place, sizeof(type) * (count)))

DEVICE int thread_index() { return emulation::thread_index(); }
DEVICE int block_index() { return emulation::block_index(); }
DEVICE int block_count() { return emulation::block_count(); }
[[gnu::always_inline]] DEVICE void block_barrier() { emulation::block_barrier(); }
DEVICE unsigned char* dynamic_shared() { return emulation::dynamic_shared(); }
template <class A>
DEVICE A shuffle_xor(A value, int mask) {
    emulation::shuffle_xor(&value, sizeof value, mask);
    return value;
}

// Launches run one after the other.
DEVICE void let_next_launch_begin() {}
DEVICE void wait_for_launch_before() {}

DEVICE int power_of_two(int a) { return 1 << (31 - __builtin_clz(a)); }
DEVICE bool any_of_warp(bool one) {
    int any = one;
    for (int mask = 1; mask < 32; mask *= 2) any |= shuffle_xor(any, mask);
    return any;
}

template <class A>
DEVICE A anew(A a) {
    return a;
}

DEVICE float rounded_product(float a, float b) { return a * b; }
DEVICE double rounded_product(double a, double b) { return a * b; }
DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
DEVICE float square_root(float a) { return __builtin_sqrtf(a); }
DEVICE double square_root(double a) { return __builtin_sqrt(a); }

DEVICE float from_bits(unsigned bits) {
    float a;
    std::memcpy(&a, &bits, sizeof a);
    return a;
}
DEVICE double from_bits(unsigned low, unsigned high) {
    const unsigned words[2] = {low, high};
    double a;
    std::memcpy(&a, words, sizeof a);
    return a;
}
DEVICE unsigned to_bits(float a) {
    unsigned bits;
    std::memcpy(&bits, &a, sizeof a);
    return bits;
}
DEVICE void to_bits(double a, unsigned& low, unsigned& high) {
    unsigned words[2];
    std::memcpy(words, &a, sizeof a);
    low = words[0];
    high = words[1];
}

// float from and to 16 bits, rounded to nearest even: 5 bits of exponent and 10 of fraction, or 8 and 7.
DEVICE float widen(float a) { return a; }
DEVICE double widen(double a) { return a; }
DEVICE float widen(f16 a) {
    const int exponent = a.bits >> 10 & 31, fraction = a.bits & 1023;
    const float sign = a.bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? from_bits(0x7fc00000u) : sign * __builtin_inff();
    if (exponent == 0) return sign * __builtin_ldexpf(static_cast<float>(fraction), -24);
    return sign * __builtin_ldexpf(static_cast<float>(fraction + 1024), exponent - 25);
}
DEVICE float widen(bf16 a) { return from_bits(static_cast<unsigned>(a.bits) << 16); }
DEVICE void narrow(float a, float& to) { to = a; }
DEVICE void narrow(double a, double& to) { to = a; }
DEVICE void narrow(float a, f16& to) {
    const unsigned short sign = static_cast<unsigned short>(to_bits(a) >> 16 & 0x8000);
    const float size = __builtin_fabsf(a);
    if (!(size < 65520.0f)) {  // what rounds to infinity, infinity, NaN
        to.bits = static_cast<unsigned short>(sign | (size >= 65520.0f ? 0x7c00 : 0x7fff));
    } else if (size < 0x1p-14f) {
        const float units = __builtin_nearbyintf(__builtin_ldexpf(size, 24));
        to.bits = static_cast<unsigned short>(sign | static_cast<int>(units));
    } else {
        int exponent;
        const float units = __builtin_nearbyintf(__builtin_ldexpf(__builtin_frexpf(size, &exponent), 11));
        to.bits = static_cast<unsigned short>(sign | (((exponent + 14) << 10) + static_cast<int>(units) - 1024));
    }
}
DEVICE void narrow(float a, bf16& to) {
    const unsigned bits = to_bits(a);
    to.bits = static_cast<unsigned short>(a != a ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
template <class T>
DEVICE unsigned narrow_pair(float low, float high, T) {
    T parts[2];
    narrow(low, parts[0]);
    narrow(high, parts[1]);
    return parts[0].bits | static_cast<unsigned>(parts[1].bits) << 16;
}

DEVICE Quad load_quad(const void* from) {
    emulation::require_aligned(from, "a 16-byte load");
    return *static_cast<const Quad*>(from);
}
DEVICE void store_quad(void* to, Quad quad) {
    emulation::require_aligned(to, "a 16-byte store");
    *static_cast<Quad*>(to) = quad;
}
DEVICE Quad load_stream(const void* from) { return load_quad(from); }
DEVICE void store_stream(void* to, Quad quad) { store_quad(to, quad); }

using Gate = unsigned long long;
DEVICE void open_gate(Gate* gate) { emulation::open_gate(gate); }
DEVICE void expect_bytes(Gate* gate, unsigned bytes) { emulation::expect_bytes(gate, bytes); }
DEVICE void order_before_copies() {}
DEVICE void copy_bulk(void* to, const void* from, unsigned bytes, Gate* gate) {
    emulation::copy_bulk(to, from, bytes, gate);
}
DEVICE void wait_gate(Gate* gate, unsigned parity) { emulation::wait_gate(gate, parity); }

DEVICE int cluster_rank() { return emulation::cluster_rank(); }
DEVICE void order_before_arrival() {}
[[gnu::always_inline]] DEVICE void cluster_arrive() { emulation::cluster_arrive(); }
DEVICE void cluster_wait() { emulation::cluster_wait(); }
DEVICE Quad cluster_load(const Quad* at, int rank) {
    return *static_cast<const Quad*>(emulation::of_block(at, rank));
}
