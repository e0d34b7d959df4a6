// Operations of a GPU that C++ cannot express, on the device; host/primitives.cuh has the same for a CPU.
// Needs compute capability 8.0; clusters, gates and bulk copies need 9.0.
#pragma once

using int64 = long long;

struct alignas(16) Quad {
    unsigned x, y, z, w;
};
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

#define DEVICE __device__ __forceinline__
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define KERNEL(M) __global__ void __launch_bounds__(M::threads, M::blocks) __cluster_dims__(M::cluster, 1, 1)
#else
#define KERNEL(M) __global__ void __launch_bounds__(M::threads, M::blocks)
#endif

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int block_index() { return blockIdx.x; }
DEVICE int block_count() { return gridDim.x; }
DEVICE void block_barrier() { __syncthreads(); }
DEVICE unsigned char* dynamic_shared() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return bytes;
}
template <class A>
DEVICE A shuffle_xor(A value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE bool any_of_warp(bool one) { return __any_sync(0xffffffffu, one); }

// The same value, opaque to the compiler: what depends on it is recomputed from here rather than held in registers.
DEVICE unsigned anew(unsigned a) {
    asm volatile("" : "+r"(a));
    return a;
}
DEVICE int anew(int a) { return anew(static_cast<unsigned>(a)); }
DEVICE Quad anew(Quad a) { return {anew(a.x), anew(a.y), anew(a.z), anew(a.w)}; }

// The largest power of two that is at most a > 0.
DEVICE int power_of_two(int a) { return 1 << (31 - __clz(a)); }

// A launch may begin before the previous one on its stream has ended (Launch.early in machine.py): once all blocks of
// the previous launch have let it, or have ended. It waits here until all of them have ended and their writes are
// visible.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
DEVICE void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
DEVICE void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
DEVICE void let_next_launch_begin() {}
DEVICE void wait_for_launch_before() {}
#endif

// Arithmetic. A rounded product is never contracted into a multiply-add.
DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
DEVICE double rounded_product(double a, double b) { return __dmul_rn(a, b); }
DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
DEVICE float square_root(float a) { return __fsqrt_rn(a); }
DEVICE double square_root(double a) { return __dsqrt_rn(a); }

DEVICE float widen(float a) { return a; }
DEVICE double widen(double a) { return a; }
DEVICE float widen(f16 a) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(a.bits));
    return wide;
}
DEVICE float widen(bf16 a) { return __uint_as_float(static_cast<unsigned>(a.bits) << 16); }
DEVICE void narrow(float a, float& to) { to = a; }
DEVICE void narrow(double a, double& to) { to = a; }
DEVICE void narrow(float a, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(a)); }
DEVICE void narrow(float a, bf16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(a)); }
DEVICE unsigned narrow_pair(float low, float high, f16) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
DEVICE unsigned narrow_pair(float low, float high, bf16) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
DEVICE float from_bits(unsigned bits) { return __uint_as_float(bits); }
DEVICE double from_bits(unsigned low, unsigned high) { return __hiloint2double(high, low); }
DEVICE unsigned to_bits(float a) { return __float_as_uint(a); }
DEVICE void to_bits(double a, unsigned& low, unsigned& high) {
    low = __double2loint(a);
    high = __double2hiint(a);
}

// Global memory, 16 bytes at a multiple of 16. The compiler does not move the loads, so that all those before the first
// use are in flight at once.
DEVICE Quad load_quad(const void* from) {
    Quad quad;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "l"(__cvta_generic_to_global(from)));
    return quad;
}
DEVICE void store_quad(void* to, Quad quad) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(quad.x),
                 "r"(quad.y), "r"(quad.z), "r"(quad.w)
                 : "memory");
}
// The same, with the hint that these bytes are not accessed again soon (evict-first).
DEVICE Quad load_stream(const void* from) {
    Quad quad;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "l"(__cvta_generic_to_global(from)));
    return quad;
}
DEVICE void store_stream(void* to, Quad quad) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(quad.x),
                 "r"(quad.y), "r"(quad.z), "r"(quad.w)
                 : "memory");
}

// A gate (mbarrier) in shared memory: it counts the bytes of the bulk copies that name it, and its phase ends when the
// expected bytes have arrived. A thread waits for a phase by its parity, 0 first.
using Gate = unsigned long long;
DEVICE unsigned shared_address(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }
DEVICE void open_gate(Gate* gate) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(gate)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void expect_bytes(Gate* gate, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(gate)), "r"(bytes)
                 : "memory");
}
// Accesses to shared memory that happen before this call, as this thread observes them, are ordered before the bulk
// copies that it issues from here on.
DEVICE void order_before_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// From global to shared memory of this block; both at multiples of 16, as is the number of bytes.
DEVICE void copy_bulk(void* to, const void* from, unsigned bytes, Gate* gate) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(gate))
                 : "memory");
}
DEVICE void wait_gate(Gate* gate, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(gate)),
        "r"(parity)
        : "memory");
}

// A cluster: blocks that run together and read each other's shared memory.
DEVICE int cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// Orders this thread's writes to its block's shared memory before its arrival, for the threads that wait for that. A
// fence of all memory would also wait for the stores of results.
DEVICE void order_before_arrival() {
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}
// Orders nothing: no thread but the one that called order_before_arrival has written what another block reads. Loads
// from another block's shared memory are complete by then, since their values have been used.
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// The 16 bytes that block `rank` of the cluster holds where this block holds `at`.
DEVICE Quad cluster_load(const Quad* at, int rank) {
    unsigned there;
    Quad quad;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "r"(there)
                 : "memory");
    return quad;
}
