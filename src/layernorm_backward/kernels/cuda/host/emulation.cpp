#include "emulation.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

// Marks a function whose memory accesses no sanitizer instruments.
#define UNSEEN __attribute__((no_sanitize("address,thread")))
#if defined(__SANITIZE_THREAD__)
extern "C" {
void* __tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void*, unsigned);
void* __tsan_get_current_fiber(void);
void __tsan_acquire(void*);
void __tsan_release(void*);
void __tsan_read_range(void*, unsigned long);
void __tsan_write_range(void*, unsigned long);
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);
}
constexpr unsigned NO_ORDER = 1;
constexpr int POOLS = 2;
static void* new_fiber() { return __tsan_create_fiber(0); }
UNSEEN static void enter(void* fiber) { __tsan_switch_to_fiber(fiber, NO_ORDER); }
static void* this_fiber() { return __tsan_get_current_fiber(); }
static void acquire(void* at) { __tsan_acquire(at); }
static void release(void* at) { __tsan_release(at); }
static void reads(void* at, size_t bytes) { __tsan_read_range(at, bytes); }
static void writes(void* at, size_t bytes) { __tsan_write_range(at, bytes); }
static void hide() { __tsan_ignore_thread_begin(); }
static void show() { __tsan_ignore_thread_end(); }
#else
constexpr int POOLS = 1;
static void* new_fiber() { return nullptr; }
static void enter(void*) {}
static void* this_fiber() { return nullptr; }
static void acquire(void*) {}
static void release(void*) {}
static void reads(void*, size_t) {}
static void writes(void*, size_t) {}
static void hide() {}
static void show() {}
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_unpoison_memory_region(const volatile void*, size_t);
static void forget_frames(void* stack, size_t bytes) { __asan_unpoison_memory_region(stack, bytes); }
#else
static void forget_frames(void*, size_t) {}
#endif

// Stacks to run on. `switch_stacks` saves the callee-saved registers on this stack and its top in `from`, and resumes
// the stack saved as `to`. `stack_for` prepares a stack on which a function begins, which never returns.
#if defined(__x86_64__)
extern "C" void switch_stacks(void** from, void* to);
asm(R"(
.text
.local switch_stacks
.type switch_stacks, @function
switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size switch_stacks, .-switch_stacks
)");
constexpr int KEPT = 6;
static void* stack_for(unsigned char* stack, size_t bytes, void (*function)()) {
    void** top = reinterpret_cast<void**>(stack + bytes) - 1;
    *top = nullptr;  // where it would return to
    *--top = reinterpret_cast<void*>(function);
    for (int i = 0; i < KEPT; ++i) *--top = nullptr;
    return top;
}
#else
#include <ucontext.h>
UNSEEN static void switch_stacks(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}
static void* stack_for(unsigned char* stack, size_t bytes, void (*function)()) {
    ucontext_t* const context = new (stack) ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof(ucontext_t);
    context->uc_stack.ss_size = bytes - sizeof(ucontext_t);
    context->uc_link = nullptr;
    makecontext(context, function, 0);
    context->uc_stack.ss_size = 0;  // else AddressSanitizer unpoisons the frames there at each switch
    return context;
}
#endif

namespace {
constexpr int WARP = 32;
constexpr size_t STACK = 256 << 10, FRESH = 16 << 10;  // bytes of a fiber's stack; of these, filled with NaN
constexpr size_t WIDEST = 8;                           // bytes that a shuffle exchanges
constexpr unsigned long long SEAL = 0x9e3779b97f4a7c15;

// ThreadSanitizer does not see what a thread reads and writes while one of these lives.
struct Hidden {
    Hidden() { hide(); }
    ~Hidden() { show(); }
    Hidden(const Hidden&) = delete;
};

// A fiber, on which emulated threads run. ThreadSanitizer takes all that it runs for one thread, so two pools
// alternate: a cluster and the next never share a fiber. A fiber keeps its stack, which no other writes to.
struct Fiber {
    unsigned char* stack;
    void* place = nullptr;  // for switch_stacks, while another runs
    void* its = new_fiber();

