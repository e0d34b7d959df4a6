"""Tables of one run that were measured in different environments: processor, system, version or variable.

A fact is an entry of `machine` in a table's record, under the name that it has there. What the system did not
tell ("" or 0) is not compared; nor is a table from the archive, which is known to be from elsewhere. Tables
from a GPU and others are compared apart: a run has both, and their records tell of different things.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Records = Mapping[str, Mapping[str, Any]]
INDIFFERENT = frozenset(  # no number in a table depends on these, beyond what `cpu` and `cores_usable` tell
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
    """The processor that a table was measured on: the GPU if there is one in the record, else the CPU."""
    return machine.get("gpu") or machine.get("cpu", "")


def by_device(records: Records) -> list[Records]:
    """The records of tables measured on the CPU, and those of tables measured on a GPU."""
    gpu = {stem: record for stem, record in records.items() if record.get("machine", {}).get("gpu")}
    return [{stem: record for stem, record in records.items() if stem not in gpu}, gpu]


def facts(machine: Mapping[str, Any]) -> dict[str, str]:
    """What the numbers of a table may depend on: processor, caches, cores, system, versions, variables."""
    unnamed = INDIFFERENT | {"cpu", "gpu"}
    others = {name: value for name, value in machine.items() if name not in unnamed}
    return {name: str(value) for name, value in ({"processor": processor(machine)} | others).items() if value}


def differences(
    records: Records, mark: str = "", here: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """One text a fact that differs: "numpy 2.4.6 in 23 tables and 2.3.1 in eps, variance and 2.4.7 here".

    records are those of the tables, by stem; `mark` stands on both sides of the name of a table; `here`
    describes the machine as it is now, where that counts.
    """
    own = {stem: it for stem, it in sorted(records.items()) if "archived" not in it}
    cpu, gpu = by_device(own)
    return [*_differences(cpu, mark, facts(here)), *_differences(gpu, mark, {})]


def _differences(own: Records, mark: str, here: Mapping[str, str]) -> list[str]:
    told = {f"{mark}{stem}{mark}": facts(record.get("machine", {})) for stem, record in own.items()}
    holders = {name: _holders(name, told) for name in sorted(set().union(*told.values()))}
    now = {
        name: f" and {here[name]} here" for name in holders if here.get(name, "") not in ("", *holders[name])
    }
    return [
        f"{name} {_listed(found)}{now.get(name, '')}"
        for name, found in holders.items()
        if len(found) > 1 or name in now
    ]


def _holders(name: str, told: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The tables that hold each value of a fact; the value of most tables comes first."""
    found: dict[str, list[str]] = {}
    for table, known in told.items():
        if name in known:
            found.setdefault(known[name], []).append(table)
    return dict(sorted(found.items(), key=lambda it: -len(it[1])))


def _listed(found: Mapping[str, list[str]]) -> str:
    """Each value and who holds it: those that most tables hold are counted, of the others they are named."""
    (most, holders), *others = found.items()
    counted = f"{most} in {len(holders)} table{'s' * (len(holders) > 1)}"
    return " and ".join([counted, *(f"{value} in {', '.join(tables)}" for value, tables in others)])
