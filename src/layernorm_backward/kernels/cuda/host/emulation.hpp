// Emulates a grid of threads on one CPU thread: each is a fiber that runs until it waits for others.
//
// Blocks run one after the other, the blocks of a cluster together. The next thread to run is always the first runnable
// one (forward), the last (reverse), or any (random), so that some run as far ahead as they can. Bulk copies complete
// at once (early), or one by one when no thread can run without them (late): the oldest first, the newest, or any.
// Each block has a heap array of the exact size as shared memory; it is filled with NaN, as are stacks when a thread
// begins.
//
// An error is whatever is undefined or does not terminate on a device: threads that wait for others that have ended; a
// barrier or a shuffle that is reached at different places (by the return addresses on the stack), or a shuffle by
// different masks; 16-byte accesses that are not aligned to 16; a gate that is overwritten, not opened, used again
// before its phase has ended, or expects other bytes than arrive; a block that ends before its bulk copies, or before
// another reads its shared memory.
//
// ThreadSanitizer sees each fiber as a thread, ordered by barriers and gates alone, not by shuffles. Blocks are not
// ordered, but the same threads of every second cluster are one thread to it.
//
// Not modelled: shuffles of part of a warp, the order of generic and bulk accesses beyond barriers and gates, accesses
// to global memory that are not atomic as a whole, the number of registers.
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

// An instance of a kernel behind an untyped function, which takes an array of the addresses of the arguments.
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
