"""A study: the config files of one folder, and what each of its tables and figures is computed from.

Read by the workflow at each start, so nothing here imports an experiment, a figure or a kernel.
"""

import re
from collections.abc import Callable, Collection, Iterable
from itertools import dropwhile
from pathlib import Path

import yaml

from layernorm_backward import experiments, figures
from layernorm_backward.host import installed
from layernorm_backward.kernels import KERNELS, device_missing
from layernorm_backward.kernels.homes import HOMES
from layernorm_backward.records import archive
from layernorm_backward.records.provenance import code_hash, constant
from layernorm_backward.records.schemas import SCHEMAS

CONFIG = Path("config")
CHOICES: dict[str, tuple[str, ...]] = {
    "study": ("paper", "smoke", "full"),
    "pdf": ("auto", "latex", "typst"),
    "optional": ("auto", "live", "archive"),
    "gpu": ("auto", "live", "archive"),
}
_FATAL = "Fatal Python error: "  # what faulthandler says where a signal ends the process
KILLED = "error: the process was killed; short of memory?"
_FAILED = r"^Error in rule (\w+):$"
DEVICE = "a CUDA device"  # among what an experiment requires
TIMED = frozenset(
    {
        "variance_time",
        "ceiling_cpu",
        "timing_cpu",
        "peers_cpu",
        "kernel_costs",
        "stores",
        "page_offset",
        "roof_steps",
        "spells",
        "handover",
        "compile_time",
        "scaling_points",
        "traffic_cpu",
    }
)
LONG = frozenset({"audit_peers", "mean_path"})  # begun first of those that share the cores: none waits


def choose(given: dict[str, object]) -> dict[str, str]:
    """The workflow's options, the first choice of each where none is given; ValueError names a bad one."""
    for key, value in given.items():
        if key not in CHOICES:
            raise ValueError(f"--config {key}={value}: unknown option; allowed: {', '.join(CHOICES)}")
        if value not in CHOICES[key]:
            raise ValueError(f"--config {key}={value}: allowed: {', '.join(CHOICES[key])}")
    return {key: str(given.get(key, choices[0])) for key, choices in CHOICES.items()}


def stems(study: str) -> tuple[str, ...]:
    """The tables that a study measures, one for each file in config/<study>/.

    Hidden files, such as an editor's locks, are left out. Raises ValueError for one that no experiment has,
    for experiments without one, and where there are none, as elsewhere than in the repository's folder.
    """
    files = (path for path in (CONFIG / study).glob("*.yaml") if not path.name.startswith("."))
    found = tuple(sorted(path.stem for path in files))
    for stem in found:
        if stem not in experiments.EXPERIMENTS:
            known = ", ".join(experiments.EXPERIMENTS)
            raise ValueError(f"{config_path(study, stem)}: no experiment has this name; there are: {known}")
    if not found:
        raise ValueError(f"{CONFIG / study}: there are no config files; allowed: the repository's folder")
    if lacking := [str(config_path(study, it)) for it in experiments.EXPERIMENTS if it not in found]:
        raise ValueError(f"{', '.join(lacking)}: there is no such file; needed: one for each experiment")
    return found


def config_path(study: str, stem: str) -> Path:
    """The config file of one experiment."""
    return CONFIG / study / f"{stem}.yaml"


def needs(stem: str) -> tuple[str, ...]:
    """The tables that an experiment is computed from; ValueError for one that no experiment makes."""
    return _made(experiments.module_name(stem), "NEEDS", experiments.EXPERIMENTS)


def missing(stem: str) -> list[str]:
    """What an experiment requires beyond the set-up and is not here: packages, a device."""
    return [name for name in _required(stem) if _absent(name)]


def choice(stem: str, chosen: dict[str, str]) -> str:
    """Which of the workflow's options says where an optional experiment's table comes from."""
    return chosen["gpu" if on_device(stem) else "optional"]


def on_device(stem: str) -> bool:
    """Whether a table is measured on a GPU; one that no experiment makes (`claims`) is not."""
    return stem in experiments.EXPERIMENTS and DEVICE in _required(stem)


