#include "emulation.hpp"

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void* __tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void*);
void __tsan_switch_to_fiber(void*, unsigned);
void* __tsan_get_current_fiber(void);
void __tsan_acquire(void*);
void __tsan_release(void*);
void __tsan_read_range(void*, unsigned long);
void __tsan_write_range(void*, unsigned long);
}
constexpr unsigned NO_ORDER = 1;
static void* new_fiber() { return __tsan_create_fiber(0); }
static void end_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
static void enter(void* fiber) { __tsan_switch_to_fiber(fiber, NO_ORDER); }
static void* this_fiber() { return __tsan_get_current_fiber(); }
static void acquire(void* at) { __tsan_acquire(at); }
static void release(void* at) { __tsan_release(at); }
static void touch(void* to, const void* from, unsigned bytes) {
    __tsan_read_range(const_cast<void*>(from), bytes);
    __tsan_write_range(to, bytes);
}
#else
static void* new_fiber() { return nullptr; }
static void end_fiber(void*) {}
static void enter(void*) {}
static void* this_fiber() { return nullptr; }
static void acquire(void*) {}
static void release(void*) {}
static void touch(void*, const void*, unsigned) {}
#endif

namespace {
constexpr int WARP = 32;
constexpr size_t STACK = 256 << 10;

enum class State { ready, at_barrier, at_cluster_barrier, at_shuffle, at_gate, done };
const char* const NAMES[] = {"ready", "at a barrier", "at a cluster's barrier", "at a shuffle", "at a gate", "done"};

struct Thread {
    State state = State::ready;
    const void* site = nullptr;  // where in the code it waits
    void* value = nullptr;       // of a shuffle
    size_t bytes = 0;
    int mask = 0;
    void* gate = nullptr;
    unsigned parity = 0;
    ucontext_t context;
    void* fiber = nullptr;
};
struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
    void* gate;
    std::unique_ptr<char> token;
};
struct GateState {
    unsigned parity = 0;
    long pending = 0;  // bytes expected and not yet there
    bool armed = false;
};
struct Shared {
    std::unique_ptr<unsigned char[]> bytes;
    size_t size;
};
struct Block {
    int index = 0;
    std::vector<Thread> threads;
    std::map<const void*, Shared> shared;
    std::map<void*, GateState> gates;
    char barrier = 0;
};

struct Grid {
    int blocks, threads, cluster;
    size_t dynamic_bytes;
    bool late;
    void (*kernel)(void**);
    void** arguments;
    std::vector<Block> running;
    std::deque<Copy> copies;
    std::vector<std::unique_ptr<unsigned char[]>> stacks;
    int block = 0, thread = 0;  // that runs now
    ucontext_t scheduler;
    void *scheduler_fiber = nullptr, *engine = nullptr;
    char cluster_barrier = 0;
    std::string error;
} *grid;

const char DYNAMIC = 0;

Block& block() { return grid->running[grid->block]; }
Thread& self() { return block().threads[grid->thread]; }

void to_scheduler() {
    Thread& mine = self();
    enter(grid->scheduler_fiber);
    swapcontext(&mine.context, &grid->scheduler);
}

[[noreturn]] void fail(const std::string& what) {
    if (grid->error.empty()) {
        grid->error = "block " + std::to_string(block().index) + ", thread " + std::to_string(grid->thread) + ": " + what;
    }
    self().state = State::done;
    to_scheduler();
    __builtin_unreachable();
}

void wait(State state, const void* site) {
    self().state = state;
    self().site = site;
    to_scheduler();
}

void run_thread() {
    grid->kernel(grid->arguments);
    self().state = State::done;
    to_scheduler();
}

void perform(const Copy& copy, Block& its) {
    void* const before = this_fiber();
    enter(grid->engine);
    acquire(copy.token.get());
    touch(copy.to, copy.from, copy.bytes);
    std::memcpy(copy.to, copy.from, copy.bytes);
    release(copy.gate);
    enter(before);
    its.gates[copy.gate].pending -= copy.bytes;
}

void settle(GateState& gate) {
    if (gate.armed && gate.pending == 0) {
        gate.parity ^= 1;
        gate.armed = false;
    }
}

// Whether all of these threads wait at one place for one thing; then they go on. Where all have stopped, and
// some elsewhere, none ever will: an error.
template <class Threads>
bool gather(Threads first, Threads last, State state, std::string& error) {
    const bool all = std::all_of(first, last, [&](Thread* t) { return t->state == state; });
    if (!all) return false;
    for (Threads t = first; t != last; ++t) {
        if ((*t)->site != (*first)->site) error = std::string("threads are ") + NAMES[int(state)] + " in different places";
        (*t)->state = State::ready;
    }
    return true;
}

