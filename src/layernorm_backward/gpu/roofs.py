"""The memory roof of a GPU: copy and triad, each in several implementations, of which the fastest counts.

    copy    a = b            2 useful accesses an element, the mix of the forward pass
    triad   a = b + s*c      3 useful accesses an element, the mix of the backward pass

`_cs` uses the cache-streaming hint (evict first); `_persistent` uses only as many blocks as are resident at
once, each over many pieces of the array, and not one block per piece; `copy_runtime` is cudaMemcpy.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.gpu.board import Board, Call
from layernorm_backward.kernels.cuda.machine import Launch, Program, cpp

Operation = Literal[
    "copy", "copy_cs", "copy_persistent", "copy_runtime", "triad", "triad_cs", "triad_persistent"
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
ACCESSES = {"copy": 2, "triad": 3}
SCALE = 0.5
COPY_RUNTIME = "copy_runtime"
MULTIPLY_ADD = "multiply_add"
CHAINS, ROUNDS = 8, 1 << 14  # of a thread, as multiply_adds in streams.cuh
CHUNK = 16  # bytes
THREADS = 256  # of a block, as StreamMap in streams.cuh
CHUNKS = 4  # of a thread, too
BLOCKS = 4  # of a multiprocessor, too


def kind(operation: str) -> str:
    """copy or triad."""
    return operation.partition("_")[0]


def of(direction: str) -> list[str]:
    """The streams that are the roof of a pass."""
    wanted = {"forward": "copy", "backward": "triad"}[direction]
    return [name for name in OPERATIONS if kind(name) == wanted]


def stream(board: Board, operation: str, a: Any, b: Any, c: Any) -> Call:
    """A call that runs one stream over arrays of one dtype and size; a tail below 16 bytes is left out."""
    if operation == COPY_RUNTIME:
        return lambda: board.copy(a, b)
    count = a.nbytes // CHUNK
    pieces = -(-count // (THREADS * CHUNKS))
    if operation.endswith("_persistent"):
        pieces = min(pieces, BLOCKS * board.machine.hardware.multiprocessors)
    program = _stream(operation, a.dtype)
    arguments = (a, b, c, sum_dtype(a.dtype).type(SCALE), np.int64(count))
    return lambda: board.machine.launch(program, Launch(pieces, THREADS), arguments)


def multiply_adds(board: Board, dtype: str) -> Call:
    """A call that performs `operations(board)` multiplications and additions in registers."""
    wide = sum_dtype(dtype_of(dtype))
    out = board.xp.empty(_threads(board), wide)
    program = _multiply_adds(wide)
    arguments = (out, wide.type(SCALE), np.int32(ROUNDS))
    return lambda: board.machine.launch(program, Launch(_threads(board) // THREADS, THREADS), arguments)


def operations(board: Board) -> int:
    """Multiplications and additions of one call of `multiply_adds`."""
    return 2 * CHAINS * ROUNDS * _threads(board)


def programs(operations: Iterable[str], dtype: str) -> list[Program]:
    """The programs of streams over arrays of a dtype, and of multiply_add; the runtime's copy needs none."""
    storage = dtype_of(dtype)
    found = [
        _multiply_adds(sum_dtype(storage)) if name == MULTIPLY_ADD else _stream(name, storage)
        for name in operations
        if name != COPY_RUNTIME
    ]
    return list(dict.fromkeys(found))  # the number of blocks is no part of a program


def _stream(operation: str, dtype: np.dtype) -> Program:
    flags = (kind(operation) == "triad", operation.endswith("_cs"))
    return Program("streams", "stream", (cpp(dtype), *(str(flag).lower() for flag in flags), "StreamMap"))


def _multiply_adds(wide: np.dtype) -> Program:
    return Program("streams", "multiply_adds", (cpp(wide), "StreamMap"))


def _threads(board: Board) -> int:
    return board.machine.hardware.multiprocessors * BLOCKS * THREADS
