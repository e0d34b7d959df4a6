"""Shared data for the tests: a seeded layer-normalization problem, and one run of the smoke study."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

from layernorm_backward import kernels
from layernorm_backward.bench import Deadline, schedule
from layernorm_backward.dtypes import dtype_of, round_to
from napping import Napping, napping
from workspace import ROOT, Workspace, processor_s

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("repeatable")


class Problem(NamedTuple):
    """x, dy (..., D); gamma, beta (D,)."""

    x: NDArray
    gamma: NDArray
    beta: NDArray
    dy: NDArray


def _problem(shape: tuple[int, ...], dtype: str = "float64", gamma_dtype: str | None = None) -> Problem:
    rng = np.random.default_rng([7, *shape])
    spread = np.broadcast_to(np.linspace(-1, 2, shape[-1]), shape)  # kappa below 3 for D >= 2
    gamma = 1 + 0.25 * rng.standard_normal(shape[-1])
    values = (
        rng.permuted(spread, axis=-1) + 0.01 * rng.standard_normal(shape),
        gamma,
        rng.standard_normal(shape[-1]),
        1 + rng.standard_normal(shape),
    )
    names = (dtype, gamma_dtype or dtype, gamma_dtype or dtype, dtype)
    return Problem(
        *(
            np.ascontiguousarray(round_to(value, dtype_of(name)))
            for value, name in zip(values, names, strict=True)
        )
    )


@pytest.fixture(scope="session")
def problem() -> Callable[..., Problem]:
    """problem(shape, dtype="float64", gamma_dtype=None) -> Problem: rows of kappa < 3, dy from N(1, 1)."""
    return _problem


class Smoke(NamedTuple):
    """A finished run of the smoke study: its tree, its results, the work that it took and what it printed."""

    workspace: Workspace
    results: Path
    processor_s: float
    output: str


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Napping:
    """The clock of timings; `time.sleep` advances it at once, and other work on the machine does not."""
    return napping(monkeypatch)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> Deadline:
    """A deadline that comes no nearer, however busy the machine is; each comparison of bench runs 3 times."""
    still = partial(Deadline, clock=lambda: 0.0)
    monkeypatch.setattr("layernorm_backward.bench.Deadline", still)
    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)
    return still(3600.0)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[kernels.Kernel], str]:
    """registered(kernel) -> its name, under which it is found as one of another package."""

    def register(kernel: kernels.Kernel) -> str:
        point = SimpleNamespace(load=lambda: kernel, value=f"theirs:{kernel.name.upper()}")
        points = kernels._points() | {kernel.name: point}
        monkeypatch.setattr(kernels, "_points", lambda: points)
        return kernel.name

    return register


@pytest.fixture
def narrow(registered: Callable[[kernels.Kernel], str]) -> str:
    """The name of a registered kernel that takes no float16."""
    return registered(
        replace(kernels.KERNELS["compact"], name="narrow", unsupported={"float16": "not so narrow"})
    )


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """One run of `snakemake --config study=smoke` from scratch; its results stay in results/test/."""
    workspace = Workspace.of_sources(tmp_path_factory.mktemp("smoke") / "tree")
    before_s = processor_s()
    done = workspace.snakemake("--cores", "all")
    worked_s = processor_s() - before_s
    results = workspace.root / "results" / "smoke"
    assert done.returncode == 0, done.stdout
    shutil.rmtree(ROOT / "results" / "test", ignore_errors=True)
    shutil.copytree(results, ROOT / "results" / "test")
    return Smoke(workspace, results, worked_s, done.stdout)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that use the smoke run go to one worker, so that there is one run."""
    for item in items:
        if "smoke" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("smoke"))