bool exchange(std::vector<Thread*>& warp, std::string& error) {
    if (!gather(warp.begin(), warp.end(), State::at_shuffle, error)) return false;
    std::vector<std::vector<char>> sent;
    for (Thread* lane : warp) sent.emplace_back((char*)lane->value, (char*)lane->value + lane->bytes);
    for (size_t i = 0; i < warp.size(); ++i) {
        const size_t other = i ^ warp[i]->mask;
        if (other >= warp.size()) {
            error = "a shuffle reads a lane that is not there";
        } else {
            std::memcpy(warp[i]->value, sent[other].data(), warp[i]->bytes);
        }
    }
    return true;
}

// Lets threads go on for which all that they wait for has come. Returns whether there are any.
bool resolve() {
    bool moved = false;
    std::vector<Thread*> everyone;
    for (Block& one : grid->running) {
        std::vector<Thread*> all;
        for (Thread& thread : one.threads) all.push_back(&thread);
        moved |= gather(all.begin(), all.end(), State::at_barrier, grid->error);
        for (size_t at = 0; at < all.size(); at += WARP) {
            std::vector<Thread*> warp(all.begin() + at, all.begin() + std::min(all.size(), at + WARP));
            moved |= exchange(warp, grid->error);
        }
        for (Thread* thread : all) {
            if (thread->state == State::at_gate && one.gates[thread->gate].parity != thread->parity) {
                thread->state = State::ready;
                moved = true;
            }
        }
        everyone.insert(everyone.end(), all.begin(), all.end());
    }
    moved |= gather(everyone.begin(), everyone.end(), State::at_cluster_barrier, grid->error);
    return moved;
}

bool copy_late() {
    if (grid->copies.empty()) return false;
    const Copy copy = std::move(grid->copies.front());
    grid->copies.pop_front();
    for (Block& one : grid->running) {
        if (one.gates.count(copy.gate)) {
            perform(copy, one);
            settle(one.gates[copy.gate]);
        }
    }
    return true;
}

void start(Thread& thread, unsigned char* stack) {
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stack;
    thread.context.uc_stack.ss_size = STACK;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, run_thread, 0);
    thread.fiber = new_fiber();
}

void report_stuck() {
    std::string what = "threads wait for ever:";
    for (Block& one : grid->running) {
        for (int state = 1; state <= int(State::done); ++state) {
            const auto count = std::count_if(one.threads.begin(), one.threads.end(),
                                             [&](Thread& t) { return int(t.state) == state; });
            if (count) what += " " + std::to_string(count) + " of block " + std::to_string(one.index) + " " + NAMES[state] + ",";
        }
    }
    what.pop_back();
    grid->error = what;
}

// Runs the blocks of one cluster to their end.
void run_cluster(int first, int order, std::mt19937& random) {
    grid->running.clear();
    grid->running.resize(grid->cluster);
    std::vector<std::pair<int, int>> turns;
    for (int b = 0; b < grid->cluster; ++b) {
        grid->running[b].index = first + b;
        grid->running[b].threads = std::vector<Thread>(grid->threads);
        for (int t = 0; t < grid->threads; ++t) {
            start(grid->running[b].threads[t], grid->stacks[b * grid->threads + t].get());
            turns.emplace_back(b, t);
        }
    }
    if (order == 1) std::reverse(turns.begin(), turns.end());
    while (grid->error.empty()) {
        if (order == 2) std::shuffle(turns.begin(), turns.end(), random);
        bool all_done = true;
        for (const auto& [b, t] : turns) {
            Thread& thread = grid->running[b].threads[t];
            if (thread.state == State::ready && grid->error.empty()) {
                grid->block = b;
                grid->thread = t;
                enter(thread.fiber);
                swapcontext(&grid->scheduler, &thread.context);
            }
            all_done &= thread.state == State::done;
        }
        if (!grid->error.empty()) break;
        if (all_done) {
            if (!grid->copies.empty()) grid->error = "a block has ended before its bulk copies";
            break;
        }
        if (!resolve() && !copy_late()) report_stuck();
    }
    for (Block& one : grid->running) {
        for (Thread& thread : one.threads) end_fiber(thread.fiber);
    }
    grid->copies.clear();
}
}  // namespace

