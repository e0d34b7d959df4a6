"""One table of a study: an experiment is run with its config file, and leaves table, samples and record."""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward import experiments
from layernorm_backward.records import schemas, tables, waited
from layernorm_backward.records.record import begin, record
from layernorm_backward.studies import config, study
from layernorm_backward.untrusted import stdout


def measure(stem: str, config_path: Path, table: Path) -> None:
    """Run the experiment; ValueError or OSError for what is wrong in its config, its values or its files."""
    tables.require_name(table, stem)
    if stem in study.TIMED or study.on_device(stem):
        tables.require_folder(tables.samples_path(table))
    require_schema(stem)
    name = experiments.module_name(stem)
    experiment = importlib.import_module(name)
    needs = study.needs(stem)
    try:
        arguments = config.load(config_path, experiment.run, needs)
    except config.ConfigError as error:
        raise ValueError("\nerror: ".join(str(error).splitlines())) from None
    inputs = {need: tables.read(table.with_name(f"{need}.csv")) for need in needs}
    started = begin(name, arguments.get("kernels", ()), _device(stem))

    def keep(measured: pd.DataFrame, samples: pd.DataFrame | None = None) -> None:
        told = record(arguments, config_path.parent.name, started)
        if samples is not None:
            tables.write_samples(samples, tables.samples_path(table))
            told |= _waited(samples)
        tables.write(measured, table, told)
        stdout.emit(f"{table}: {len(measured)} rows")

    with explained(config_path):
        if study.on_device(stem):
            from layernorm_backward.gpu import campaign

            result = campaign.live(experiment, arguments, keep)
        else:
            result = experiment.run(**arguments, **inputs)
    keep(*result if isinstance(result, tuple) else (result,))


def require_schema(stem: str) -> None:
    """ValueError for an experiment whose table could not be made, before it is measured."""
    if stem not in schemas.SCHEMAS:
        raise ValueError(f"{stem}: its table has no schema; give it one in {schemas.__file__}")


def _waited(samples: pd.DataFrame) -> dict[str, float]:
    """For the record: in which share of the samples a thread waited for a core, where they tell."""
    share = waited.share(samples) if "waited" in samples else math.nan
    return {} if math.isnan(share) else {waited.WAITED: share}


def _device(stem: str) -> dict[str, Any]:
    """The description of the GPU that a table is measured on; nothing for other tables, and without a GPU."""
    if not study.on_device(stem):
        return {}
    from layernorm_backward.gpu import campaign

    return campaign.described()


@contextmanager
def explained(config_path: Path) -> Iterator[None]:
    """Inside, what a value of a config file leads to is an error that names the file."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{config_path}: {error}") from error
    except MemoryError as error:
        wanted = f": {error}" if str(error) else ""
        raise ValueError(f"{config_path}: out of memory{wanted}; allowed: smaller sizes") from error
