"""`python -m layernorm_backward bench --kernel NAME`: progress, report, CSV, exit code."""

import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
from numba import config as numba_config

from layernorm_backward import bench as benches
from layernorm_backward.audit.target import load, try_out
from layernorm_backward.bench import report
from layernorm_backward.bench.contenders import BRIEF_S, own_runs, too_slow
from layernorm_backward.bench.setting import EPS, Deadline, Setting
from layernorm_backward.bench.time_limit import TooSlowError
from layernorm_backward.bench_options import BASELINES, DIRECTIONS
from layernorm_backward.kernels import KERNELS, Kernel, missing
from layernorm_backward.options import progress, require_csv, require_writable, writing
from layernorm_backward.records import tables
from layernorm_backward.records.record import Started, begin, record
from layernorm_backward.timing.timed import allowed_threads, most_threads
from layernorm_backward.untrusted import watch
from layernorm_backward.untrusted.stdout import emit, errors

_NOT_SET = ("kernel", "out", "direction", "threads", "limit_s")  # options that no Setting has as they are
AUDITED = "float32"  # where `audit` is given no dtype


def run(target: str, setting: Setting, out: Path | None, deadline: Deadline) -> int:
    """Time and print; 0 where that went well, 1 where results are wrong, 2 where it could not be run."""
    try:
        if out is not None:
            require_csv(out)
            require_writable(tables.meta_path(out))
            out = out.absolute()  # the kernel may change the folder
        kernel = load(target)
        started = begin(benches.__name__, _used(kernel))
        _require_timeable(kernel, setting, deadline)
        with progress(benches.steps(kernel, setting), f"{kernel.name} {setting.dtype}") as tick:
            found = benches.bench(kernel, setting, deadline, tick)
        emit(report.text(kernel, setting, found))
        if out is not None:
            _write(out, kernel, setting, found, started)
    except benches.WrongError as error:
        print(f"error: {error}; not timed; {_audit(target, setting)}", file=errors())
        return 1
    except ValueError as error:
        print(f"error: {error}", file=errors())
        return 2
    except MemoryError:
        sizes = f"--rows {setting.rows} --hidden {setting.hidden}"
        print(f"error: out of memory with {sizes}; allowed here: less", file=errors())
        return 2
    except Exception:  # 1 would say that results are wrong
        traceback.print_exc(file=errors())
        return 2
    return 0


def main(given: dict[str, Any], spent_s: float = 0.0) -> int:
    """Run with the options that were given; imports have taken `spent_s`."""
    target, out, directions, threads, limit_s = (given.pop(name) for name in _NOT_SET)
    given["gamma_dtype"] = given["gamma_dtype"] or given["dtype"]
    deadline = Deadline(given["seconds"], spent_s=spent_s)
    watch.update(step=f"importing {target}", limit_s=f"{given['seconds'] + limit_s:g}")
    try:
        setting = Setting(directions=DIRECTIONS[directions], threads=_count(threads), **given)
    except ValueError as error:
        print(f"error: {error}", file=errors())
        return 2
    return run(target, setting, out, deadline)


def _audit(target: str, setting: Setting) -> str:
    """The command that audits the same kernel in the same dtypes."""
    command = f"audit {target}" + ("" if setting.dtype == AUDITED else f" --dtype {setting.dtype}")
    also = "" if setting.gamma_dtype == setting.dtype else f" --gamma-dtype {setting.gamma_dtype}"
    return f"`{command}{also}` says more"


def _count(threads: str) -> int:
    if threads != "all" and not threads.isdecimal():
        raise ValueError(f"threads is {threads!r}; allowed: {allowed_threads()}")
    return most_threads() if threads == "all" else int(threads)


def _require_timeable(kernel: Kernel, setting: Setting, deadline: Deadline) -> None:
    if kernel.device != "cpu":
        here = f"; {missing(kernel)}" if missing(kernel) else ""
        raise ValueError(f"{kernel.name} runs on {kernel.device}; bench times kernels on the CPU{here}")
    if numba_config.DISABLE_JIT:
        raise ValueError("NUMBA_DISABLE_JIT is set; unset it: the roof and our kernels are compiled")
    try:
        _require_short_calls(kernel, setting, deadline)
    except TooSlowError as error:
        raise too_slow(kernel, error, setting, deadline) from None
    except ValueError as error:
        name = "" if str(error).startswith(kernel.name) else f"{kernel.name}: "
        raise ValueError(f"{name}{error}") from None


def _require_short_calls(kernel: Kernel, setting: Setting, deadline: Deadline) -> None:
    """TooSlowError where calls on three rows take too long already; the first of two may compile."""
    watch.update(step=f"{kernel.name} {setting.dtype}: trial call")
    for _ in range(2):
        started = perf_counter()
        try_out(kernel, setting.dtype, EPS, setting.gamma_dtype)
        its_s = perf_counter() - started
        deadline.note("importing and a first call")
        if own_runs(setting) * its_s <= max(deadline.left(), BRIEF_S):
            return
    raise TooSlowError(its_s, deadline.left(), 0)


def _write(out: Path, kernel: Kernel, setting: Setting, found: pd.DataFrame, started: Started) -> None:
    """The table as CSV with its meta beside it, each whole or not at all."""
    config = vars(setting) | {"kernel": kernel.name, "source": kernel.source, "kernels": _used(kernel)}
    meta = record(config, "bench", started)
    with writing(out):
        tables.write(found, out, meta, stem="bench")


def _used(kernel: Kernel) -> list[str]:
    """The kernels that are timed, as far as they have names that the registry knows."""
    return [name for name in (kernel.name, *BASELINES) if name in KERNELS]
