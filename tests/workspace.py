"""A copy of the source tree, in which tests run and edit the workflow without touching the real one."""

import os
import re
import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LEFT_OUT = {".git", ".venv", ".snakemake", ".ruff_cache", ".pytest_cache", ".hypothesis", "results"}

FROM_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS")


def processor_s() -> float:
    """CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _left_out(folder: str, _: list[str]) -> set[str]:
    return _LEFT_OUT if Path(folder) == ROOT else set()


def _copied(path: str, target: str) -> None:
    """Compiled code is written beside its source to a file that is renamed: it may be gone by now."""
    with suppress(FileNotFoundError):
        shutil.copy2(path, target)


@dataclass(frozen=True)
class Workspace:
    """A source tree at `root`; its package is the one that is imported there."""

    root: Path

    @classmethod
    def of_sources(cls, root: Path) -> "Workspace":
        """A copy; of the results only the archive. Compiled code comes along: its files keep their times."""
        shutil.copytree(ROOT, root, ignore=_left_out, copy_function=_copied)
        shutil.copytree(ROOT / "results" / "archive", root / "results" / "archive")
        python = root / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        (root / ".venv" / ".ready").write_text(f"{root.resolve()}\n", encoding="utf-8")
        return cls(root)

    @property
    def environment(self) -> dict[str, str]:
        """The environment without the arguments of the `make` that runs the tests."""
        own = {name: value for name, value in os.environ.items() if name not in FROM_MAKE}
        return own | {"PYTHONPATH": str(self.root / "src")}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the tree; standard output and error come back together."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def snakemake(self, *arguments: str, study: str = "smoke") -> subprocess.CompletedProcess[str]:
        """Run Snakemake on a study."""
        return self.run(sys.executable, "-m", "snakemake", *arguments, "--config", f"study={study}")

    def planned(self, *arguments: str, study: str = "smoke") -> set[str]:
        """The rules that a dry run would execute, except `all`."""
        done = self.snakemake("--dry-run", *arguments, study=study)
        assert done.returncode == 0, done.stdout
        stats = done.stdout.partition("Job stats:")[2].partition("\ntotal ")[0]
        return set(re.findall(r"^(\w+) +\d+$", stats, flags=re.MULTILINE)) - {"all"}
