"""Machine-readable metadata of an archive folder: ro-crate-metadata.json, https://w3id.org/ro/crate/1.2.

Generated from the folder's files and its provenance.json, the docstrings of the experiments and CITATION.cff,
so no fact is stated twice. The same folder gives the same bytes.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, Entity
from rocrate.rocrate import ROCrate

from layernorm_backward import experiments
from layernorm_backward.host import installed
from layernorm_backward.records import tables
from layernorm_backward.records.archive import ARCHIVE, PROVENANCE, verify
from layernorm_backward.records.provenance import title
from layernorm_backward.records.revision import ROOT
from layernorm_backward.storage import jsonfile, yamlfile
from layernorm_backward.storage.files import whole

NAME = "ro-crate-metadata.json"
VERSION = "1.2"  # of the specification
CITATION = ROOT / "CITATION.cff"
DATA_LICENCE = "CC-BY-4.0"  # of tables and figures, see LICENSE
FORMATS = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".png": "image/png",
}
SHOWN = (".pdf", ".png")  # suffixes of files for readers, which provenance does not list
_NEEDED = ("machine", "study", "promoted", "commit", "described", "tables")
_MACHINE = (
    "gpu",
    "cpu",
    "cores_usable",
    "memory_bytes",
    "os",
)  # the entries of a record's machine that the crate repeats
CLAIMS = "claims"  # a table of every study that no experiment makes
_OF_CLAIMS = "layernorm_backward.paper.claims"


def write(folder: Path) -> Path:
    """Write the crate of an archive folder atomically; returns its path. Errors as in `text`."""
    made = text(folder)
    with whole(folder / NAME) as temporary:
        temporary.write_text(made, encoding="utf-8")
    return folder / NAME


def text(folder: Path) -> str:
    """The crate of an archive folder as JSON-LD.

    Raises ValueError for a folder without provenance, and for files that are missing, unknown or edited.
    """
    provenance = _provenance(folder)
    crate, citation = ROCrate(version=VERSION), yamlfile.load(CITATION)
    authors = _add(crate, "#authors", "Organization", name=_authors(citation))
    software = _software(crate, citation, authors)
    files = {path.name: _file(crate, path) for path in _files(folder, provenance)}
    machine = _machine(crate, provenance)
    runs = []
    for stem, record in sorted(provenance["tables"].items()):
        table, meta = files[f"{stem}.csv"], files[f"{stem}.meta.json"]
        _describe(crate, stem, record, table, meta)
        made_by = [machine, _at_commit(crate, record["commit"], software)]
        times = _times(record, in_campaign="gpu" in provenance["described"])
        runs.append(_run(crate, stem, agent=authors, instrument=made_by, result=[table, meta], **times))
    _root(crate, provenance, citation, author=authors, publisher=authors, mentions=runs)
    return json.dumps(crate.metadata.generate(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; allowed: a folder that was promoted to {ARCHIVE}")
    record = jsonfile.load(path)
    missing = [key for key in _NEEDED if key not in record]
    if missing:
        raise ValueError(f"{path}: missing keys: {', '.join(missing)}; needed: {', '.join(_NEEDED)}")
    return record


def _files(folder: Path, provenance: Mapping[str, Any]) -> list[Path]:
    """All files of a folder except hidden ones and its crate; ValueError if any is missing or edited."""
    found = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {NAME}
    stems = provenance["tables"]
    wanted = {PROVENANCE, *(f"{stem}{end}" for stem in stems for end in (".csv", ".meta.json"))}
    missing = sorted(wanted - found)
    unknown = sorted(name for name in found - wanted if not name.endswith(SHOWN))
    if missing or unknown:
        raise ValueError(
            f"{folder}: missing files: {', '.join(missing) or 'none'}, unknown files: "
            f"{', '.join(unknown) or 'none'}; allowed: {PROVENANCE}, its tables, their records, "
            f"{' and '.join(SHOWN)}"
        )
    for path in (folder / f"{stem}.csv" for stem in stems):
        if tables.sha256(path) != stems[path.stem]["sha256"]:
            raise ValueError(f"{path}: the table was edited: its sha256 differs from that in {PROVENANCE}")
        verify(path)
    return [folder / name for name in sorted(found)]


def _add(crate: ROCrate, identifier: str, kind: str, **properties: Any) -> Entity:
    return crate.add(ContextEntity(crate, identifier, {"@type": kind, **properties}))


def _file(crate: ROCrate, path: Path) -> Entity:
    """A file as a part of the crate; its size in bytes, as text, as the specification requires."""
    facts = {
        "name": path.name,
        "encodingFormat": FORMATS[path.suffix],
        "contentSize": str(path.stat().st_size),
        "sha256": tables.sha256(path),
    }
    return crate.add_file(dest_path=path.name, properties=facts)


def _describe(crate: ROCrate, stem: str, record: Mapping[str, Any], table: Entity, meta: Entity) -> None:
    """Add the description of a table, its number of rows, and the links between it and its record."""
    table["description"] = _shows(stem)
    table["size"] = _add(crate, f"#rows-{stem}", "QuantitativeValue", value=record["rows"], unitText="rows")
    table["subjectOf"] = meta
    meta["description"] = f"The record of {stem}.csv: machine, versions, configuration, code, date, duration"
    meta["about"] = table


def _shows(stem: str) -> str:
    """The title of the module that makes a table; archives outlive experiments."""
    module = _OF_CLAIMS if stem == CLAIMS else experiments.module_name(stem)
    if not installed.is_there(module):
        return f"The table {stem}, of an experiment that is no more"
    return title(module)


def _authors(citation: Mapping[str, Any]) -> str:
    return ", ".join(author["name"] for author in citation["authors"])


def _software(crate: ROCrate, citation: Mapping[str, Any], authors: Entity) -> Entity:
    facts = {"name": citation["title"], "version": citation["version"], "description": citation["abstract"]}
    licences = [_licence(crate, name) for name in citation["license"]]
    return _add(crate, "#software", "SoftwareSourceCode", **facts, license=licences, author=authors)


def _licence(crate: ROCrate, name: str) -> Entity:
    """A licence by its name in the SPDX list, as in CITATION.cff."""
    about = f"The licence {name} of the SPDX list; the software's LICENSE says what it covers"
    return _add(crate, f"https://spdx.org/licenses/{name}", "CreativeWork", name=name, description=about)


def _at_commit(crate: ROCrate, commit: str, software: Entity) -> Entity:
    """The software at the commit of a table; the software in general if the commit is not known."""
    if not commit:
        return software
    facts = {key: software[key] for key in ("license", "author")}
    name = f"{software['name']}, commit {commit}"
    known = {"name": name, "version": commit, "exampleOfWork": software}
    return _add(crate, f"#commit-{commit}", "SoftwareSourceCode", **facts, **known)


def _machine(crate: ROCrate, provenance: Mapping[str, Any]) -> Entity:
    """The machine, as the latest record describes it; units in the names."""
    described = {key: provenance["described"][key] for key in _MACHINE if provenance["described"].get(key)}
    facts = [_add(crate, f"#{key}", "PropertyValue", name=key, value=described[key]) for key in described]
    processor = described.get("gpu") or described["cpu"]
    name = provenance["machine"]
    return _add(crate, "#machine", "IndividualProduct", name=name, model=processor, additionalProperty=facts)


def _times(record: Mapping[str, Any], in_campaign: bool) -> dict[str, str]:
    """Start and end of a table's measurement (UTC); only the end for a campaign, which may be resumed."""
    dated = datetime.fromisoformat(record["date"])
    if in_campaign:
        return {"endTime": dated.isoformat()}
    done = dated + timedelta(seconds=record["duration_s"])
    return {"startTime": dated.isoformat(), "endTime": done.isoformat(timespec="seconds")}


def _run(crate: ROCrate, stem: str, **facts: Any) -> Entity:
    return _add(crate, f"#run-{stem}", "CreateAction", name=f"The run that made {stem}.csv", **facts)


def _root(crate: ROCrate, provenance: Mapping[str, Any], citation: Mapping[str, Any], **links: Any) -> None:
    """The folder as a whole: everything needed to cite it, with links to authors, machine and software."""
    project, version = citation["title"].partition(":")[0], citation["version"]
    name = f"{project}: tables of the study {provenance['study']}, measured on {provenance['machine']}"
    commit = f", commit {provenance['commit']}" if provenance["commit"] else ""
    facts = {
        "name": name,
        "description": f"{len(provenance['tables'])} tables. {citation['abstract']}",
        "datePublished": provenance["promoted"],
        "license": _licence(crate, DATA_LICENCE),
        "version": version,
        "keywords": citation["keywords"],
        "creditText": f"{_authors(citation)}. {name}, version {version}{commit}",
    }
    for key, value in (facts | links).items():
        crate.root_dataset[key] = value
