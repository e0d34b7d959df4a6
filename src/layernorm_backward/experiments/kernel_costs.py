"""What each decision of numba_fused costs or brings: the kernel as it is against it with one taken back.

A cell is a working set, dtype, hidden size, direction and thread count. Its variants (`_variants`) and the
default run interleaved on the same arrays, the default twice, which gives the noise. The cost of the decision
is time(default)/time(variant) - 1, the median of pairs; below 0 it saves time.

Variants are checked before they are timed: error_u_max is the largest error of some rows of the timed arrays.
kappa_error_u_max is that of rows whose mean is kappa standard deviations, which re-centring is for: its cost
and its benefit stand in one row. bits_equal: whether all results equal those of the default bit for bit, with
any number of threads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NotRequired

import pandas as pd

from layernorm_backward.compilation import compile_codes
from layernorm_backward.experiments import _cells, _variant_checks
from layernorm_backward.experiments._arguments import (
    AtLeast,
    ByDtype,
    Count,
    Kappa,
    Listed,
    Positive,
    Seconds,
    Seed,
    Several,
)
from layernorm_backward.experiments._cells import Cell
from layernorm_backward.experiments._variant_cells import Checks, measured
from layernorm_backward.experiments._variants import Shape, Variant, codes, plan_columns, plans
from layernorm_backward.kernels.numba_calls import Code
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import difference
from layernorm_backward.timing.timed import together


class Sweep(_cells.Sweep):
    """Every combination is a cell, of all variants but those left out: some take long to compile."""

    without: NotRequired[Several[Variant]]


def run(
    *,
    variants: Several[Variant],
    sweeps: Listed[Sweep],
    kappas: ByDtype[Kappa],
    repeats: Count,
    at_least: AtLeast,
    paid_at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    bit_rows: Count,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per variant and cell, the default among them; `budget_s` is for the repetitions of one cell.

    `paid_at_least` repetitions are for the default and for what re-centring and sums in a fixed order cost.
    """
    checks = Checks(error_rows, bit_rows, error_limit_u, kappas, seed)
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    wanted = _wanted(variants, sweeps)
    sizes = {cell: _cells.sized(cell) for cell in wanted}  # before memory is taken
    compile_codes(code for cell, size in sizes.items() for code in _codes(cell, size.rows, wanted[cell]))
    rows, samples = [], []
    for cell, about, arrays in _cells.posed(sizes, seed, "kernel_costs"):
        made = plans(wanted[cell], _shape(cell, about["rows"], cell.threads))
        found, timed = measured(cell, made, arrays, checks, how, paid_at_least)
        rows += [{"variant": name} | about | plan_columns(made[name]) | found[name] for name in made]
        samples += timed
    return difference.judged(table(rows, "kernel_costs"), "cost", same=0.0), together(samples)


def _wanted(variants: Iterable[Variant], sweeps: list[Sweep]) -> Mapping[Cell, list[Variant]]:
    """The variants of each cell, in their order: those that one of its sweeps does not leave out."""
    left_out: dict[Cell, set[Variant]] = {}
    for sweep in sweeps:
        without = set(sweep.get("without", ()))
        for cell in _cells.cells([sweep]):
            left_out[cell] = left_out.get(cell, without) & without
    return {cell: [name for name in variants if name not in left_out[cell]] for cell in _cells.cells(sweeps)}


def _shape(cell: Cell, rows: int, threads: int) -> Shape:
    return Shape(rows, cell.hidden, cell.dtype, cell.direction, threads)


def _codes(cell: Cell, rows: int, variants: Iterable[str]) -> Iterator[Code]:
    """The compiled code for a cell of `rows` rows, and for the rows with a large mean."""
    yield from codes(variants, _shape(cell, rows, cell.threads))
    yield from codes(variants, _shape(cell, _variant_checks.ROWS, 1))