    Fiber() {
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* const at = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (at == MAP_FAILED) std::abort();
        stack = static_cast<unsigned char*>(at);
    }
};
std::vector<std::unique_ptr<Fiber>> pools[POOLS];

enum class State { ready, at_barrier, at_cluster_barrier, at_shuffle, at_gate, done };
const char* const NAMES[] = {"ready", "at a barrier", "at a cluster's barrier", "at a shuffle", "at a gate", "done"};

struct Block;
struct Thread {
    State state = State::ready;
    int turn = 0, index = 0;
    Block* block = nullptr;
    size_t site = 0;        // the place in the code where it waits
    void* value = nullptr;  // of a shuffle
    size_t bytes = 0;
    int mask = 0;
    void* gate = nullptr;
    unsigned parity = 0;
    unsigned barriers = 0, cluster_barriers = 0;  // that it has passed
    bool arrived = false;                         // at the next cluster barrier, without having waited for it
    Fiber* fiber = nullptr;
};
struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
    void* gate;
    Block* block;
    std::unique_ptr<char> token;
};
struct Gate {
    unsigned parity = 0;
    long pending = 0;  // bytes expected that have not arrived
    bool armed = false;
};
struct Shared {
    std::unique_ptr<unsigned char[]> bytes;
    size_t size;
};
// A barrier: what any thread does before it happens before what any thread does after. Two tokens alternate, since a
// thread may reach a meeting before others have left the previous one.
struct Meeting {
    int waiting = 0;
    unsigned ended = 0;  // meetings of a cluster
    size_t site = 0;     // where its threads arrive
    std::unique_ptr<char[]> token{new char[2]};
};
struct Block {
    int index = 0, rank = 0;
    std::vector<Thread> threads;
    std::vector<int> at_shuffle;  // of each warp
    std::map<const void*, Shared> shared;
    std::map<void*, Gate> gates;
    Meeting barrier;
    Fiber* engine = nullptr;  // performs its bulk copies
};

// The set of runnable threads, by `turn`.
class Ready {
    std::vector<uint64_t> words;

  public:
    int count = 0;

    explicit Ready(int turns) : words((turns + 63) / 64) {}
    void add(int turn) {
        words[turn / 64] |= uint64_t(1) << turn % 64;
        ++count;
    }
    // Removes and returns the first turn at or after `from`, else the first of all. Requires count > 0.
    int take(int from) {
        uint64_t word = words[from / 64] & ~uint64_t(0) << from % 64;
        size_t at = from / 64;
        while (!word) {
            at = (at + 1) % words.size();
            word = words[at];
        }
        words[at] &= ~(word & -word);
        --count;
        return int(at) * 64 + __builtin_ctzll(word);
    }
};

struct Grid {
    int blocks, threads, cluster;
    size_t dynamic_bytes;
    int order;
    bool late;
    void (*kernel)(void**);
    void** arguments;
    std::mt19937 random;
    void *scheduler = nullptr, *scheduler_fiber;
    char begin = 0, end = 0;
    std::string error;

    // Of the cluster that is running.
    std::vector<Block> running;
    std::vector<Copy> copies;
    std::vector<Thread*> turns;
    std::unique_ptr<Ready> ready;
    Meeting cluster_barrier;
};

Grid* grid;
Thread* self;
int first_block = 0;
const char DYNAMIC = 0;

UNSEEN void to_scheduler() {
    enter(grid->scheduler_fiber);
    switch_stacks(&self->fiber->place, grid->scheduler);
}

[[noreturn]] void fail(const std::string& what) {
    const std::string who = "block " + std::to_string(self->block->index) + ", thread " + std::to_string(self->index);
    grid->error = who + ": " + what;
    to_scheduler();
    __builtin_unreachable();
}

// A hash of the return addresses from a frame on. Kernels are compiled with frame pointers: each frame holds the
// address of the caller's frame, followed by the return address.
size_t place_of(void* frame) {
    size_t place = 0;
    const auto low = reinterpret_cast<uintptr_t>(self->fiber->stack), high = low + STACK - 2 * sizeof(void*);
    for (auto at = reinterpret_cast<uintptr_t>(frame); low <= at && at <= high;) {
        void* const* const words = reinterpret_cast<void* const*>(at);
        place = (place ^ reinterpret_cast<uintptr_t>(words[1])) * size_t(SEAL);
        const auto next = reinterpret_cast<uintptr_t>(words[0]);
        if (next <= at) break;
        at = next;
    }
    return place;
}

void wait(State state, size_t site) {
    self->state = state;
    self->site = site;
    to_scheduler();
}

void wake(Thread& thread) {
    thread.state = State::ready;
    grid->ready->add(thread.turn);
}

UNSEEN void run_thread() {
    grid->kernel(grid->arguments);
    if (self->arrived) fail("it has arrived at a cluster's barrier, and ends without waiting");
    self->state = State::done;
    release(&grid->end);
    to_scheduler();
}

UNSEEN void order_after(void* fiber, void* token) {
    void* const before = this_fiber();
    enter(fiber);
    acquire(token);
    enter(before);
}

