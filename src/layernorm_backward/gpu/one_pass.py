"""Runs one pass of a kernel or peer on this GPU, for a profiler or sanitizer to observe.

python -m layernorm_backward.gpu.one_pass KERNEL DIRECTION DTYPE ROWS HIDDEN: the profiler's range is that
pass. Prints DONE at its end.
"""

import sys

from layernorm_backward.gpu import contenders
from layernorm_backward.gpu.board import Gpu
from layernorm_backward.gpu.rows import Pool

EPS, SEED = 1e-5, 1
DONE = "the pass is done"


def main(name: str, direction: str, dtype: str, rows: str, hidden: str) -> None:
    """Run both passes once, then the requested one inside the profiler's range."""
    board = Gpu()
    board.xp.cuda.set_allocator(None)  # no pool: memcheck sees where arrays end, initcheck which are new
    given = Pool(board, SEED).arrays(int(rows), int(hidden), dtype, dtype)
    timed = contenders.prepare(board, name, given, EPS, [direction]).passes[direction]
    board.synchronize()
    board.xp.cuda.profiler.start()
    timed.call()
    board.synchronize()
    board.xp.cuda.profiler.stop()
    print(DONE, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
