"""One direction, timed: the kernel beside its roof, then beside each baseline; rows of the table `bench`."""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.bench.contenders import Contenders
from layernorm_backward.bench.data import Data
from layernorm_backward.bench.schedule import SHORTEST_S, repetitions
from layernorm_backward.bench.setting import Deadline, Setting
from layernorm_backward.directions import AnyDirection
from layernorm_backward.problem import Results
from layernorm_backward.records import waited
from layernorm_backward.timing import cell_roof, sizing
from layernorm_backward.timing.difference import differs
from layernorm_backward.timing.pace import untimed
from layernorm_backward.timing.prepared import ACCESSES

RESULTS = {"forward": Results._fields[:1], "backward": Results._fields[1:], "both": Results._fields}
ROOF = "roof"
Call = Callable[[], object]


class Group(NamedTuple):
    """Calls that run interleaved, and the seconds of one run of each."""

    calls: dict[str, Call]
    seconds: dict[str, float]

    def cost_s(self) -> float:
        """Seconds of one repetition of all."""
        return sum(untimed(its) * its + max(its, SHORTEST_S) for its in self.seconds.values())


def time_direction(
    name: str,
    direction: AnyDirection,
    setting: Setting,
    data: Data,
    found: Contenders,
    deadline: Deadline,
    tick: Callable[[str], None],
) -> list[dict[str, Any]]:
    """One row for the roof and one for each baseline; `deadline` is that of this direction."""
    size = sizing.touched(direction, setting.rows, setting.hidden, setting.dtype)
    cell = _keys(name, direction, setting) | {"bytes": size, "residency": sizing.residency(size)}
    cell |= {f"{result}_error_u": found.ready[name].errors_u[result] for result in RESULTS[direction]}
    groups = _groups(name, direction, data, found, cell["residency"])
    costs_s = {against: group.cost_s() for against, group in groups.items()}
    reasons, noise, rows = dict(found.left_out), 0.0, []
    for against, group in groups.items():
        tick(f"{direction}: {against}")
        repeats = repetitions(costs_s, deadline.left())
        cost_s = costs_s.pop(against)
        if against != ROOF and cost_s > deadline.left():
            reasons[against] = f"a repetition takes {cost_s:.2g} s, over the {deadline.left():.2g} s left"
            continue
        samples = _samples(group, repeats, setting, 2 * repeats * cost_s)
        if against == ROOF:
            noise = cell_roof.noise(samples)
            against = cell_roof.fastest(samples, direction)
        rows.append(cell | {"against": against} | _measured(samples, name, against, noise, cell, setting))
    return rows + [cell | {"against": other, "reason": why} for other, why in reasons.items()]


def _groups(
    name: str, direction: AnyDirection, data: Data, found: Contenders, residency: str
) -> dict[str, Group]:
    streams = cell_roof.with_noise(cell_roof.streams(direction, data.arrays), residency)
    own = Group({name: found.ready[name].calls[direction]}, {name: found.ready[name].seconds[direction]})
    groups = {ROOF: _joined(own, Group(streams, {key: _once(call) for key, call in streams.items()}))}
    for other, ready in found.ready.items():
        if other != name:
            beside = Group({other: ready.calls[direction]}, {other: ready.seconds[direction]})
            groups[other] = _joined(own, beside)
    return groups


def _joined(first: Group, second: Group) -> Group:
    return Group(first.calls | second.calls, first.seconds | second.seconds)


def _samples(group: Group, repeats: int, setting: Setting, seconds: float) -> pd.DataFrame:
    """`repeats` repetitions; fewer where they last longer than `seconds`, against what was foreseen."""
    return stopwatch.compare(
        group.calls,
        repeats=repeats,
        at_least=1,
        budget_s=seconds,
        seed=setting.seed,
        known_s=group.seconds,
    )


def _measured(
    samples: pd.DataFrame, name: str, against: str, noise: float, cell: Mapping[str, Any], setting: Setting
) -> dict[str, Any]:
    ratio = stopwatch.ratio(samples, against, name)
    own, other = (stopwatch.summary(samples, which) for which in (name, against))
    useful = ACCESSES[cell["direction"]] * setting.rows * setting.row_bytes
    return {
        **own._asdict(),
        "useful_gb_per_s": useful / own.median_s / 1e9,
        "against_median_s": other.median_s,
        "against_gb_per_s": useful / other.median_s / 1e9,
        **ratio.columns("ratio"),
        "noise": noise,
        "waited_share": waited.share(samples),
        "differs": differs(ratio, noise),
    }


def _keys(name: str, direction: AnyDirection, setting: Setting) -> dict[str, Any]:
    keys = {key: getattr(setting, key) for key in ("dtype", "gamma_dtype", "rows", "hidden", "threads")}
    return {"kernel": name, "direction": direction} | keys


def _once(call: Call) -> float:
    """Seconds of a run that compiles nothing: the second one."""
    call()
    started = perf_counter()
    call()
    return perf_counter() - started
