"""What the predicates about work, memory and time must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, Tables, cases_of, stacked, wrapped
from claim_frames import accuracy, cases, cost, exponents, peaks, saved, steps, timing, traffic, work

ITEMS = {"kernel": "overcached", "items": 10, "than": "compact", "arrays": 3, "scalars": 1}
ACCESSES = {"separate": 12.0, "fused": {"forward": 4.0, "backward": 5.0}}
WORK = {"published": {"forward": 6.0, "backward": 9.0}}
LEAST = {
    "over_least": {
        "non-temporal": {"forward": 1.0, "backward": 1.0},
        "ordinary": {"forward": 1.5, "backward": 1.3},
    }
}
LESS = {"kernel": "compact", "than": "overcached"}
LINEAR = (1.0, 0.95, 1.05)
MEMORY = {"published": "overcached", "bytes_each": 8}


def costs() -> Iterator[Case]:
    yield from cases_of(
        "stability_pays",
        100,
        {"most": 2.0},
        confirmed=[(accuracy(1e-8, 1e-9, 1e-8), cost(0.8, 0.1, 0.9))],
        corrected=[(accuracy(1e-16, 1e-8, 1e-6), cost(0.8)), (accuracy(1e-8, 1e-16, 1e-6), cost(0.8))],
        refuted=[
            (accuracy(1e-16, 1e-16, 1e-16), cost(0.8)),
            (accuracy(1e-8, 1e-8, 1e-16), cost(0.8)),
            (accuracy(1e-8, 1e-8, 1e-8), cost(0.2, 0.1, 0.9)),
        ],
    )
    yield from cases_of(
        "tensors_suffice",
        1,
        {"arrays": 3},
        confirmed=[(saved(3, 1, 1), cases(True))],
        corrected=[(saved(3, 2, 1), cases(True))],
        refuted=[(saved(4, 1, 1), cases(True)), (saved(3, 1, 1), cases(True, False))],
    )
    other_needs = saved(8, 2, 300).replace({"saved_scalars": {1: 2}})
    yield from cases_of(
        "saves_too_much",
        0,
        ITEMS,
        confirmed=wrapped(saved, (8, 2, 300)),
        corrected=[*wrapped(saved, (8, 4, 300)), (other_needs,)],
        refuted=wrapped(saved, (2, 1, 300)),
    )
    light, heavy = wrapped(saved, (8, 4, 300)), wrapped(saved, (8, 4, 120))
    shapes = [saved(8, 4, size).assign(shape=f"1x1x{8 + n}") for n, size in enumerate((300, 120, 300))]
    heavy.append((pd.concat(shapes),))
    twice = pd.concat([heavy[0][0], saved(8, 4, 120).query("kernel == 'overcached'")])  # at two thread counts
    yield from cases_of("saves_less", 0.5, LESS, confirmed=light, refuted=[*heavy, (twice,)])
    yield from cases_of(
        "reductions_are",
        0,
        {"expected": 2},
        confirmed=[reductions(2, True)],
        corrected=[reductions(3, True)],
        refuted=[reductions(2, False), (reductions(2, True)[0], cases(True, False))],
    )
    yield from cases_of(
        "accesses_are",
        0.2,
        ACCESSES,
        confirmed=[_accesses((12, 12), (12, 12), (4, 5))],
        corrected=[_accesses((12, 21), (6, 11), (4, 5))],
        refuted=[
            _accesses((12, 21), (6, 11), (4, 7)),
            _accesses((20, 21), (6, 6), (4, 5)),
            _accesses((12, 12), (12, 12), (4, 7)),
        ],
    )
    yield from cases_of(
        "operations_are",
        0.1,
        WORK,
        confirmed=[_operations(6, 9)],
        corrected=[_operations(7, 11), _operations(6, 20)],
        refuted=[_operations(20, 11)],
    )
    yield from cases_of(
        "passes_are",
        0,
        {"expected": 5},
        confirmed=[
            *wrapped(steps, (5, 5)),
            (steps(5, 5).assign(writes=0.0),),
            *stacked(steps(5, 5), steps(9, 9).assign(reads=0.4, writes=0.5)),
        ],
        corrected=wrapped(steps, (7, 12), (5, 7), (15, 15)),
        refuted=wrapped(steps, (7, 16), (16, 5)),
    )
    yield from cases_of(
        "traffic_is",
        0.05,
        LEAST,
        confirmed=[
            *wrapped(traffic, (1.5, 1.3), (1.0, 1.0, "non-temporal")),
            _stores((1.5, 1.3), (1.0, 1.0)),
        ],
        refuted=[
            *wrapped(traffic, (1.5, 1.5), (1.5, 1.0, "non-temporal"), (1.0, 1.3, "non-temporal")),
            _stores((1.5, 1.3), (1.5, 1.0)),
            _stores((1.7, 1.3), (1.0, 1.0)),
        ],
    )


def times() -> Iterator[Case]:
    yield from cases_of(
        "fusion_gains",
        0.1,
        {"low": 2.0, "high": 3.0},
        confirmed=wrapped(timing, (2.5, 2.5), (3.2, 1.9)),
        corrected=wrapped(timing, (9.0, 2.5)),
        refuted=wrapped(timing, (0.9, 2.5)),
    )
    ours = wrapped(timing, (1.0, 1.0))  # seconds of this machine, which no verdict rests on
    for printed, verdict in ((0.2, "corrected"), (3.2, "confirmed"), (0.3, "refuted")):
        for off in (-0.04, 0.04):
            told = _printed(forward=printed + off, backward=1.5 * printed + off if printed > 3 else printed)
            yield from cases_of("published_times", 0.05, told, **{verdict: ours})
    yield from cases_of("published_times", 0.05, _printed(0.2, 0.3), refuted=ours)
    yield from cases_of(
        "grows_linearly",
        0.1,
        {},
        confirmed=wrapped(exponents, (LINEAR, LINEAR, (0.95, 0.91, 1.09))),
        corrected=[
            (exponents(LINEAR, LINEAR, other),)
            for other in ((1.1, 1.01, 1.3), (0.9, 0.5, 0.99), (1.2, 1.11, 1.3), (0.5, 0.4, 0.6))
        ],
        refuted=wrapped(exponents, (LINEAR, LINEAR, (1.5, 1.4, 1.6))),
    )
    yield from cases_of(
        "memory_is_constant",
        0.1,
        MEMORY,
        confirmed=[_memory(0.0, 5)],
        corrected=[_memory(1.0, 2), _with_fewer_rows(_memory(1.0, 2), 5)],
        refuted=[_memory(1.0, 5), _memory([0.0, 0.0, 1.0], 5), _memory(1.0, 2, 5, 2)],
    )


def _accesses(compact: tuple, separate: tuple, fused: tuple) -> Tables:
    return (work("accesses_per_element", compact=compact, separate=separate, fused=fused),)


def _operations(forward: float, backward: float) -> Tables:
    return (work("counted_operations_per_element", compact=(forward, backward)),)


def reductions(backward: int, right: bool) -> Tables:
    return work("reductions", compact=(2, backward)), cases(right)


def _memory(exponent: float | list[float], *arrays: int) -> Tables:
    each = exponent if isinstance(exponent, list) else [exponent]
    return exponents(*((one, one, one) for one in each)), peaks(*(many * 8 * 64.0 for many in arrays))


def _with_fewer_rows(tables: Tables, arrays: int) -> Tables:
    """Points of half the rows beside, at which so many arrays are alive."""
    return tables[0], pd.concat([tables[1], peaks(arrays * 8 * 32.0).assign(rows=4)], ignore_index=True)


def _stores(ordinary: tuple[float, float], streamed: tuple[float, float]) -> Tables:
    kinds = [traffic(1.0, 1.0), traffic(*ordinary), traffic(*streamed, "non-temporal")]
    return (pd.concat(kinds, ignore_index=True),)


def _printed(forward: float, backward: float) -> dict:
    milliseconds = {"forward": 4e-5, "backward": 4e-5}
    return {"milliseconds": milliseconds, "printed": {"forward": forward, "backward": backward}}
