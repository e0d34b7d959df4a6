"""Tables of one run that were measured in different environments: processor, system, version or variable.

A fact is an entry of `machine` in a table's record, under its name there. Not compared are values that the
system did not report ("" or 0), and tables from the archive, which may come from another machine. GPU tables
and CPU tables are compared separately: a run has both, and their records hold different facts.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Records = Mapping[str, Mapping[str, Any]]
INDIFFERENT = frozenset(  # numbers in tables depend on these only through `cpu` and `cores_usable`
    {
        "affinity",
        "cores_logical",
        "cores_physical",
        "load_1min",
        "matplotlib",
        "memory_bytes",
        "memory_mhz",
        "sm_mhz",
        "snakemake",
    }
)


def processor(machine: Mapping[str, Any]) -> str:
    """The processor on which a table was measured: the GPU if the record names one, else the CPU."""
    return machine.get("gpu") or machine.get("cpu", "")


def by_device(records: Records) -> list[Records]:
    """The records of tables measured on the CPU, and those of tables measured on a GPU."""
    gpu = {stem: record for stem, record in records.items() if record.get("machine", {}).get("gpu")}
    return [{stem: record for stem, record in records.items() if stem not in gpu}, gpu]


def facts(machine: Mapping[str, Any]) -> dict[str, str]:
    """Facts on which a table may depend: processor, caches, cores, system, versions, variables."""
    unnamed = INDIFFERENT | {"cpu", "gpu"}
    others = {name: value for name, value in machine.items() if name not in unnamed}
    return {name: str(value) for name, value in ({"processor": processor(machine)} | others).items() if value}


def differences(
    records: Records, mark: str = "", here: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """One text per fact that differs: "numpy 2.4.6 in 23 tables and 2.3.1 in eps, variance and 2.4.7 here".

    records: those of the tables, by stem. mark: text on both sides of a table's name. here: the description
    of the current machine, if it is to be compared as well.
    """
    own = {stem: it for stem, it in sorted(records.items()) if "archived" not in it}
    cpu, gpu = by_device(own)
    return [*_differences(cpu, mark, facts(here)), *_differences(gpu, mark, {})]


def _differences(own: Records, mark: str, here: Mapping[str, str]) -> list[str]:
    known = {f"{mark}{stem}{mark}": facts(record.get("machine", {})) for stem, record in own.items()}
    holders = {name: _holders(name, known) for name in sorted(set().union(*known.values()))}
    now = {
        name: f" and {here[name]} here" for name in holders if here.get(name, "") not in ("", *holders[name])
    }
    return [
        f"{name} {_listed(found)}{now.get(name, '')}"
        for name, found in holders.items()
        if len(found) > 1 or name in now
    ]


def _holders(name: str, known: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The tables that hold each value of a fact; the most common value comes first."""
    found: dict[str, list[str]] = {}
    for table, its in known.items():
        if name in its:
            found.setdefault(its[name], []).append(table)
    return dict(sorted(found.items(), key=lambda it: -len(it[1])))


def _listed(found: Mapping[str, list[str]]) -> str:
    """Each value with the number of tables for the most common one, and their names for the others."""
    (most, holders), *others = found.items()
    counted = f"{most} in {len(holders)} table{'s' * (len(holders) > 1)}"
    return " and ".join([counted, *(f"{value} in {', '.join(tables)}" for value, tables in others)])
