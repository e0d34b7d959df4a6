"""What the predicates about sums and about eps must say of small tables: some confirm, some do not."""

from collections.abc import Iterator

from claim_cases import Case, Tables, cases_of
from claim_frames import frame

_SUM = {"quantity": "dbeta", "dtype": "float32", "accumulator": "storage", "upstream": "shifted", "rows": 100}
_EPS = {"placement": "inside", "dtype": "float16", "upstream": "shifted"}


def sums(column: str, *values: float, **more: object) -> Tables:
    """One cell a value, all of one scheme."""
    return (frame(column, *((value,) for value in values), **(_SUM | {"scheme": "running"} | more)),)


def bounded(*ratios: float) -> Tables:
    (table,) = sums("bound_ratio_max", *ratios)
    return (table.assign(rel_error_max=1e-3),)


def exact(*cells: tuple[float, float]) -> Tables:
    return (frame("exact_share order_change", *cells, **(_SUM | {"scheme": "running"})),)


def stopped(at: float, *, last: int = 1000) -> Tables:
    """The sum of so many ones at last, in bfloat16."""
    rows = [(100, 1.0), (last, at / last)]
    keys = _SUM | {"scheme": "running", "dtype": "bfloat16"}
    del keys["rows"]
    return (frame("rows computed_share_median", *rows, **keys),)


def kernel(recentred: float, fused: float) -> Tables:
    rows = [("running", 1.0), ("chunked", 2.0), ("kernel:recentred", recentred), ("kernel:fused", fused)]
    return (frame("scheme rel_error_median", *rows, **_SUM),)


def kernel_of_few_rows(few: float, many: float) -> Tables:
    """Median errors of a kernel's sums over few and over many rows, beside 1 in pairs."""
    rows = [
        ("pairwise", 1.0, 10),
        ("kernel:fused", few, 10),
        ("pairwise", 1.0, 90),
        ("kernel:fused", many, 90),
    ]
    return (frame("scheme rel_error_median rows", *rows, **{k: v for k, v in _SUM.items() if k != "rows"}),)


def ways(*cells: tuple[float, float, float]) -> Tables:
    """Errors of running and pairwise sums, and of running ones in float64, one quantity after another."""
    names = [("running", "storage"), ("pairwise", "storage"), ("running", "float64")]
    rows = [
        (*name, f"quantity_{number}", error)
        for number, errors in enumerate(cells)
        for name, error in zip(names, errors, strict=True)
    ]
    keys = {"dtype": "float16", "upstream": "shifted", "rows": 100}
    return (frame("scheme accumulator quantity rel_error_median", *rows, **keys),)


def changes(small: list[float], large: list[float]) -> Tables:
    rows = [(0.0, float("nan")), *((1e-4, it) for it in small), *((1e-3, it) for it in large)]
    return (frame("variance dx_change", *rows, **(_EPS | {"eps": 1e-5})),)


def predicted(change: float, share: float = 1e-3) -> Tables:
    rows = [(share, change, 1e-3), (0.5, 1.0, 2.0)]
    columns = "eps_share dx_change dx_first_order"
    return (frame(columns, *rows, **(_EPS | {"eps": 1e-5, "variance": 1e-2})),)


def stored(small: float, large: float) -> Tables:
    rows = [(1e-8, small), (1e-5, large)]
    return (frame("eps eps_used", *rows, **(_EPS | {"placement": "stored", "variance": 1.0})),)


def finite(inside: bool, outside: bool) -> Tables:
    rows = [("inside", inside), ("outside", outside)]
    return (frame("placement finite", *rows, dtype="float32", upstream="shifted", eps=1e-5, variance=0.0),)


def summation() -> Iterator[Case]:
    yield from cases_of(
        "sums_within_bounds",
        1,
        {},
        confirmed=[bounded(0.9), bounded(0.9, float("nan"))],
        refuted=[bounded(0.9, 1.1)],
    )
    half, flat = sums("growth", 0.55), sums("growth", 0.05)
    yield from cases_of(
        "sums_grow_with_rows", 0.1, {"expected": 0.5}, confirmed=[half], refuted=[flat, sums("growth", 0.7)]
    )
    small, large = sums("rel_error_max", 1e-7), sums("rel_error_max", 1e-7, 0.1)
    yield from cases_of("sums_stay_below", 1e-3, {}, confirmed=[small], refuted=[large])
    yield from cases_of(
        "sums_are_lost",
        0.5,
        {},
        confirmed=[sums("rel_error_median", 0.9)],
        corrected=[sums("rel_error_median", 0.9, 0.1)],
        refuted=[sums("rel_error_median", 0.1)],
    )
    yield from cases_of(
        "running_sum_stops",
        0,
        {"at": {"bfloat16": 256}},
        confirmed=[stopped(256.0)],
        refuted=[stopped(1000.0), stopped(512.0)],
    )
    yield from cases_of(
        "sums_are_exact",
        0,
        {},
        confirmed=[exact((1.0, 0.0), (1.0, 0.0))],
        corrected=[exact((0.5, 0.0)), exact((1.0, 0.0), (0.5, 0.0), (1.0, 0.0))],
        refuted=[exact((1.0, 1e-9)), exact((1.0, 0.0), (1.0, 1e-9), (1.0, 0.0))],
    )
    good, less, wider = (1e-1, 1e-3, 1e-3), (1e-3, 1e-3, 1e-3), (1e-1, 1e-3, 0.0)
    yield from cases_of(
        "pairwise_helps",
        2,
        {"wide": "float64"},
        confirmed=[ways(good, good, good)],
        corrected=[ways(good, wider, good)],
        refuted=[ways(good, less, good), ways(good, (1e-4, 1e-3, 1e-3), good)],
    )
    orders = {"orders": {"recentred": "running", "fused": "chunked"}}
    yield from cases_of(
        "kernels_sum_like",
        1.5,
        orders,
        confirmed=[kernel(1.0, 2.2)],
        refuted=[kernel(2.0, 2.0), kernel(1.0, 1.0)],
    )
    yield from cases_of(
        "kernel_errs_no_more",
        1.0,
        {"kernel": "fused", "order": "pairwise"},
        confirmed=[kernel_of_few_rows(1.0, 0.9)],
        corrected=[kernel_of_few_rows(1.9, 0.9)],
        refuted=[kernel_of_few_rows(1.9, 1.1)],
    )


def placement() -> Iterator[Case]:
    yield from cases_of(
        "eps_changes_dx",
        0.01,
        {"below": 40, "above": 60},
        confirmed=[changes([0.02, 0.03, 0.9], [0.005, 0.0, 0.001])],
        refuted=[
            changes([0.02, 0.005, 0.03], [0.005, 0.0, 0.001]),
            changes([0.02, 0.03, 0.9], [0.005, 0.02, 0.001]),
        ],
    )
    yield from cases_of(
        "eps_change_is_first_order",
        0.05,
        {"share": 0.01},
        confirmed=[predicted(1.02e-3)],
        refuted=[predicted(1.2e-3), predicted(0.9e-3)],
    )
    yield from cases_of(
        "stored_eps_vanishes",
        3e-8,
        {},
        confirmed=[stored(0.0, 1e-5)],
        refuted=[stored(1e-8, 1e-5), stored(0.0, 0.0)],
    )
    yield from cases_of(
        "gradient_exists",
        0,
        {"where": ["inside"], "nowhere": ["outside"]},
        confirmed=[finite(True, False)],
        refuted=[finite(True, True), finite(False, False)],
    )