namespace emulation {
int thread_index() { return grid->thread; }
int block_index() { return block().index; }
int block_count() { return grid->blocks; }
int cluster_rank() { return grid->block; }

__attribute__((noinline)) void block_barrier() {
    release(&block().barrier);
    wait(State::at_barrier, __builtin_return_address(0));
    acquire(&block().barrier);
}
__attribute__((noinline)) void cluster_barrier() {
    release(&grid->cluster_barrier);
    wait(State::at_cluster_barrier, __builtin_return_address(0));
    acquire(&grid->cluster_barrier);
}
void shuffle_xor(void* value, size_t bytes, int mask) {
    Thread& mine = self();
    mine.value = value;
    mine.bytes = bytes;
    mine.mask = mask;
    wait(State::at_shuffle, nullptr);
}

void* shared(const void* place, size_t bytes) {
    auto& all = block().shared;
    if (!all.count(place)) {
        all[place] = {std::unique_ptr<unsigned char[]>(new unsigned char[bytes]), bytes};
        std::memset(all[place].bytes.get(), 0xff, bytes);
    }
    if (all[place].size != bytes) fail("one shared array has two sizes");
    return all[place].bytes.get();
}
unsigned char* dynamic_shared() { return static_cast<unsigned char*>(shared(&DYNAMIC, grid->dynamic_bytes)); }
const void* of_block(const void* at, int rank) {
    if (rank < 0 || rank >= grid->cluster) fail("a cluster has no block " + std::to_string(rank));
    for (const auto& [place, array] : block().shared) {
        const ptrdiff_t offset = static_cast<const unsigned char*>(at) - array.bytes.get();
        if (offset >= 0 && offset < ptrdiff_t(array.size)) {
            const auto& theirs = grid->running[rank].shared;
            const auto found = theirs.find(place);
            if (found == theirs.end()) fail("block " + std::to_string(rank) + " of the cluster has no such array yet");
            if (std::all_of(grid->running[rank].threads.begin(), grid->running[rank].threads.end(),
                            [](const Thread& t) { return t.state == State::done; })) {
                fail("block " + std::to_string(rank) + " of the cluster has ended");
            }
            return found->second.bytes.get() + offset;
        }
    }
    fail("what is read of another block is not in shared memory");
}
void require_aligned(const void* at, const char* what) {
    if (reinterpret_cast<uintptr_t>(at) % 16) fail(std::string(what) + " is not at a multiple of 16");
}

void open_gate(void* gate) { block().gates[gate] = GateState(); }
void expect_bytes(void* gate, unsigned bytes) {
    if (!block().gates.count(gate)) fail("a gate is used before it is opened");
    GateState& state = block().gates[gate];
    if (state.armed) fail("a gate is used again before its phase has ended");
    state.pending += bytes;
    state.armed = true;
    settle(state);
}
void copy_bulk(void* to, const void* from, unsigned bytes, void* gate) {
    require_aligned(to, "the target of a bulk copy");
    require_aligned(from, "the source of a bulk copy");
    if (bytes == 0 || bytes % 16) fail("a bulk copy of " + std::to_string(bytes) + " bytes");
    const Shared& memory = block().shared[&DYNAMIC];
    const ptrdiff_t offset = static_cast<unsigned char*>(to) - memory.bytes.get();
    if (offset < 0 || offset + ptrdiff_t(bytes) > ptrdiff_t(memory.size)) fail("a bulk copy leaves shared memory");
    Copy copy{to, from, bytes, gate, std::unique_ptr<char>(new char)};
    release(copy.token.get());
    if (grid->late) {
        grid->copies.push_back(std::move(copy));
    } else {
        perform(copy, block());
        settle(block().gates[gate]);
    }
}
void wait_gate(void* gate, unsigned parity) {
    if (!block().gates.count(gate)) fail("a gate is used before it is opened");
    if (block().gates[gate].parity == parity) {
        self().gate = gate;
        self().parity = parity;
        wait(State::at_gate, nullptr);
    }
    acquire(gate);
}
}  // namespace emulation

// Runs a kernel over a grid; order is 0 forward, 1 reverse, 2 random. Returns nothing, or what went wrong.
extern "C" const char* emulate(void (*kernel)(void**), int blocks, int threads, int cluster, size_t dynamic_bytes,
                               void** arguments, int order, unsigned seed, int late) {
    static std::string error;
    Grid one{};
    one.blocks = blocks;
    one.threads = threads;
    one.cluster = cluster;
    one.dynamic_bytes = dynamic_bytes;
    one.late = late;
    one.kernel = kernel;
    one.arguments = arguments;
    one.scheduler_fiber = this_fiber();
    one.engine = new_fiber();
    for (int i = 0; i < threads * cluster; ++i) one.stacks.emplace_back(new unsigned char[STACK]);
    grid = &one;
    std::mt19937 random(seed);
    for (int first = 0; first < blocks && one.error.empty(); first += cluster) run_cluster(first, order, random);
    end_fiber(one.engine);
    grid = nullptr;
    error = one.error;
    return error.empty() ? nullptr : error.c_str();
}
