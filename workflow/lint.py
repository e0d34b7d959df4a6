"""Runs `snakemake --lint`; every finding is a failure, except that a rule has no container.

The software of all rules is pinned in requirements.lock.
"""

import re
import subprocess
import sys

ALLOWED = "Specify a conda environment or container for each rule."


def main() -> int:
    """Print findings that are not allowed; returns 1 if there are any, or Snakemake reports an error."""
    command = [sys.executable, "-m", "snakemake", "--lint"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    places = re.findall(r"^Lints for (.+?):\n((?:    .*\n)+)", output, flags=re.MULTILINE)
    if not places:
        print(output, file=sys.stderr)
        return 1
    found = [
        f"{place}: {finding}"
        for place, text in places
        for finding in re.findall(r"^    \* (.+):$", text, flags=re.MULTILINE)
        if finding != ALLOWED
    ]
    print("\n".join(found) or "snakemake --lint: no findings, except that no rule has a container")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
