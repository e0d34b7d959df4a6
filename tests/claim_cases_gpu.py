"""What the predicates about a GPU must say of small tables."""

from collections.abc import Iterator

import numpy as np

from claim_cases import Case, Tables, cases_of, stacked
from claim_cases_goals import with_interval
from claim_frames import frame
from layernorm_backward.directions import TENSORS

CHECKS = ("results", "far", "apart", "strided", "unaligned", "repeats")
STAY = {"warp": 512, "chip": 65536}
LAUNCHES = {"fused": "cuda_fused", "separate": "cuda_separate", "low": 4, "high": 5}
ACCESSES = {"kernel": "cuda_separate", "accesses": {"forward": 12.0, "backward": 12.0}}
GAIN = {"separate": "cuda_separate", "low": 2.0, "high": 3.0}
REACH = {"column": "roof_fraction", "hidden": [[1024, 16384]]}
PEERS = {"ours": ["cuda_fused"], "least": 1.0}
KEYS = {"direction": "backward", "dtype": "float32", "gamma_dtype": "float32", "threads": 1, "reason": ""}


def gpu() -> Iterator[Case]:
    yield from cases_of(
        "gpu_checks_pass",
        0,
        {},
        confirmed=[_checked(*((check, True) for check in CHECKS), ("repeats", None))],
        refuted=[_checked(("results", True), (failing, False)) for failing in CHECKS],
    )
    yield from cases_of(
        "gpu_rows_stay",
        32,
        STAY,
        confirmed=[_checks("results", (32, True, 1.0), (33, False, 99.0), (1024, True, 1.0))],
        corrected=[_checks("results", (8, True, 1.0), (33, True, 1.0), (1024, True, 1.0))],
        refuted=[
            _checks("results", (8, True, 1.0), (33, True, 1.0), (1024, False, 99.0)),
            _checks("results", (8, False, 99.0), (9, True, 1.0), (64, False, 99.0)),
            _checks("results", (8, True, 1.0), (64, True, 1.0), (65, False, 99.0)),
            _checks("results", (33, True, 1.0), (7, True, 1.0), (8, False, 99.0)),
        ],
    )
    yield from cases_of(
        "gpu_sums_repeat",
        0,
        {},
        corrected=[_checks("repeats", (64, True, 0.0), (65, True, 0.0), (66, True, 0.0))],
        **{"not measured": [_checks("repeats", (64, True, 0.0), (65, False, 2.0), (66, True, 0.0))]},
    )
    yield from cases_of(
        "gpu_launches_are",
        0,
        LAUNCHES,
        confirmed=[_launches((1, 4), (1, 5))],
        corrected=[
            _launches(*pairs)
            for pairs in (((1, 8), (2, 12)), ((2, 4), (1, 4)), ((1, 4), (1, 3)), ((1, 6), (1, 4)))
        ],
        refuted=[_launches((5, 4), (1, 4)), _launches((1, 4), (4, 4))],
    )
    yield from cases_of(
        "gpu_accesses_are",
        1,
        ACCESSES,
        confirmed=[_accesses([12.0], [12.0, 12.6])],
        corrected=[
            _accesses(*found)
            for found in (([9.0], [27.0]), ([27.0], [9.0]), ([12.0], [12.0, 13.5]), ([12.0], [12.0, 10.5]))
        ],
        refuted=[_accesses([27.0], [27.0]), _accesses([13.5], [13.5])],
    )
    yield from cases_of(
        "gpu_fusion_gains",
        0.1,
        GAIN,
        confirmed=[
            _ratios((64, "cuda_separate", 1.9), (128, "cuda_separate", 3.2)),
            *stacked(
                *_ratios((64, "cuda_separate", 2.5)), *_ratios((64, "cuda_separate", 0.5), residency="cold")
            ),
        ],
        corrected=[_ratios((64, "cuda_separate", 7.0))],
        refuted=[_ratios((64, "cuda_separate", 0.9), (65, "cuda_separate", 2.5))],
    )
    yield from cases_of(
        "gpu_cells_reach",
        0.95,
        REACH,
        confirmed=[_fractions((1024, 0.95), (64, 0.1))],
        corrected=[_fractions((1024, 0.95), (4096, 0.9))],
        refuted=[_fractions((16384, 0.9))],
    )
    yield from cases_of(
        "gpu_peers_take",
        1.3,
        PEERS,
        confirmed=[_ratios((64, "liger", 1.3), (64, "jax", 9.0), (128, "jax", 1.5), (64, "cuda_fused", 1.0))],
        corrected=[_ratios((64, "liger", 0.9), (128, "jax", 9.0)), _ratios((64, "liger", 1.1))],
        refuted=[_ratios((64, "liger", 0.9))],
    )
    yield from cases_of(
        "gpu_traffic_is",
        1.05,
        {"least": 0.95},
        confirmed=[_traffic(("cuda_fused", 1.05, 2.0), ("cuda_fused", 0.95, 2.0))],
        corrected=[
            _traffic(*(("cuda_fused", over, 2.0) for over in (1.0, other, 1.0))) for other in (1.2, 0.9)
        ],
        refuted=[_traffic(("cuda_fused", 1.3, 2.0))],
    )
    yield from cases_of(
        "gpu_errors_stay",
        4.0,
        {"kappa": 1e6},
        confirmed=[_errors((1e3, 2.0), (1e6, 4.0), (1e7, 99.0))],
        corrected=[_errors((1e3, 2.0), (1e6, 4.1))],
        refuted=[_errors((10, 5.0))],
    )
    yield from cases_of(
        "gpu_errors_within_bounds",
        1.0,
        {},
        confirmed=[_errors((10, 3.0), (1e3, 9.0), bounds=(3.0, none)) for none in (np.nan, np.inf)],
        refuted=[
            _errors((10, 3.0), (1e3, 9.0), bounds=(3.0, 8.9)),
            _errors((10, 3.0), (1e3, np.inf), bounds=(3.0, 8.9)),
        ],
    )


