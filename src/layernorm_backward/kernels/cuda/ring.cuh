// Asynchronous loads: bulk copies bring the slices of the next rows into a ring of stages while one row is processed.
#pragma once
#include "row.cuh"

// A row in shared memory; column 0 would be at `begin`. Chunks that are not aligned to 16 bytes there are read element
// by element.
template <class T, class M>
struct Local {
    const T* begin;

    DEVICE Quad chunk(int, int64 column) const {
        const T* from = begin + column;
        return !M::apart || aligned(from) ? *reinterpret_cast<const Quad*>(from) : gathered(from);
    }
    DEVICE T edge(int, int column) const { return begin[column]; }
};

// A block's slices of the rows of an array (rows, hidden). Copies are of whole 16-byte pieces inside the array. What
// they leave out of the array's first and last row is written by the thread that issues them.
template <class T, class M>
struct Slices {
    const T *begin, *end;
    int hidden, first, last, before, beyond;  // before, beyond: elements of whole pieces outside first <= i < last

    DEVICE Slices(const T* array, int64 rows, const Share<T, M>& share, int64 any_row)
        : begin(array),
          end(array + rows * share.hidden),
          hidden(share.hidden),
          first(share.first),
          last(share.last),
          before(0),
          beyond(0) {
        if constexpr (M::ragged) {
            before = M::apart ? phase_of(row(any_row) + first) : (first - share.limit) & (LANES<T> - 1);
            beyond = M::apart ? head_of(row(any_row) + last) : (share.limit - last) & (LANES<T> - 1);
        }
    }
    DEVICE const T* row(int64 i) const { return begin + i * hidden; }
    DEVICE const T* local(const unsigned char* slot) const {
        return reinterpret_cast<const T*>(slot) + before - first;
    }
    DEVICE bool misses_head(const T* row) const { return M::ragged && row + first - before < begin; }
    DEVICE bool misses_tail(const T* row) const { return M::ragged && row + last + beyond > end; }

    DEVICE int low(const T* row) const { return first - before + (misses_head(row) ? LANES<T> : 0); }
    DEVICE int high(const T* row) const { return last + beyond - (misses_tail(row) ? LANES<T> : 0); }
    DEVICE unsigned bytes(const T* row) const {
        const int count = high(row) - low(row);
        return count > 0 && last > first ? count * sizeof(T) : 0;
    }
    DEVICE void complete(const T* row, T* local) const {
        if (!misses_head(row) && !misses_tail(row)) return;
#pragma unroll 1
        for (int c = first; c < low(row) && c < last; ++c) local[c] = row[c];
#pragma unroll 1
        for (int c = high(row) > first ? high(row) : first; c < last; ++c) local[c] = row[c];
    }
};

// Stages of ARRAYS slots of `slot` bytes each, in dynamic shared memory behind their gates.
template <class T, class M, int ARRAYS>
struct Ring {
    const Slices<T, M>* slices;
    int stages, slot, stage = 0;
    unsigned parity = 0;

    DEVICE Ring(const Slices<T, M>* slices_, int stages_, int slot_) : slices(slices_), stages(stages_), slot(slot_) {
        if (thread_index() == 0) {
#pragma unroll 1
            for (int s = 0; s < stages; ++s) open_gate(gate(s));
        }
        block_barrier();
    }
    // Start the copies of row i to stage s: called by one thread, once no thread reads that stage any more.
    DEVICE void fill(int s, int64 i) const {
        order_before_copies();
        unsigned bytes = 0;
#pragma unroll
        for (int a = 0; a < ARRAYS; ++a) {
            const T* row = slices[a].row(i);
            bytes += slices[a].bytes(row);
            slices[a].complete(row, const_cast<T*>(local(a, s)));
        }
        expect_bytes(gate(s), bytes);
#pragma unroll
        for (int a = 0; a < ARRAYS; ++a) {
            const T* row = slices[a].row(i);
            const int low = slices[a].low(row);
            if (slices[a].bytes(row)) {
                copy_bulk(const_cast<T*>(local(a, s) + low), row + low, slices[a].bytes(row), gate(s));
            }
        }
    }
    // Reuse the stage of the row before i, if there is one (used), for the next row to copy: no thread reads it now.
    DEVICE void refill(int64 i, int64 stride, int64 rows, bool used) const {
        const int64 ahead = i + (stages - 1) * stride;
        if (used && thread_index() == 0 && ahead < rows) fill(stage ? stage - 1 : stages - 1, ahead);
    }
    DEVICE void wait() { wait_gate(gate(stage), parity); }
    DEVICE Local<T, M> local(int array) const { return {local(array, stage)}; }
    DEVICE void advance() {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }

  private:
    DEVICE Gate* gate(int s) const { return reinterpret_cast<Gate*>(dynamic_shared()) + s; }
    DEVICE const T* local(int array, int s) const {
        const int gates = (stages * static_cast<int>(sizeof(Gate)) + 15) / 16 * 16;
        return slices[array].local(dynamic_shared() + gates + (s * ARRAYS + array) * slot);
    }
};
