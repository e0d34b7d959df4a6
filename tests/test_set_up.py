"""The set-up: a fault is told in one line with its remedy. Programs are replaced by fakes on PATH."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from workspace import ROOT

TOOLS = ("sh", "dirname", "cat", "rm", "grep", "sed", "mkdir", "chmod", "id")
GOOD = """
case "$*" in
    --version) echo "Python 3.12.1" ;;
    "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
    "-m pip install"*) echo "$*" >>pip.calls; {pip} ;;
esac
"""
OLD = 'case "$*" in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac'
NO_VENV = 'case "$*" in "-c import ensurepip"*) exit 1 ;; *) exit 0 ;; esac'


class Sandbox:
    """A folder with the set-up script and a PATH on which only fakes and basic tools stand."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "tree", root / "bin"
        for folder in (self.root / "workflow", self.bin):
            folder.mkdir(parents=True)
        for script in (ROOT / "workflow").glob("*.sh"):
            shutil.copy(script, self.root / "workflow")
        for tool in (*TOOLS, "cp"):
            (self.bin / tool).symlink_to(shutil.which(tool))

    def fake(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)  # a link would lead to the tool itself
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", *command],
            cwd=self.root,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            check=False,
        )

    def fault(self, *command: str) -> str:
        """The one line that a failing command prints on standard error."""
        done = self.run(*command)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        return line


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_without_python(sandbox):
    line = sandbox.fault("workflow/set-up.sh")
    assert line.startswith("set-up: python3 was not found: install Python 3.11 or newer")


def test_with_an_old_python(sandbox):
    sandbox.fake("python3", OLD)
    line = sandbox.fault("workflow/set-up.sh")
    assert line.startswith("set-up: Python 3.11 or newer is needed, but python3 is Python 3.9.2")


def test_a_newer_python_beside_an_old_one_is_found(sandbox):
    sandbox.fake("python3", OLD)
    sandbox.fake("python3.12", GOOD.format(pip="exit 0"))
    assert sandbox.run("workflow/set-up.sh").returncode == 0


def test_an_old_python_by_name(sandbox):
    sandbox.fake("python3", GOOD.format(pip="exit 0"))
    sandbox.fake("mine", OLD)
    assert "but mine is Python 3.9.2" in sandbox.fault("workflow/set-up.sh", "mine")


def test_without_the_venv_module(sandbox):
    sandbox.fake("python3", NO_VENV)
    line = sandbox.fault("workflow/set-up.sh")
    assert line.startswith(
        "set-up: python3 lacks its venv module: install it (Debian: apt-get install python3-venv)"
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("NewConnectionError: Temporary failure in name resolution", "check network and proxy"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "clear pip's cache"),
        ("ERROR: Could not build wheels", "try another, as in make PYTHON=python3.12"),
    ],
)
def test_when_pip_fails(sandbox, said, told):
    sandbox.fake("python3", GOOD.format(pip=f'echo "{said}" >&2; exit 1'))
    assert told in sandbox.fault("workflow/set-up.sh")
    assert not (sandbox.root / ".venv" / ".ready").exists()


def test_packages_come_from_the_lock_with_hashes(sandbox):
    sandbox.fake("python3", GOOD.format(pip="exit 0"))
    assert sandbox.run("workflow/set-up.sh").returncode == 0
    locked, package = (sandbox.root / "pip.calls").read_text(encoding="utf-8").splitlines()
    assert "--require-hashes -r requirements.lock" in locked
    assert "--no-deps" in package
    assert (sandbox.root / ".venv" / ".ready").read_text(encoding="utf-8").strip() == str(
        sandbox.root.resolve()
    )


def test_an_interrupted_set_up_goes_on_with_its_environment(sandbox):
    sandbox.fake("python3", GOOD.format(pip="exit 1"))
    assert sandbox.run("workflow/set-up.sh").returncode == 1
    (sandbox.root / ".venv" / "kept").touch()
    sandbox.fake("python3", GOOD.format(pip="exit 0"))
    shutil.copy(sandbox.bin / "python3", sandbox.root / ".venv" / "bin" / "python")
    assert sandbox.run("workflow/set-up.sh").returncode == 0
    assert (sandbox.root / ".venv" / "kept").exists()


def test_an_environment_that_was_moved_is_made_anew(sandbox):
    sandbox.fake("python3", GOOD.format(pip="exit 0"))
    assert sandbox.run("workflow/set-up.sh").returncode == 0
    (sandbox.root / ".venv" / "old").touch()
    moved = sandbox.root.rename(sandbox.root.with_name("moved"))
    sandbox.root = moved
    assert sandbox.run("workflow/set-up.sh").returncode == 0
    assert not (moved / ".venv" / "old").exists()


def test_tex_where_there_is_no_apt_get(sandbox):
    line = sandbox.fault("workflow/tex.sh", "latexmk", "lmodern")
    assert line.startswith("tex: install a TeX distribution with latexmk")
    assert line.endswith("latexmk lmodern")