// The fiber with this number, ordered after everything before this launch.
Fiber* fiber(int cluster, size_t number) {
    auto& pool = pools[cluster % POOLS];
    while (pool.size() <= number) pool.emplace_back(new Fiber);
    order_after(pool[number]->its, &grid->begin);
    return pool[number].get();
}

void settle(Block& block, void* at) {
    Gate& gate = block.gates[at];
    if (!gate.armed || gate.pending != 0) return;
    gate.parity ^= 1;
    gate.armed = false;
    for (Thread& thread : block.threads) {
        if (thread.state == State::at_gate && thread.gate == at && thread.parity != gate.parity) wake(thread);
    }
}

// The token through which a waiting thread is ordered after the copies of a phase; a gate's word in shared memory is
// only a seal.
void* token_of(void* gate, unsigned parity) { return static_cast<char*>(gate) + parity; }

// A bulk copy by an engine: only this is visible to ThreadSanitizer as the engine's work.
UNSEEN void carry(void* engine, void* asked, void* to, const void* from, size_t bytes, void* there) {
    void* const before = this_fiber();
    enter(engine);
    acquire(asked);
    std::memcpy(to, from, bytes);
    release(there);
    enter(before);
}

void perform(const Copy& copy) {
    Gate& gate = copy.block->gates[copy.gate];
    void* const there = token_of(copy.gate, gate.parity);
    carry(copy.block->engine->its, copy.token.get(), copy.to, copy.from, copy.bytes, there);
    gate.pending -= copy.bytes;
    settle(*copy.block, copy.gate);
}

// All threads of a warp have reached a shuffle.
void exchange(Thread* warp, int lanes) {
    unsigned char sent[WARP][WIDEST];
    for (int i = 0; i < lanes; ++i) std::memcpy(sent[i], warp[i].value, warp[i].bytes);
    for (int i = 0; i < lanes; ++i) {
        if (warp[i].site != warp->site) grid->error = "threads are at a shuffle in different places";
        if (warp[i].mask != warp->mask) grid->error = "lanes shuffle by different masks";
        const int other = i ^ warp[i].mask;
        if (other >= lanes) {
            grid->error = "a shuffle reads a lane that is not there";
        } else {
            std::memcpy(warp[i].value, sent[other], warp[i].bytes);
        }
        wake(warp[i]);
    }
}

// All threads of a block have reached a barrier.
void pass(Block& block, size_t site) {
    for (Thread& thread : block.threads) {
        if (thread.site != site) grid->error = "threads are at a barrier in different places";
        wake(thread);
    }
}

// Wakes the threads that were waiting for this one only.
void resolve(Thread& thread) {
    Block& block = *thread.block;
    if (thread.state == State::at_barrier && ++block.barrier.waiting == grid->threads) {
        block.barrier.waiting = 0;
        pass(block, thread.site);
    } else if (thread.state == State::at_shuffle) {
        const int warp = thread.index / WARP, lanes = std::min(WARP, grid->threads - warp * WARP);
        if (++block.at_shuffle[warp] == lanes) {
            block.at_shuffle[warp] = 0;
            exchange(&block.threads[warp * WARP], lanes);
        }
    }
}

bool copy_late() {
    if (grid->copies.empty()) return false;
    const size_t last = grid->copies.size() - 1, which[] = {0, last, grid->random() % (last + 1)};
    const auto at = grid->copies.begin() + which[grid->order];
    const Copy copy = std::move(*at);
    grid->copies.erase(at);
    perform(copy);
    return true;
}

void report_stuck() {
    std::string what = "threads wait for ever:";
    for (Block& one : grid->running) {
        for (int state = 1; state <= int(State::done); ++state) {
            const auto count = std::count_if(one.threads.begin(), one.threads.end(),
                                             [&](Thread& t) { return int(t.state) == state; });
            if (!count) continue;
            what += " " + std::to_string(count) + " of block " + std::to_string(one.index) + " " + NAMES[state] + ",";
        }
    }
    what.pop_back();
    grid->error = what;
}

bool sealed(void* gate) { return !std::memcmp(gate, &SEAL, sizeof SEAL); }

void report_left() {
    for (Block& one : grid->running) {
        for (auto& [at, gate] : one.gates) {
            if (!sealed(at)) grid->error = "a gate was overwritten";
            if (gate.pending) grid->error = "a block has ended, and a gate expects other bytes than have arrived";
        }
    }
    if (!grid->copies.empty()) grid->error = "a block has ended before its bulk copies";
}

