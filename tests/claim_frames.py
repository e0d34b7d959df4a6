"""Small tables for the predicates of claims: just the columns that a predicate reads."""

import pandas as pd

WAYS = ("forward", "backward")


def frame(columns: str, *rows: tuple, **constant: object) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split()).assign(**constant)


def error_rows(*errors: float, scope: str = "full", quantity: str = "dx", **more: object) -> pd.DataFrame:
    keys = {"kernel": "compact", "method": "central2", "step": 1e-5, "shape": "4x8x16"}
    columns = "rel_error max_norm_error max_abs_error evaluations"
    rows = [(error, error, error, 16) for error in errors]
    return frame(columns, *rows, scope=scope, quantity=quantity, **(keys | more))


def by_method(*errors: float) -> pd.DataFrame:
    """One error of each method of differences."""
    return pd.concat([error_rows(error, method=f"central{2 + n}") for n, error in enumerate(errors)])


def derivation(*rows: tuple) -> pd.DataFrame:
    """A proof that failed is None."""
    rows = [(*row[:3], bool(row[3]), "" if row[3] is not None else "not proved") for row in rows]
    return frame("derivation gamma_kind rel_error proved reason", *rows, shape="1x1x3", quantity="dx")


def naive(first: list[float], second: float, two_pass: float) -> pd.DataFrame:
    rows = [*(("naive", it) for it in first), ("naive_s2", second), ("two_pass", two_pass)]
    return frame("algorithm computed", *rows, data="ladder", offset=1e8, hidden=5)


def exact_on(ladder: float, gaussian: float) -> pd.DataFrame:
    rows = [("ladder", ladder), ("gaussian", gaussian)]
    return frame("data rel_error_max", *rows, algorithm="two_pass", dtype="float64", offset=1e8)


def spot(alarms: int, *caught: tuple[int, bool], check: str = "elements", drawn: int = 100) -> pd.DataFrame:
    """The right kernel and faults, each with the samples of 8 that caught it and whether it is local; fewer
    elements catch nothing."""
    rows = [("none", alarms, False), *((f"fault_{n}", *it) for n, it in enumerate(caught))]
    found = frame("mutant caught_samples local", *rows, check=check, drawn=drawn, samples=8)
    found = found.assign(caught=found["caught_samples"] == 8)
    return pd.concat(
        [found, found.assign(drawn=drawn - 1, caught=False, caught_samples=0)], ignore_index=True
    )


def growth(naive: float, welford: float) -> pd.DataFrame:
    """Errors that grow as kappa to these powers, until they are lost."""
    powers = {"naive": naive, "welford": welford}
    rows = [
        (name, kappa, 1e-9 * kappa**power) for name, power in powers.items() for kappa in (1.0, 10.0, 100.0)
    ]
    rows += [(name, 1e4, 2.0) for name in powers]
    columns = "algorithm kappa rel_error_median"
    return frame(columns, *rows, dtype="float64", hidden=64, data="gaussian")


def accuracy(*naive_errors: float) -> pd.DataFrame:
    """Errors of the naive variance at kappa 1, 10, 100, ..., and of the two-pass one."""
    rows = [("naive", 10.0**power, error) for power, error in enumerate(naive_errors)]
    rows += [("two_pass", 10.0**power, 1e-16) for power in range(len(naive_errors))]
    return frame("algorithm kappa rel_error_max", *rows, dtype="float64")


def cost(*ratios: float) -> pd.DataFrame:
    return frame(
        "two_pass_ratio", *((it,) for it in ratios), algorithm="naive", dtype="float64", rows=64, hidden=64
    )


def bounds(*errors: float) -> pd.DataFrame:
    keys = {"algorithm": "naive", "accumulator": "storage", "kernel": "compact", "quantity": "dx"}
    keys |= {"dtype": "float64", "hidden": 64, "upstream": "shifted", "kappa": 1.0}
    rows = [(error, error, error) for error in errors]
    return frame("rel_error_max error_u_max bound_ratio_max", *rows, **keys)


