// A grid of threads on one CPU thread: each is a fiber that runs until it waits for others.
//
// Blocks run one after the other, the blocks of a cluster together. Of the threads that may go on always the first
// does (forward), the last (reverse), or any (random), so that some run as far ahead as they can. Bulk copies happen
// at once (early), or one by one when no thread can go on without them (late): the oldest first, the newest, or any.
// Shared memory is a heap array a block, of the exact size; it is filled with NaN, and so are stacks when a thread
// begins.
//
// An error is what a device would do something undefined for, or never end: threads that wait for ever, as others
// have ended; a barrier or a shuffle that is met at different places (by the return addresses on the stack) or by
// different masks; 16 bytes that are not at a multiple of 16; a gate that is overwritten, not opened, used again
// before its phase has ended, or told of other bytes than come; a block that ends before its bulk copies, or before
// another reads its shared memory.
//
// ThreadSanitizer sees each fiber as a thread, ordered by barriers and gates alone, not by shuffles. Blocks are not
// ordered; but the same threads of every second cluster of blocks are one to it.
//
// Not modelled: shuffles of part of a warp, the order of generic and bulk accesses beyond barriers and gates,
// accesses to global memory that are not atomic as a whole, the number of registers.
#pragma once
#include <cstddef>

namespace emulation {
int thread_index();
int block_index();
int block_count();
int cluster_rank();
void block_barrier();
void cluster_arrive();
void cluster_wait();
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
