"""The current commit of the code."""

import os
import subprocess
from pathlib import Path

TOLD = "LAYERNORM_COMMIT"
WHOLE, SHORT = 40, 12  # digits of a hash
ROOT = Path(__file__).resolve().parents[3]
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # lead git to another repository, as in a hook
MEASURING = ("src", "config", "paper")  # folders in which a new file makes other results
KEPT = "results/archive"  # what is promoted to it changes no later measurement


def commit(root: Path = ROOT) -> str:
    """The commit of the tree at `root`, with "+changes" where it is edited, or new files change results.

    An edit of the archive does not count.

    That of the environment variable TOLD where it is set, as for files that were copied without their
    history, or with an older one; a whole hash is shortened as git's is. "" where nothing tells.
    """
    if told := os.environ.get(TOLD):
        return told[:SHORT] if len(told) == WHOLE else told
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return ""
        edited = _git(root, "status", "--porcelain", "--untracked-files=no", "--", f":(exclude){KEPT}")
        added = _git(root, "ls-files", "--others", "--exclude-standard", "--", *MEASURING)
        return _git(root, "rev-parse", f"--short={SHORT}", "HEAD") + ("+changes" if edited or added else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def named(recorded: str) -> str:
    """A recorded commit for readers: seven digits, and whether there were changes."""
    digits, plus, changes = recorded.partition("+")
    return digits[:7] + plus + changes or "an unknown commit"


def _git(root: Path, *words: str) -> str:
    """The output of git for the tree at `root`, which may have another owner, as in a container."""
    command = ["git", "-c", f"safe.directory={root}", *words]
    environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    options = {"encoding": "utf-8", "errors": "surrogateescape", "env": environment}
    return subprocess.run(command, cwd=root, capture_output=True, check=True, **options).stdout.strip()