def test_tex_where_apt_get_fails(sandbox):
    for name in ("apt-get", "sudo"):
        sandbox.fake(name, "exit 100")
    assert sandbox.fault("workflow/tex.sh", "latexmk").startswith(
        "tex: apt-get failed: check network and rights"
    )


def test_tex_without_the_rights_of_root_uses_sudo(sandbox):
    sandbox.fake("apt-get", "exit 0")
    sandbox.fake("id", "echo 1000")
    sandbox.fake("sudo", 'echo "$*" >>sudo.calls')
    assert sandbox.run("workflow/tex.sh", "latexmk").returncode == 0
    calls = (sandbox.root / "sudo.calls").read_text(encoding="utf-8")
    assert calls.splitlines()[-1] == "apt-get install -q -y --no-install-recommends latexmk"


def test_a_compiler_that_is_there_is_kept(sandbox):
    sandbox.fake("g++", 'echo "g++ 12.2.0"; echo more')
    sandbox.fake("apt-get", "exit 100")
    done = sandbox.run("workflow/compiler.sh")
    assert (done.returncode, done.stdout) == (0, "g++ 12.2.0\n")


def test_a_compiler_that_is_missing_is_installed(sandbox):
    assert sandbox.fault("workflow/compiler.sh").endswith("install g++; Debian names these packages: g++")
    sandbox.fake("id", "echo 0")
    sandbox.fake("apt-get", 'echo "$*" >>apt.calls')
    assert sandbox.run("workflow/compiler.sh").returncode == 0
    calls = (sandbox.root / "apt.calls").read_text(encoding="utf-8")
    assert calls.splitlines()[-1] == "install -q -y --no-install-recommends g++"


def test_a_compiler_that_cannot_be_installed(sandbox):
    for name in ("apt-get", "sudo"):
        sandbox.fake(name, "exit 100")
    line = sandbox.fault("workflow/compiler.sh")
    assert line.startswith("compiler: apt-get failed: check network and rights, then run make compiler again")


@pytest.fixture
def linux(sandbox: Sandbox) -> Sandbox:
    """A sandbox that says it is Linux on arm64, with an environment of which pip may be faked."""
    sandbox.fake("uname", "case $1 in -s) echo Linux ;; -m) echo aarch64 ;; esac")
    (sandbox.root / ".venv").mkdir()
    (sandbox.root / ".venv" / "bin").symlink_to(sandbox.bin)
    return sandbox


def test_cuda_comes_from_its_lock_with_hashes(linux):
    linux.fake("python", 'echo "$*" >>pip.calls; echo "cupy-cuda13x 14.2.0"; echo "numpy 2.4.6"')
    done = linux.run("workflow/cuda.sh")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "cupy-cuda13x 14.2.0"
    install, _ = (linux.root / "pip.calls").read_text(encoding="utf-8").splitlines()
    assert "--no-deps --require-hashes -r workflow/cuda.lock" in install


@pytest.mark.parametrize("part", ["cuda", "model"])
def test_an_optional_part_when_pip_fails(linux, part):
    linux.fake("python", "echo no network; exit 1")
    line = linux.fault(f"workflow/{part}.sh")
    assert line.startswith(f"{part}: pip could not install them: check network")
    assert (linux.root / ".venv" / f"{part}.log").read_text(encoding="utf-8") == "no network\n"


def test_the_model_comes_from_its_lock_with_hashes(linux):
    linux.fake("python", 'echo "$*" >>pip.calls; printf "Name: safetensors\\nVersion: 1\\nSummary: none\\n"')
    done = linux.run("workflow/model.sh")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == ["Name: safetensors", "Version: 1"]
    install, _ = (linux.root / "pip.calls").read_text(encoding="utf-8").splitlines()
    assert "--no-deps --require-hashes -r workflow/model.lock" in install


def test_cuda_on_another_platform(sandbox):
    sandbox.fake("uname", "case $1 in -s) echo Darwin ;; -m) echo arm64 ;; esac")
    line = sandbox.fault("workflow/cuda.sh")
    assert line == "cuda: CuPy and NVIDIA's compiler are for Linux, x86-64 or arm64; this is Darwin arm64"


def locked(path: str) -> set[str]:
    """The packages of a lock file."""
    return set(
        re.findall(r"^([a-z][\w.-]*)==", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    )


@pytest.mark.parametrize("group", ["cuda", "model"])
def test_the_lock_of_an_optional_part_holds_its_group_and_nothing_that_is_locked_already(group):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    packages = locked(f"workflow/{group}.lock")
    assert packages == {re.match(r"[\w-]+", one)[0] for one in groups[group]}
    assert packages & locked("requirements.lock") == set()
    assert "://" not in (ROOT / f"workflow/{group}.lock").read_text(encoding="utf-8")


def test_make_lists_its_targets():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"paper", "test", "lint", "smoke", "tex", "compiler", "cuda", "promote", "clean"} <= set(targets)


def test_make_lock_without_uv(tmp_path):
    (tmp_path / "sh").symlink_to(shutil.which("sh"))
    (tmp_path / "cat").symlink_to(shutil.which("cat"))
    make = shutil.which("make")
    done = subprocess.run(
        [make, "lock"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith("make lock needs uv: install it")