void prepare_cluster(int first) {
    size_t fibers = 0;
    const int cluster = first / grid->cluster;
    grid->running.clear();
    grid->running.resize(grid->cluster);
    grid->turns.resize(grid->threads * grid->cluster);
    grid->copies.clear();
    grid->cluster_barrier = Meeting();
    grid->ready.reset(new Ready(int(grid->turns.size())));
    for (int rank = 0; rank < grid->cluster; ++rank) {
        Block& block = grid->running[rank];
        block.index = first + rank;
        block.rank = rank;
        block.threads.resize(grid->threads);
        block.at_shuffle.resize((grid->threads + WARP - 1) / WARP);
        block.engine = fiber(cluster, fibers++);
        for (int index = 0; index < grid->threads; ++index) {
            Thread& thread = block.threads[index];
            thread.block = &block;
            thread.index = index;
            thread.fiber = fiber(cluster, fibers++);
            std::memset(thread.fiber->stack + STACK - FRESH, 0xff, FRESH);
            thread.fiber->place = stack_for(thread.fiber->stack, STACK, run_thread);
            thread.turn = rank * grid->threads + index;
            if (grid->order == 1) thread.turn = int(grid->turns.size()) - 1 - thread.turn;
            grid->turns[thread.turn] = &thread;
            wake(thread);
        }
    }
}

void run_cluster() {
    const int all = int(grid->turns.size());
    int done = 0;
    while (grid->error.empty()) {
        if (!grid->ready->count) {
            if (done == all) return report_left();
            if (!copy_late()) report_stuck();
            continue;
        }
        const int from = grid->order == 2 ? int(grid->random() % all) : 0;
        self = grid->turns[grid->ready->take(from)];
        enter(self->fiber->its);
        switch_stacks(&grid->scheduler, self->fiber->place);
        done += self->state == State::done;
        resolve(*self);
    }
}

// After an error, discards all fibers: those that stopped half-way would keep their accesses hidden.
void forget_fibers() {
    for (auto& pool : pools) {
        for (auto& fiber : pool) forget_frames(fiber->stack, STACK);
        for (auto& fiber : pool) munmap(fiber->stack, STACK);
        pool.clear();
    }
}

void run_grid() {
    for (int first = first_block; first < grid->blocks && grid->error.empty(); first += grid->cluster) {
        prepare_cluster(first);
        run_cluster();
    }
    if (!grid->error.empty()) forget_fibers();
}
}  // namespace

