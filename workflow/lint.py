"""Runs `snakemake --lint`; every finding fails except that a rule has no container of its own.

The software is pinned once for all rules, in requirements.lock.
"""

import re
import subprocess
import sys

ALLOWED = "Specify a conda environment or container for each rule."


def main() -> int:
    """Print all other findings; returns 1 if there is one, or if Snakemake could not read the workflow."""
    command = [sys.executable, "-m", "snakemake", "--lint"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    places = re.findall(r"^Lints for (.+?):\n((?:    .*\n)+)", said, flags=re.MULTILINE)
    if not places:
        print(said, file=sys.stderr)
        return 1
    found = [
        f"{place}: {finding}"
        for place, text in places
        for finding in re.findall(r"^    \* (.+):$", text, flags=re.MULTILINE)
        if finding != ALLOWED
    ]
    print("\n".join(found) or "snakemake --lint: nothing found but that no rule has a container of its own")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
