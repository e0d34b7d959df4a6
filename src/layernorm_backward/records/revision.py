"""The current commit of the code."""

import os
import subprocess
from pathlib import Path

VARIABLE = "LAYERNORM_COMMIT"
WHOLE, SHORT = 40, 12  # digits of a hash
ROOT = Path(__file__).resolve().parents[3]
REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # to another repository, as in a hook
MEASURING = ("src", "config", "paper")  # folders in which a new file may change results
KEPT = "results/archive"  # promotions to it change no later measurement


def commit(root: Path = ROOT) -> str:
    """The commit of the tree at `root`, with "+changes" if it is edited or has new files in MEASURING.

    An edit of the archive does not count. The environment variable LAYERNORM_COMMIT overrides the commit, for
    files copied without their history or with an older one; a full hash in it is shortened. "" if unknown.
    """
    if given := os.environ.get(VARIABLE):
        return given[:SHORT] if len(given) == WHOLE else given
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return ""
        edited = _git(root, "status", "--porcelain", "--untracked-files=no", "--", f":(exclude){KEPT}")
        added = _git(root, "ls-files", "--others", "--exclude-standard", "--", *MEASURING)
        return _git(root, "rev-parse", f"--short={SHORT}", "HEAD") + ("+changes" if edited or added else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def named(recorded: str) -> str:
    """A recorded commit for readers: seven digits, and "+changes" if there were any."""
    digits, plus, changes = recorded.partition("+")
    return digits[:7] + plus + changes or "an unknown commit"


def _git(root: Path, *words: str) -> str:
    """The output of git for the tree at `root`, even if it has another owner, as in a container."""
    command = ["git", "-c", f"safe.directory={root}", *words]
    environment = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    done = subprocess.run(command, cwd=root, capture_output=True, check=True, env=environment)
    return os.fsdecode(done.stdout).strip()