namespace emulation {
UNSEEN int thread_index() { return self->index; }
UNSEEN int block_index() { return self->block->index; }
UNSEEN int block_count() { return grid->blocks; }
UNSEEN int cluster_rank() { return self->block->rank; }

__attribute__((noinline)) void block_barrier() {
    const Hidden hidden;
    char* const token = &self->block->barrier.token[self->barriers++ % 2];
    release(token);
    wait(State::at_barrier, place_of(__builtin_frame_address(0)));
    acquire(token);
}
__attribute__((noinline)) void cluster_arrive() {
    const Hidden hidden;
    Meeting& barrier = grid->cluster_barrier;
    const size_t site = place_of(__builtin_frame_address(0));
    if (self->arrived) fail("it arrives twice at a cluster's barrier");
    if (barrier.waiting && barrier.site != site) fail("threads arrive at a cluster's barrier in different places");
    barrier.site = site;
    self->arrived = true;
    release(&barrier.token[self->cluster_barriers % 2]);
    if (++barrier.waiting < grid->threads * grid->cluster) return;
    barrier.waiting = 0;
    ++barrier.ended;
    for (Block& block : grid->running) {
        for (Thread& thread : block.threads) {
            if (thread.state == State::at_cluster_barrier) wake(thread);
        }
    }
}
void cluster_wait() {
    const Hidden hidden;
    if (!self->arrived) fail("it waits at a cluster's barrier without having arrived");
    if (grid->cluster_barrier.ended == self->cluster_barriers) wait(State::at_cluster_barrier, 0);
    acquire(&grid->cluster_barrier.token[self->cluster_barriers++ % 2]);
    self->arrived = false;
}
__attribute__((noinline)) void shuffle_xor(void* value, size_t bytes, int mask) {
    const Hidden hidden;
    if (bytes > WIDEST) fail("a shuffle of " + std::to_string(bytes) + " bytes");
    self->value = value;
    self->bytes = bytes;
    self->mask = mask;
    wait(State::at_shuffle, place_of(__builtin_frame_address(0)));
}

void* shared(const void* place, size_t bytes) {
    const Hidden hidden;
    Shared& array = self->block->shared[place];
    if (!array.bytes) {
        array = {std::unique_ptr<unsigned char[]>(new unsigned char[bytes]), bytes};
        std::memset(array.bytes.get(), 0xff, bytes);
    }
    if (array.size != bytes) fail("one shared array has two sizes");
    return array.bytes.get();
}
unsigned char* dynamic_shared() { return static_cast<unsigned char*>(shared(&DYNAMIC, grid->dynamic_bytes)); }
const void* of_block(const void* at, int rank) {
    const Hidden hidden;
    const std::string who = "block " + std::to_string(rank) + " of the cluster";
    if (rank < 0 || rank >= grid->cluster) fail(who + " is not there");
    const Block& other = grid->running[rank];
    for (const auto& [place, array] : self->block->shared) {
        const ptrdiff_t offset = static_cast<const unsigned char*>(at) - array.bytes.get();
        if (offset < 0 || offset >= ptrdiff_t(array.size)) continue;
        const auto found = other.shared.find(place);
        if (found == other.shared.end()) fail(who + " has no such array yet");
        const bool over = std::all_of(other.threads.begin(), other.threads.end(),
                                      [](const Thread& thread) { return thread.state == State::done; });
        if (over) fail(who + " has ended before it is read");
        return found->second.bytes.get() + offset;
    }
    fail("what is read of another block is not in shared memory");
}
void require_aligned(const void* at, const char* what) {
    if (reinterpret_cast<uintptr_t>(at) % 16 == 0) return;
    const Hidden hidden;
    fail(std::string(what) + " is not at a multiple of 16");
}

void open_gate(void* gate) {
    writes(gate, sizeof SEAL);
    const Hidden hidden;
    std::memcpy(gate, &SEAL, sizeof SEAL);
    self->block->gates[gate] = Gate();
}
static Gate& opened(void* gate) {
    const auto found = self->block->gates.find(gate);
    if (found == self->block->gates.end()) fail("a gate is used before it is opened");
    if (!sealed(gate)) fail("a gate was overwritten");
    return found->second;
}
void expect_bytes(void* gate, unsigned bytes) {
    reads(gate, sizeof SEAL);
    const Hidden hidden;
    Gate& its = opened(gate);
    if (its.armed) fail("a gate is used again before its phase has ended");
    release(token_of(gate, its.parity));
    its.pending += bytes;
    its.armed = true;
    settle(*self->block, gate);
}
void copy_bulk(void* to, const void* from, unsigned bytes, void* gate) {
    require_aligned(to, "the target of a bulk copy");
    require_aligned(from, "the source of a bulk copy");
    reads(gate, sizeof SEAL);
    const Hidden hidden;
    opened(gate);
    if (bytes == 0 || bytes % 16) fail("a bulk copy of " + std::to_string(bytes) + " bytes");
    const Shared& memory = self->block->shared[&DYNAMIC];
    const ptrdiff_t offset = static_cast<unsigned char*>(to) - memory.bytes.get();
    if (offset < 0 || offset + ptrdiff_t(bytes) > ptrdiff_t(memory.size)) fail("a bulk copy leaves shared memory");
    Copy copy{to, from, bytes, gate, self->block, std::unique_ptr<char>(new char)};
    release(copy.token.get());
    if (grid->late) {
        grid->copies.push_back(std::move(copy));
    } else {
        perform(copy);
    }
}
void wait_gate(void* gate, unsigned parity) {
    reads(gate, sizeof SEAL);
    const Hidden hidden;
    if (opened(gate).parity == parity) {
        self->gate = gate;
        self->parity = parity;
        wait(State::at_gate, 0);
    }
    acquire(token_of(gate, parity));
}
}  // namespace emulation

// Later launches skip the blocks before this one, so that the end of large arrays is tested at little cost.
extern "C" void begin_at(int block) { first_block = block; }

// Runs a kernel over a grid; order is 0 forward, 1 reverse, 2 random. Returns nothing, or what went wrong.
extern "C" const char* emulate(void (*kernel)(void**), int blocks, int threads, int cluster, size_t dynamic_bytes,
                               void** arguments, int order, unsigned seed, int late) {
    static std::string error;
    const Hidden hidden;
    Grid one{};
    one.blocks = blocks;
    one.threads = threads;
    one.cluster = cluster;
    one.dynamic_bytes = dynamic_bytes;
    one.order = order;
    one.late = late;
    one.kernel = kernel;
    one.arguments = arguments;
    one.random.seed(seed);
    one.scheduler_fiber = this_fiber();
    grid = &one;
    release(&one.begin);
    run_grid();
    acquire(&one.end);
    grid = nullptr;
    error = one.error;
    return error.empty() ? nullptr : error.c_str();
}