def kernel_error(*powers: float) -> pd.DataFrame:
    """Errors of one kernel after the other that grow as kappa to these powers."""
    rows = [
        (f"kernel_{number}", kappa, 3.0 * kappa**power, 3.0 * kappa**power)
        for number, power in enumerate(powers)
        for kappa in (1.0, 10.0, 100.0)
    ]
    keys = {"quantity": "dx", "dtype": "float32", "upstream": "shifted", "hidden": 64}
    return frame("kernel kappa error_u_median error_u_max", *rows, **keys)


def cancellation(relative: float, absolute: float) -> pd.DataFrame:
    rows = [(1.0, 1.0, 1.0, 1.0), (100.0, relative, relative, absolute)]
    columns = "kappa_g error_u_median error_u_max absolute_error_u_max"
    return frame(columns, *rows, kernel="compact", dtype="float32", hidden=64)


def divisions(*cells: tuple[float, int, int]) -> pd.DataFrame:
    rows = [(std, "before", before) for std, before, _ in cells]
    rows += [(std, "after", after) for std, _, after in cells]
    return frame("std division finite_rows", *rows, upstream="normal", share=0.02, rows=64, hidden=64)


def eps_rows(stored: float, finite: bool) -> pd.DataFrame:
    rows = [(1e-8, stored, finite), (1e-5, 1e-5, True), (1e-12, 0.0, False)]
    return frame("eps eps_in_dtype finite", *rows, dtype="float16", row_kind="usual", kernel="compact")


def cases(*passed: bool, value: float = 1.0) -> pd.DataFrame:
    rows = [(f"case_{index}", it, value) for index, it in enumerate(passed)]
    return frame("case passed value", *rows, kernel="compact", dtype="float64")


def saved(arrays: int, scalars: int, size: int) -> pd.DataFrame:
    """overcached saves this, compact 3 arrays and a scalar in 100 bytes."""
    rows = [("overcached", arrays, scalars, size), ("compact", 3, 1, 100)]
    return frame("kernel saved_arrays saved_scalars saved_bytes", *rows, shape="1x1x8", dtype="float64")


def timing(forward: float, backward: float, **more: object) -> pd.DataFrame:
    rows = [("forward", forward), ("backward", backward)]
    keys = {
        "kernel": "numba_fused",
        "dtype": "float64",
        "shape": "1x1x8",
        "threads": 1,
        "rows": 1,
        "hidden": 8,
    }
    table = frame("direction median_s", *rows, **keys)
    ratio = table["median_s"]
    return table.assign(compact_ratio=ratio, compact_ratio_low=ratio, compact_ratio_high=ratio, **more)


def exponents(*found: tuple[float, float, float]) -> pd.DataFrame:
    keys = {"kernel": "overcached", "direction": "forward", "axis": "rows", "quantity": "memory", "points": 5}
    return frame("exponent exponent_low exponent_high", *found, **keys)


def peaks(*published: float) -> pd.DataFrame:
    rows = [*(("overcached", peak) for peak in published), ("numba_fused", 2 * 8 * 64.0)]
    keys = {"rows": 8, "hidden": 8, "direction": "forward", "axis": "rows", "dtype": "float64"}
    return frame("kernel peak_bytes", *rows, **keys)


def work(column: str, **counts: tuple[float, float]) -> pd.DataFrame:
    rows = [
        (name, way, count) for name, pair in counts.items() for way, count in zip(WAYS, pair, strict=True)
    ]
    return frame(f"kernel direction {column}", *rows, dtype="float64", rows=8, hidden=8)


def traffic(forward: float, backward: float, stores: str = "ordinary") -> pd.DataFrame:
    return work("modelled_bytes", numba_fused=(forward, backward)).assign(minimum_bytes=1.0, stores=stores)


def steps(forward: int, backward: int) -> pd.DataFrame:
    rows = [(way, n) for way, many in zip(WAYS, (forward, backward), strict=True) for n in range(many)]
    return frame("direction step", *rows, kernel="overcached", reads=1.0, writes=1.0)
