// A grid of threads on one CPU thread: each is a fiber that runs until it waits for others.
//
// Blocks run one after the other, the blocks of a cluster together. Shared memory is a heap array a block, of the
// exact size, filled with NaN. Bulk copies happen at once (early) or only when no thread can go on without them
// (late). Every thread of a block meets its barriers, every lane of a warp its shuffles, from the same place in
// the code; what does not is an error, as are threads that wait for ever.
//
// ThreadSanitizer sees each fiber as a thread, ordered by barriers and gates alone. Not modelled: shuffles of
// part of a warp, the order of generic and bulk accesses beyond barriers and gates, the number of registers.
#pragma once
#include <cstddef>

namespace emulation {
int thread_index();
int block_index();
int block_count();
int cluster_rank();
void block_barrier();
void cluster_barrier();
void shuffle_xor(void* value, size_t bytes, int mask);
void* shared(const void* place, size_t bytes);
unsigned char* dynamic_shared();
const void* of_block(const void* at, int rank);
void require_aligned(const void* at, const char* what);
void open_gate(void* gate);
void expect_bytes(void* gate, unsigned bytes);
void copy_bulk(void* to, const void* from, unsigned bytes, void* gate);
void wait_gate(void* gate, unsigned parity);
}  // namespace emulation

// An instance of a kernel under a name without a type: its arguments come as an array of their addresses.
template <auto FUNCTION>
struct Instance;
template <class... P, void (*FUNCTION)(P...)>
struct Instance<FUNCTION> {
    template <size_t... I>
    struct Indices {};
    template <size_t N, size_t... I>
    struct Count : Count<N - 1, N - 1, I...> {};
    template <size_t... I>
    struct Count<0, I...> {
        using type = Indices<I...>;
    };
    template <size_t... I>
    static void call(void** arguments, Indices<I...>) {
        FUNCTION(*static_cast<P*>(arguments[I])...);
    }
    static void run(void** arguments) { call(arguments, typename Count<sizeof...(P)>::type()); }
};
