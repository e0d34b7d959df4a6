"""Launches that the CUDA kernels share: the sum of partial sums, and the arguments N and D."""

from typing import Any

import numpy as np

from layernorm_backward.kernels.cuda.machine import Launch, Machine, Program, cpp

ACROSS, DOWN = 32, 16  # of a block's threads, as ColumnMap in columns.cuh
LONG = 32768  # D from which the columns alone occupy a device, and few blocks or clusters share the rows
LONGEST = 2**31 - 2048  # D


def sizes(rows: int, hidden: int) -> tuple[np.int64, np.int32]:
    """N and D; ValueError for rows that are too long.

    Offsets have 64 bits, column indices 32, and wide.cuh counts columns up to the end of a tile of 2048.
    """
    if hidden > LONGEST:
        raise ValueError(f"D is {hidden}; allowed: at most {LONGEST}")
    return np.int64(rows), np.int32(hidden)


def add_partials(machine: Machine, partials: Any, dgamma: Any, dbeta: Any) -> None:
    """Writes the sums over the first axis of partials (parts, 2, D); zeros where there are none."""
    parts, _, hidden = partials.shape
    threads, down = ACROSS * DOWN, 1 if hidden >= LONG else DOWN
    types = (cpp(partials.dtype), cpp(dgamma.dtype), "ColumnMap", str(down))
    launch = Launch(-(-2 * hidden * down // threads), threads, early=machine.hardware.hopper)
    arguments = (partials, dgamma, dbeta, *sizes(parts, hidden))
    machine.launch(Program("columns", "add_partials", types), launch, arguments)
