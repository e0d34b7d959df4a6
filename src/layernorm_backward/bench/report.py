"""A table `bench` as a text report."""

import math
from collections.abc import Iterator

import pandas as pd

from layernorm_backward.bench.setting import Setting
from layernorm_backward.bench.timed import RESULTS
from layernorm_backward.kernels import Kernel, version
from layernorm_backward.records.waited import MOST
from layernorm_backward.timing import sizing
from layernorm_backward.timing.cell_roof import ROOFS

NO_ROOF = 1.5  # its time over that of the kernel
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_ROOFS = {name for pair in ROOFS.values() for name in pair}
_HEADER = (
    f"  {'compared with':22}{'its time':>10}{'GB/s':>9}{'your time':>11}{'ratio':>9}  {'95 % interval':18}"
    f"{'runs':>5}  verdict"
)


def text(kernel: Kernel, setting: Setting, found: pd.DataFrame) -> str:
    """Per direction the kernel's time and errors, its working set, and what it was compared with."""
    name = " ".join(filter(None, [kernel.name, version(kernel) and f"({version(kernel)})"]))
    threads = "1 thread" if setting.threads == 1 else f"{setting.threads} threads"
    rows = "1 row" if setting.rows == 1 else f"{setting.rows} rows"
    sizes = f"{rows} of {setting.hidden} {setting.dtype}, gamma {setting.gamma_dtype}"
    lines = [f"{name}: {sizes}, {threads}"]
    for direction in setting.directions:
        lines += ["", *_of_direction(found[found["direction"] == direction], setting)]
    return "\n".join(lines)


def _of_direction(rows: pd.DataFrame, setting: Setting) -> Iterator[str]:
    first = rows.iloc[0]
    spread = f"{_amount(first['p20_s'], _TIMES)} to {_amount(first['p80_s'], _TIMES)}"
    speed = f"{first['useful_gb_per_s']:.3g} GB/s of useful bytes"
    yield f"{first['direction']:13}{_amount(first['median_s'], _TIMES)} (20 to 80 %: {spread}), {speed}"
    results = RESULTS[first["direction"]]
    yield "  errors     " + ", ".join(f"{name} {first[f'{name}_error_u']:.3g} u" for name in results)
    yield f"  arrays     {_working_set(first, setting)}"
    yield _HEADER
    yield from (_comparison(row) for _, row in rows.iterrows())
    yield "  ratio = its time / your time; faster, slower: the interval excludes 1, and the ratio differs"
    yield f"  from 1 by more than the noise ({first['noise']:.2g})"
    if (share := rows["waited_share"].max()) > MOST:
        yield f"  other processes ran: in up to {share:.0%} of the samples a thread waited for a core"
    if first["ratio_low"] > NO_ROOF:
        yield f"  {_no_roof(setting)}"


def _no_roof(setting: Setting) -> str:
    """Why the roof may be slower than the kernel."""
    if setting.threads == 1:
        return "the roof is slower than your kernel, so it is not a limit: the machine was busy"
    return (
        "the roof is slower than your kernel, so it is not a limit: its threads waited, because the arrays\n"
        "  are small (use --threads 1) or the machine was busy"
    )


def _working_set(row: pd.Series, setting: Setting) -> str:
    size, times = _amount(row["bytes"], _BYTES), row["bytes"] / sizing.cache_bytes()
    assumed = f" ({sizing.assumed()})" if sizing.assumed() else ""
    said = f"{size}, {times:.2g} times the last-level cache{assumed}"
    if row["residency"] == "memory":
        return f"{said}: larger than it"
    where = {"cache": "within it", "partly": "partly in it"}[row["residency"]]
    return f"{said}: {where}; larger than it from {_beyond(row, setting)}"


def _beyond(row: pd.Series, setting: Setting) -> str:
    one = sizing.touched(row["direction"], 1, setting.hidden, setting.dtype)
    rows = math.ceil(sizing.beyond_cache() / one)
    fits = rows * setting.arrays_bytes(1) <= sizing.memory_limit()
    return f"--rows {rows} on" + ("" if fits else ", more than the memory holds")


def _comparison(row: pd.Series) -> str:
    name = f"{row['against']} (roof)" if row["against"] in _ROOFS else row["against"]
    if row["reason"]:
        return f"  {name:22}not timed: {row['reason']}"
    known = math.isfinite(row["ratio_low"])
    interval = f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}" if known else "-"
    verdict = ("faster" if row["ratio"] > 1 else "slower") if row["differs"] else "no difference"
    verdict = verdict if known else "too few runs"
    its, yours = (_amount(row[key], _TIMES) for key in ("against_median_s", "median_s"))
    numbers = f"{its:>10}{row['against_gb_per_s']:9.3g}{yours:>11}{row['ratio']:9.3g}"
    return f"  {name:22}{numbers}  {interval:18}{row['repeats']:5}  {verdict}"


def _amount(value: float, units: tuple[tuple[float, str], ...]) -> str:
    scale, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / scale:.{4 if value / scale >= 100 else 3}g} {unit}"
