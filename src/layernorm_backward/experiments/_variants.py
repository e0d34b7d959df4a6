"""The variants of numba_fused: the default plan with one of its decisions taken back, or taken otherwise.

no_recentring     the mean as it was rounded, not centred again
sums_per_thread   a chunk a thread, its rows added one after the other, up to a stretch of them: the bits
                  depend on the threads
ordinary_stores   dx, or y, stored through the caches; streaming_stores: past them
no_prefetch       no line asked for ahead of its use
no_spread         lines of all rows and arrays asked for at the same distance
in_pages          single rows, asked for in several pages in turn; in_order: line after line
no_copies         mean and rstd read where they lie, not copied for many rows at a time
kept_apart        each row of a group a line behind the one before it, and the sums ahead of the results, so
                  that their lines do not meet in the first-level cache; side_by_side: neither
one_row, two_rows, four_rows   so many rows worked on at a time
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numba_pace, numba_plan
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
PAID: tuple[Variant, ...] = "no_recentring", "sums_per_thread"  # what results right at any mean, and the same
# bits whatever the threads, cost: with more repetitions than what decides between ways to the same results
_TOLD = "group", "ahead", "stream", "chunks", "block", "recentre"  # of a plan, in the table


class Shape(NamedTuple):
    """What a plan is made for: N rows of size D in a dtype, a direction, and a number of threads."""

    rows: int
    hidden: int
    dtype: str
    direction: Direction
    threads: int


_IN_PAGES = {"ahead": numba_pace.PAGE // LINE, "spread": 0, "pages": numba_pace.PAGES}
_IN_ORDER = {"ahead": numba_pace.NEXT_PAGE, "spread": numba_pace.SPREAD, "pages": 1}


def _grouped(plan: Plan, group: int) -> Plan:
    """Rows of a group are read side by side, not in pages."""
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
    """Rows of a thread, or those whose statistics are copied at a time: a block holds whole groups."""
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
        if not idle(name, plan, made[DEFAULT], shape.direction):
            yield code(shape.direction, shape.hidden, dtype_of(shape.dtype), plan)


def told(plan: Plan) -> dict[str, int | bool]:
    """What the table says of a plan."""
    return {name: getattr(plan, name) for name in _TOLD}


def idle(name: str, plan: Plan, default: Plan, direction: Direction) -> str:
    """Why a variant is not worth measuring, "" where it is."""
    if direction == "forward" and name in _BACKWARD:
        return _BACKWARD[name]
    return "the default does so" if name != DEFAULT and plan == default else ""
