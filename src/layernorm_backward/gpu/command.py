"""`python -m layernorm_backward gpu --out DIR`: check the CUDA kernels on this GPU, then measure its tables.

Results are checked first; the checks by compute-sanitizer take minutes and come last. Writes
DIR/tables/<stem>.csv with its record, DIR/samples, and DIR/ledger, from which `--resume` continues; `--anew`
starts again instead. While a campaign is running in DIR, a second one there is refused. Incomplete tables
are written when the time is up, on Ctrl-C, on SIGTERM, and when a kernel hangs or makes the device unusable.
Needs numpy, pandas, PyYAML, ml_dtypes and CuPy; peers are measured where they are installed.
"""

import argparse
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from layernorm_backward.gpu import campaign
from layernorm_backward.gpu.board import Board, Gpu
from layernorm_backward.gpu.deadline import INTERRUPTED, Deadline
from layernorm_backward.gpu.part import Part
from layernorm_backward.gpu.variants import kernel_of
from layernorm_backward.kernels import device_missing, remedy
from layernorm_backward.records.provenance import code_hash
from layernorm_backward.records.revision import commit
from layernorm_backward.storage import yamlfile
from layernorm_backward.storage.alone import alone
from layernorm_backward.studies import per_dtype

STEMS = ("checks_gpu", "ceiling_gpu", "timing_gpu", "backward_error_gpu", "traffic_gpu")
ON_DEMAND = ("maps_gpu",)  # for tuning our kernels; only with --only
CONFIG = Path("config/paper")
NAMED = 5  # faults that are printed one by one


class Wanted(NamedTuple):
    """A table of a study: its experiment, and the arguments to run it with."""

    study: str
    experiment: Any
    values: dict[str, Any]


def main(words: Sequence[str], spent_s: float = 0.0) -> int:
    """Run a campaign; returns 0 if all is measured and right, else 1. Bad arguments exit with code 2.

    `spent_s` of its time has gone into imports.
    """
    given = _parser().parse_args(words)
    deadline = Deadline(60 * given.minutes - spent_s)
    try:
        wanted = _wanted(given.config, given.only or STEMS)
        if reason := device_missing():
            raise ValueError(reason + remedy(["cupy"]))
        with deadline.interruptible(), alone(given.out):
            return run(Gpu(), given.out, wanted, deadline, resume=given.resume, anew=given.anew)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"error: {INTERRUPTED}", file=sys.stderr)
    return 1


def run(
    board: Board,
    out: Path,
    wanted: Sequence[Wanted],
    deadline: Deadline,
    *,
    resume: bool = False,
    anew: bool = False,
) -> int:
    """Measure the tables of a campaign until the deadline, and write them; returns the exit code."""
    machine = board.describe()
    print(f"{machine['gpu']}, {deadline.left() / 60:.1f} minutes; tables go to {out / 'tables'}", flush=True)
    parts = []
    for study, experiment, values in wanted:
        part = Part(experiment, values)
        record = {"study": study, **_made_by(experiment, values), "machine": machine}
        part.keep_in(out, record, resume=resume, anew=anew)
        parts.append(part)
    campaign.run(board, parts, out, deadline)
    return _exit_code(parts, deadline)


def _wanted(config: Path, stems: Sequence[str]) -> list[Wanted]:
    """The requested tables, each once. ValueError for faults in their config files."""
    return [_one_wanted(config / f"{stem}.yaml") for stem in dict.fromkeys(stems)]


def _one_wanted(path: Path) -> Wanted:
    experiment = _experiment(path.stem)
    values = _config(path, experiment)
    try:
        experiment.cells(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Wanted(path.parent.name, experiment, values)


def _made_by(experiment: Any, values: Mapping[str, Any]) -> dict[str, str]:
    """The code hash and the commit of a table; the code includes the kernels behind its variants."""
    kernels = [*values.get("kernels", ()), *(kernel_of(name).name for name in values.get("variants", ()))]
    return {"code_hash": code_hash(experiment.__name__, kernels), "commit": commit()}


def _exit_code(parts: Sequence[Part], deadline: Deadline) -> int:
    """The exit code; prints why it is not 0."""
    complete = all(len(part.found) == len(part.wanted) for part in parts)
    faults = [fault for part in parts for fault in part.faults]
    if deadline.stopped:
        print(f"stopped: {deadline.stopped}", flush=True)
    if faults:
        print(f"cells that failed, or in which one of our kernels is wrong: {len(faults)}", flush=True)
        print("\n".join(f"  {fault}" for fault in faults[:NAMED]), flush=True)
    if len(faults) > NAMED:
        print("  and more: the tables say which", flush=True)
    if not complete:
        print("not all is measured: go on with --resume", flush=True)
    return 0 if complete and not faults else 1


def _experiment(stem: str) -> Any:
    return importlib.import_module(f"layernorm_backward.experiments.{stem}")


def _config(path: Path, experiment: Any) -> dict[str, Any]:
    """The arguments for an experiment's `run` from a config file; ValueError names the file and the key."""
    if not path.exists():
        raise ValueError(f"{path}: there is no such file; --config names a folder with one for each table")
    values = yamlfile.load(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path}: allowed: keys and values")
    keys = list(inspect.signature(experiment.run).parameters)
    faults = [f"{key}: unknown; allowed: {', '.join(keys)}" for key in values if key not in keys]
    faults += [f"{key}: missing" for key in keys if key not in values]
    if faults := faults or [*_numbers(values, experiment), *per_dtype.lacking(values)]:
        raise ValueError("\n".join(f"{path}: {fault}" for fault in faults))
    return values


def _numbers(values: Mapping[str, Any], experiment: Any) -> Iterator[str]:
    """Faults of the keys that hold one number; the command `check` validates all keys."""
    hints = get_type_hints(experiment.run, include_extras=True)
    for key, value in values.items():
        if getattr(hints[key], "__origin__", None) in (int, float):
            (allowed,) = hints[key].__metadata__
            if not allowed.holds(value):
                yield f"{key}: {value!r}; allowed: {allowed.said}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m layernorm_backward gpu", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for tables and ledger")
    parser.add_argument("--minutes", type=_positive, default=20.0, help="time limit (default: 20)")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="keep the cells in DIR that are still valid")
    kept.add_argument("--anew", action="store_true", help="discard the cells in DIR of these tables")
    parser.add_argument(
        "--only", action="append", choices=(*STEMS, *ON_DEMAND), help="only this table; may be repeated"
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIG, metavar="FOLDER", help=f"config files ({CONFIG})"
    )
    return parser


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text}: allowed: a number above 0")
    return value