def _required(stem: str) -> tuple[str, ...]:
    return constant(experiments.module_name(stem), "REQUIRES")


def _absent(name: str) -> bool:
    return bool(device_missing()) if name == DEVICE else not installed.is_there(name)


def stand_in(stem: str, choice: str) -> Path | None:
    """The archived table that takes the place of an optional experiment; None where it is to be measured.

    choice: auto takes it where what it requires is missing and the archive holds it, archive always where it
    can.
    """
    required = _required(stem)
    wanted = choice == "archive" or (choice == "auto" and missing(stem))
    return archive.latest(stem, archive.WHOLE) if required and wanted else None


def drawn_from(figure: str) -> tuple[str, ...]:
    """The tables that a figure is drawn from; ValueError for one that has no schema."""
    return _made(figures.module_name(figure), "TABLES", SCHEMAS)


def _made(module: str, name: str, allowed: Collection[str]) -> tuple[str, ...]:
    stems = constant(module, name)
    for stem in stems:
        if stem not in allowed:
            raise ValueError(f"{module}: {name}: there is no table {stem!r}; allowed: {', '.join(allowed)}")
    return stems


def experiment_hash(study: str, stem: str) -> str:
    """Hash of the code behind a table: its experiment, and of the kernels only those its config names."""
    return code_hash(experiments.module_name(stem), _kernels(config_path(study, stem)))


def recorded_hash(stem: str, kernels: Iterable[str]) -> str:
    """Hash of the code here behind a table that was measured with these kernels; "" where one is not here."""
    try:
        return code_hash(experiments.module_name(stem), kernels)
    except ValueError:
        return ""


def figure_hash(figure: str) -> str:
    """Hash of the code behind a figure: of the module that draws it, and of that which writes it to files."""
    return code_hash(figures.module_name(figure)) + code_hash(figures.module_name("_files"))


def runs_alone(stem: str) -> bool:
    """Whether nothing may run beside an experiment, since it measures time or works on a GPU."""
    return stem in TIMED or on_device(stem)


def threads(stem: str, all_cores: Callable[..., int]) -> int | Callable[..., int]:
    """What Snakemake's `threads` takes: timed experiments run alone, so they ask for all cores."""
    return all_cores if runs_alone(stem) else 1


def priority(stem: str) -> int:
    """What Snakemake's `priority` takes: long experiments begin first, and all go before the figures (0).

    The end, from the last table to the paper, keeps one core busy; figures are drawn on the other.
    """
    return 2 if stem in LONG else 1


def errors(logs: Path, since: float, said: str = "") -> list[str]:
    """What went wrong in the jobs that wrote a log after `since`: all from the first error on, which ends a
    job, or the last line of a traceback, or the signal that ended the job; KILLED for a job without any that
    failed by what Snakemake `said`.
    """
    unsaid = {rule: KILLED for rule in re.findall(_FAILED, said, flags=re.MULTILINE)}
    recent = (path for path in sorted(logs.glob("*.log")) if path.stat().st_mtime >= since)
    told = {path: _errors(path.read_text("utf-8", "replace")) for path in recent}
    found = {path: lines or [unsaid.get(path.stem, "")] for path, lines in told.items()}
    return [f"{path}: {line}" for path, lines in found.items() for line in lines if line]


def _errors(log: str) -> list[str]:
    lines = log.rstrip().splitlines()
    told = list(dropwhile(lambda line: not line.startswith("error: "), lines))
    traced = any(line.startswith("Traceback ") for line in lines)
    return told or (lines[-1:] if traced else [line for line in lines if line.startswith(_FATAL)])


def names_foreign(path: Path) -> bool:
    """Whether a config file names a kernel of another package."""
    return any(name not in HOMES for name in _kernels(path))


def _kernels(path: Path) -> list[str]:
    """The known kernels that a config names. What is wrong in the file, its experiment tells when it runs."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    named = values.get("kernels") if isinstance(values, dict) else None
    listed = named if isinstance(named, list) else []
    return [name for name in listed if isinstance(name, str) and name in KERNELS]
