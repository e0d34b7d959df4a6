"""`python -m layernorm_backward audit MODULE:NAME`: options, progress, report, CSV, exit code."""

import traceback
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward import audit as audits
from layernorm_backward.audit import report
from layernorm_backward.audit.memory import require_memory
from layernorm_backward.audit.setting import STANDARD, Finding, Setting
from layernorm_backward.audit.target import load, try_out
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName
from layernorm_backward.kernels import Kernel, foreign_entry_point, version
from layernorm_backward.options import Parser, progress, require_csv, seconds, writing
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.storage import files
from layernorm_backward.untrusted import watch
from layernorm_backward.untrusted.stdout import emit, errors

DESCRIPTION = (
    "Audit an implementation of layer normalization: its gradient, the growth of its error with mean/std, "
    "eps, long sums, repeatability, edge cases. Exit code 0: all passed, 1: something failed, 2: could not "
    "be run. Example: audit my_norm:forward,backward --dtype float64 float32. `audit CONFIG.yaml TABLE.csv` "
    "measures the table audit instead."
)
ORDER = "put MODULE:NAME before --dtype"
OPTIONS = {
    "eps": "eps, inside the root",
    "rows": "rows of the sweep over mean/std",
    "hidden": "elements per row",
    "limit_u": "largest error that passes, in units of the roundoff u",
    "seed": "seed of the data",
}


def run(target: str, dtypes: Sequence[DtypeName], changes: dict[str, Any], out: Path | None) -> int:
    """Audit and print; 0 where all passed, 1 where something failed, 2 where it could not be run.

    A dtype that cannot be run is told after those that can.
    """
    try:
        setting = replace(STANDARD, **changes)
        for dtype in dtypes:
            setting.gamma_of(dtype)
        require_memory(setting, dtypes)
        if out is not None:
            require_csv(out)
            out = out.absolute()  # the kernel may change the folder
        watch.update(step=f"importing {target}")
        kernel = load(target)
        if found_by := foreign_entry_point(target):
            print(f"{target}: {found_by}", file=errors())
        faults = {dtype: _fault(kernel, dtype, setting) for dtype in dtypes}
        found = _found(kernel, [dtype for dtype in dtypes if not faults[dtype]], setting)
        if out is not None and found:
            _write(out, kernel, setting, found)
    except ValueError as error:
        print(f"error: {error}", file=errors())
        return 2
    except Exception:  # 1 would say that results are wrong
        traceback.print_exc(file=errors())
        return 2
    for fault in filter(None, faults.values()):
        print(f"error: {fault}", file=errors())
    if any(faults.values()):
        return 2
    return int(any(finding.passed is False for findings in found.values() for finding in findings))


def _fault(kernel: Kernel, dtype: DtypeName, setting: Setting) -> str:
    """Why a kernel cannot be run in a dtype; "" where it can."""
    watch.update(step=f"{kernel.name} {dtype}: trial call")
    try:
        try_out(kernel, dtype, setting.eps, setting.gamma_of(dtype))
    except ValueError as error:
        return str(error)
    return ""


def _found(kernel: Kernel, dtypes: Sequence[DtypeName], setting: Setting) -> dict[DtypeName, list[Finding]]:
    """The findings in each dtype, printed as soon as they are made."""
    found = {}
    for dtype in dtypes:
        found[dtype] = _with_progress(kernel, dtype, setting, dtypes)
        emit(("\n" if len(found) > 1 else "") + report.text(kernel, dtype, setting, found[dtype]))
        watch.update(found="")
    return found


def _write(out: Path, kernel: Kernel, setting: Setting, found: dict[DtypeName, list[Finding]]) -> None:
    """The findings as CSV, whole or not at all; the columns of the table `audit`, then gamma_dtype."""
    rows = [
        row
        for dtype, its in found.items()
        for row in report.rows(kernel, dtype, version(kernel), its, setting.gamma_of(dtype))
    ]
    table = pd.DataFrame(rows)[[*SCHEMAS["audit"].columns, "gamma_dtype"]]
    with writing(out), files.whole(out) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def _with_progress(
    kernel: Kernel, dtype: DtypeName, setting: Setting, asked: Sequence[DtypeName]
) -> list[Finding]:
    so_far: list[Finding] = []

    def keep(finding: Finding) -> None:
        so_far.append(finding)
        watch.update(found=report.so_far(kernel, dtype, setting, so_far))

    try:
        with progress(audits.steps(dtype, setting), f"{kernel.name} {dtype}") as tick:
            return audits.audit(kernel, dtype, setting, tick, asked, keep)
    except MemoryError:
        said = f"out of memory with --rows {setting.rows} --hidden {setting.hidden}; allowed here: less"
        raise ValueError(said) from None


def main(argv: Sequence[str]) -> int:
    """Parse the words after `audit`, then run."""
    given = vars(_parser().parse_args(argv))
    target, dtypes, out, limit_s = (given.pop(name) for name in ("target", "dtypes", "out", "limit_s"))
    watch.update(limit_s=f"{limit_s:g}")
    return run(target, list(dict.fromkeys(dtypes)), given, out)


def _dtype_name(word: str) -> str:
    if word not in DTYPE_NAMES:
        allowed = ", ".join(DTYPE_NAMES)
        raise ArgumentTypeError(f"{word!r} is no dtype; allowed: {allowed}; {ORDER}")
    return word


def _parser() -> Parser:
    parser = Parser(prog="python -m layernorm_backward audit", description=DESCRIPTION)
    what = (
        "MODULE is a module or a file.py; NAME is FORWARD,BACKWARD, the names of two functions, or the name "
        "of such a pair or of a Kernel object. Or the name of one of our kernels"
    )
    which = f"one or more of {', '.join(DTYPE_NAMES)} (float32); {ORDER}"
    parser.add_argument("target", metavar="MODULE:NAME", help=what)
    options = {"type": _dtype_name, "metavar": "DTYPE", "help": which}
    parser.add_argument("--dtype", nargs="+", default=["float32"], dest="dtypes", **options)
    also = "dtype of gamma and beta (that of x); with 16-bit x also float32"
    parser.add_argument("--gamma-dtype", choices=DTYPE_NAMES, help=also)
    parser.add_argument("--out", type=Path, metavar="CSV", help="also write the findings to this .csv file")
    limit = {"type": seconds, "default": watch.LIMIT_S, "metavar": "SECONDS"}
    parser.add_argument("--limit-s", **limit, help="time limit of one step, with its calls (%(default)g)")
    for name, meaning in OPTIONS.items():
        default = getattr(STANDARD, name)
        options = {"type": type(default), "default": default, "help": f"{meaning} (%(default)s)"}
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    return parser
