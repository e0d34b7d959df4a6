"""Installed packages and their versions; a query for a dotted name imports its parents."""

from functools import cache
from importlib import metadata
from importlib.util import find_spec


def is_there(name: str) -> bool:
    """Whether a module of this name, which may be dotted, can be imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def version(distribution: str) -> str:
    """The version of a distribution, such as "cupy-cuda13x"; "" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def of_import(name: str) -> str:
    """The version of the distribution that provides an import name ("cupy"); "" if none does."""
    return version(_distribution(name.partition(".")[0]))


@cache
def _distribution(package: str) -> str:
    return metadata.packages_distributions().get(package, [package])[0]
