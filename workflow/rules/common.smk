# Names and functions that all rules share.
#
# Small inputs that people edit are also params, by a hash of their contents: Snakemake compares input files by their
# modification time only, and would miss a file restored from a copy, or edited while its job runs.

import os
import subprocess
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

if not os.access(workflow.basedir, os.W_OK):
    raise WorkflowError(f"{workflow.basedir}: cannot be written to; allowed: a copy of it that can")

try:
    from layernorm_backward import experiments, figures
    from layernorm_backward.studies import study
    from layernorm_backward.studies.lock import release_stale
    from layernorm_backward.paper.pandoc import engine
    from layernorm_backward.records.provenance import code_hash, content_hash, title
except ModuleNotFoundError as error:
    raise WorkflowError(f"{error}: run `. .venv/bin/activate` first; `make .venv/.ready` sets .venv up")
except KeyboardInterrupt:
    raise WorkflowError("interrupted")


workdir: workflow.basedir


STARTED = time.time()
shell.prefix(f'set -euo pipefail; PATH="{Path(sys.executable).parent}:$PATH"; ')

try:
    release_stale(Path.cwd())
    CHOSEN = study.choose(config)
    STUDY = CHOSEN["study"]
    STEMS = study.stems(STUDY)
    STAND_INS = {stem: study.stand_in(stem, study.choice(stem, CHOSEN)) for stem in STEMS}
    ENGINE = engine(CHOSEN["pdf"], Path("paper"))
except ValueError as error:
    raise WorkflowError(str(error))
except KeyboardInterrupt:
    raise WorkflowError("interrupted")

RESULTS = f"results/{STUDY}"


def says(name, what):
    """The message of a rule, with braces escaped for Snakemake."""
    return f"{name}: {what}".replace("{", "{{").replace("}", "}}")


def table(stem):
    return f"{RESULTS}/tables/{stem}.csv"


def meta(stem):
    return f"{RESULTS}/tables/{stem}.meta.json"


def figure(stem, suffix):
    return f"{RESULTS}/figures/{stem}.{suffix}"


def tables_folder(wildcards):
    return f"{RESULTS}/tables"


def figures_folder(wildcards):
    return f"{RESULTS}/figures"


def measured(stem):
    return not STAND_INS[stem]


def all_cores(wildcards):
    return workflow.cores or 1


TABLES = [path(stem) for stem in (*STEMS, "comparison", "claims") for path in (table, meta)]
ARCHIVED = sorted(map(str, Path("results/archive").glob("*/[!.]*.csv")))
FIGURES = [figure(stem, suffix) for stem in figures.FIGURES for suffix in ("pdf", "png")]
ASSETS = ["paper/refs.bib", *sorted(map(str, Path("paper").glob("*/[!.]*")))]
DOCUMENTS = ("md", "tex", "html", "pdf")
PAPER = [f"{RESULTS}/paper.{suffix}" for suffix in DOCUMENTS]
