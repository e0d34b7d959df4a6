"""The variants of numba_fused: the default plan with one decision undone, or made differently.

no_recentring     x - mean is not centred again, so that the rounding error of the mean stays
sums_per_thread   one chunk per thread, its rows added one after the other, up to a stretch of them: the bits
                  depend on the number of threads
ordinary_stores   dx, or y, written with ordinary stores; streaming_stores: with non-temporal stores
no_prefetch       no software prefetch
no_spread         the same prefetch distance for lines of all rows and arrays
in_pages          single rows, prefetched from several pages in turn; in_order: line after line
no_copies         mean and rstd read from their arrays, not copied for many rows at a time
kept_apart        each row of a group one line behind the row before, and the sums ahead of the results, so
                  that their lines do not conflict in the first-level cache; side_by_side: neither
one_row, two_rows, four_rows   this many rows processed at a time
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numba_plan, numba_tuning
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_calls import Code, code
from layernorm_backward.kernels.numba_plan import Plan

Variant = Literal[
    "no_recentring",
    "sums_per_thread",
    "ordinary_stores",
    "streaming_stores",
    "no_prefetch",
    "no_spread",
    "in_pages",
    "in_order",
    "no_copies",
    "kept_apart",
    "side_by_side",
    "one_row",
    "two_rows",
    "four_rows",
]
DEFAULT = "default"
# These show what accuracy at any mean, and bits independent of the number of threads, cost. They get more
# repetitions than variants with the same results.
PAID: tuple[Variant, ...] = "no_recentring", "sums_per_thread"
_PLAN_COLUMNS = "group", "ahead", "stream", "chunks", "block", "recentre"  # of a plan, in the table


class Shape(NamedTuple):
    """The arguments of a plan: N rows of size D in a dtype, a direction, and a number of threads."""

    rows: int
    hidden: int
    dtype: str
    direction: Direction
    threads: int


_IN_PAGES = {"ahead": numba_tuning.PAGE // LINE, "spread": 0, "pages": numba_tuning.PAGES}
_IN_ORDER = {"ahead": numba_tuning.NEXT_PAGE, "spread": numba_tuning.SPREAD, "pages": 1}


def _grouped(plan: Plan, group: int) -> Plan:
    """The plan with groups of this many rows, which are read line after line, not in pages."""
    return plan._replace(group=group, **(_IN_ORDER if plan.pages > 1 else {}))


_MAKE: dict[str, Callable[[Plan, Shape], Plan]] = {
    "no_recentring": lambda plan, _: plan._replace(recentre=False),
    "sums_per_thread": lambda plan, shape: plan._replace(chunks=shape.threads, block=_share(plan, shape)),
    "ordinary_stores": lambda plan, _: plan._replace(stream=False),
    "streaming_stores": lambda plan, _: plan._replace(stream=True),
    "no_prefetch": lambda plan, _: plan._replace(ahead=0, spread=0, pages=1),
    "no_spread": lambda plan, _: plan._replace(spread=0),
    "in_pages": lambda plan, _: plan._replace(group=1, lag=False, **_IN_PAGES),
    "in_order": lambda plan, _: plan._replace(**_IN_ORDER) if plan.pages > 1 else plan,
    "no_copies": lambda plan, _: plan._replace(stretch=0),
    "kept_apart": lambda plan, _: plan._replace(lag=plan.group > 1),
    "side_by_side": lambda plan, _: plan._replace(lag=False),
    "one_row": lambda plan, _: plan._replace(group=1),
    "two_rows": lambda plan, _: _grouped(plan, 2),
    "four_rows": lambda plan, _: _grouped(plan, 4),
}

_BACKWARD = {
    "no_recentring": "the forward pass always re-centres",
    "sums_per_thread": "the forward pass has no sums over rows",
    "no_copies": "the forward pass reads no mean and rstd",
}


def _share(plan: Plan, shape: Shape) -> int:
    """Rows per thread in whole groups, at most those whose statistics are copied at a time."""
    groups = -(-shape.rows // plan.group)
    share = -(-groups // shape.threads) * plan.group
    return min(share, plan.stretch // plan.group * plan.group) if plan.stretch else share


def plans(variants: Iterable[str], shape: Shape) -> dict[str, Plan]:
    """The default plan of a shape, and that of each variant."""
    default = numba_plan.choose(
        shape.rows, shape.hidden, dtype_of(shape.dtype), shape.direction, shape.threads
    )
    return {DEFAULT: default} | {name: _MAKE[name](default, shape) for name in variants}


def codes(variants: Iterable[str], shape: Shape) -> Iterator[Code]:
    """The compiled code that the default and the variants worth measuring run on rows of whole lines."""
    made = plans(variants, shape)
    for name, plan in made.items():
        if not skip_reason(name, plan, made[DEFAULT], shape.direction):
            yield code(shape.direction, shape.hidden, dtype_of(shape.dtype), plan)


def plan_columns(plan: Plan) -> dict[str, int | bool]:
    """The columns that describe a plan."""
    return {name: getattr(plan, name) for name in _PLAN_COLUMNS}


def skip_reason(name: str, plan: Plan, default: Plan, direction: Direction) -> str:
    """Why a variant is not measured; "" where it is."""
    if direction == "forward" and name in _BACKWARD:
        return _BACKWARD[name]
    return "the default does so" if name != DEFAULT and plan == default else ""