def unmeasured_gpu() -> Iterator[Case]:
    """Tables of a run without a device, and cells of another kind."""
    nothing = [
        _checks("results", (1024, None, np.nan), reason="no CUDA device"),
        _checks("memcheck", (64, True, 0.0)),
    ]
    yield from cases_of("gpu_checks_pass", 0, {}, **{"not measured": nothing})
    yield from cases_of("gpu_rows_stay", 32, STAY, **{"not measured": nothing})
    yield from cases_of("gpu_sums_repeat", 0, {}, **{"not measured": nothing})
    bytes_missing = {"not measured": [_traffic(("cuda_fused", np.nan, np.nan), reason="no CUDA device")]}
    yield from cases_of("gpu_launches_are", 0, LAUNCHES, **bytes_missing)
    one_way = [_launches((1, 4), None), _launches(None, (1, 5)), _launches((1, 4), (1, np.nan))]
    yield from cases_of("gpu_launches_are", 0, LAUNCHES, **{"not measured": one_way})
    yield from cases_of("gpu_accesses_are", 1, ACCESSES, **bytes_missing)
    one_way = [_accesses([12.0], []), _accesses([], [12.0]), _accesses([12.0], [np.nan])]
    yield from cases_of("gpu_accesses_are", 1, ACCESSES, **{"not measured": one_way})
    yield from cases_of("gpu_traffic_is", 1.05, {"least": 0.95}, **bytes_missing)
    times_missing = {"not measured": [_ratios((64, "cuda_separate", np.nan), reason="no CUDA device")]}
    yield from cases_of("gpu_fusion_gains", 0.1, GAIN, **times_missing)
    yield from cases_of("gpu_peers_take", 1.3, PEERS, **times_missing)
    yield from cases_of("gpu_cells_reach", 0.95, REACH, **{"not measured": [_fractions((1024, np.nan))]})
    yield from cases_of("gpu_errors_stay", 4.0, {"kappa": 1e6}, **{"not measured": [_errors((1e7, 1.0))]})
    for bounds in (np.nan, np.inf):
        unbounded = {"not measured": [_errors((10, 1.0), bounds=bounds)]}
        yield from cases_of("gpu_errors_within_bounds", 1.0, {}, **unbounded)


def _checks(check: str, *cells: tuple[int, bool | None, float], reason: str = "") -> Tables:
    keys = KEYS | {"kernel": "cuda_fused", "check": check, "rows": 9, "reason": reason}
    return (frame("hidden passed value", *cells, **keys),)


def _checked(*cells: tuple[str, bool | None]) -> Tables:
    keys = KEYS | {"kernel": "cuda_fused", "rows": 9, "hidden": 64, "value": 2.5}
    return (frame("check passed", *cells, **keys),)


def _traffic(*cells: tuple[str, float, float], reason: str = "") -> Tables:
    keys = KEYS | {"rows": 9, "hidden": 1024, "reason": reason}
    return (frame("kernel measured_over_minimum launches", *cells, **keys),)


def _accesses(forward: list[float], backward: list[float]) -> Tables:
    """Accesses of an element by cuda_separate in each cell; cuda_fused has both directions counted."""
    rows = [("cuda_fused", way, 1.0) for way in TENSORS]
    rows += [
        ("cuda_separate", way, many / TENSORS[way])
        for way, found in (("forward", forward), ("backward", backward))
        for many in found
    ]
    return (frame("kernel direction measured_over_minimum", *rows, dtype="float32", hidden=1024, reason=""),)


def _launches(forward: tuple[int, float] | None, backward: tuple[int, float] | None) -> Tables:
    """Kernels that cuda_fused and cuda_separate launch in float32; the fused ones are one in bfloat16."""
    rows = [("cuda_fused", way, "bfloat16", 1.0) for way in ("forward", "backward")]
    rows += [
        (kernel, way, "float32", float(many))
        for way, pair in (("forward", forward), ("backward", backward))
        for kernel, many in zip(("cuda_fused", "cuda_separate"), pair or (), strict=bool(pair))
    ]
    return (frame("kernel direction dtype launches", *rows, hidden=1024, reason=""),)


def _ratios(*cells: tuple[int, str, float], reason: str = "", residency: str = "memory") -> Tables:
    keys = KEYS | {"rows": 9, "residency": residency, "reason": reason}
    return (with_interval(frame("hidden kernel ours_ratio", *cells, **keys), "ours_ratio"),)


def _fractions(*cells: tuple[int, float]) -> Tables:
    keys = KEYS | {"rows": 9, "residency": "memory", "kernel": "cuda_fused"}
    return (with_interval(frame("hidden roof_fraction", *cells, **keys), "roof_fraction"),)


def _errors(*cells: tuple[float, float], bounds: tuple[float, ...] | float = np.nan) -> Tables:
    keys = KEYS | {"kernel": "cuda_fused", "hidden": 1024}
    return (frame("kappa error_u_max", *cells, **keys).assign(bound_u=bounds, bound_ratio_max=np.nan),)
