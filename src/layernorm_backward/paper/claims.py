"""Evaluates the claims of paper/claims.yaml: each is a predicate over tables, and its verdict is computed.

An entry names the tables with the rows to select, a predicate (a function of
`layernorm_backward.paper.predicates`, called with those rows, the claim's numbers and its tolerance), and
where the verdict is valid. A strict claim of ours that does not hold stops the build. So does a claim
without rows, unless a table is partial (see `partial`) or the machine cannot measure them.
"""

import inspect
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from layernorm_backward.paper.partial import Excuses
from layernorm_backward.paper.predicates import PREDICATES
from layernorm_backward.paper.predicates.judgement import (
    VERDICTS,
    ClaimMisfit,
    Judgement,
    NothingMeasured,
    listing,
)
from layernorm_backward.paper.selection import select
from layernorm_backward.paper.wanted_values import unknown
from layernorm_backward.records import tables
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.storage import yamlfile

NOT_JUDGED = "not judged in the smoke study: too small to time"


class ClaimError(ValueError):
    """claims.yaml, or a table that a claim needs, cannot be used; the message names the claim."""


class Claim(BaseModel):
    """One entry of claims.yaml; `tables` maps the stem of a table to the rows to select: column ->
    value(s)."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: str
    origin: Literal["published", "ours"]
    source: str
    says: str
    tables: dict[str, dict[str, Any]]
    predicate: str
    numbers: dict[str, Any] = {}
    tolerance: float
    scope: Literal["any machine", "this machine", "GPU"]
    section: str
    strict: bool


def load(claims_yaml: Path) -> list[Claim]:
    """The entries of claims.yaml; ClaimError names file, claim, key and what is allowed."""
    entries = yamlfile.load(claims_yaml)
    if not isinstance(entries, list) or not entries:
        raise ClaimError(f"{claims_yaml}: must hold a list of claims, holds {type(entries).__name__}")
    try:
        claims = TypeAdapter(list[Claim]).validate_python(entries)
    except ValidationError as error:
        raise ClaimError(_faults(claims_yaml, error, entries)) from None
    for claim in claims:
        _check(claim, f"{claims_yaml}: {claim.id}")
    names = [claim.id for claim in claims]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ClaimError(f"{claims_yaml}: {', '.join(twice)}: the id stands twice")
    return claims


def run(claims_yaml: Path, tables_dir: Path) -> pd.DataFrame:
    """Judge every claim over the tables in a folder; the table `claims`."""
    claims = load(claims_yaml)
    stems = sorted({stem for claim in claims for stem in claim.tables})
    frames = {stem: tables.read(tables_dir / f"{stem}.csv") for stem in stems}
    excuses = Excuses(tables_dir)
    rows, faults = [], []
    for claim in claims:
        try:
            rows.append(_row(claim, _judge(claim, frames, excuses)))
        except ClaimError as fault:
            faults.append(f"{claims_yaml}: {fault}")
    if faults:
        raise ClaimError("\n".join(faults))
    excuses.warn("claim", "not measured")
    return pd.DataFrame(rows)


def require(judged: pd.DataFrame) -> None:
    """ClaimError if a strict claim of ours was measured and not confirmed, with the measured value."""
    failed = judged[(judged["origin"] == "ours") & judged["strict"].astype(bool)]
    failed = failed[~failed["verdict"].isin(["confirmed", "not measured"])]
    if len(failed):
        lines = [f"{row.claim}: {row.verdict}: {row.says}: {row.value}" for row in failed.itertuples()]
        raise ClaimError("strict claims of ours do not hold:\n" + "\n".join(lines))


def _judge(claim: Claim, frames: dict[str, pd.DataFrame], excuses: Excuses) -> Judgement:
    if excuses.smoke and claim.scope != "any machine":
        return Judgement("not measured", "", "", NOT_JUDGED)
    try:
        rows = {_parameter(stem): _rows(claim, stem, frames[stem]) for stem in claim.tables}
        if not excuses.smoke and not excuses.edited(claim.tables):
            _require_known(claim, frames)
        if claim.scope == "any machine":
            for stem, where in claim.tables.items():
                _require_named(rows[_parameter(stem)], stem, where)
        found = PREDICATES[claim.predicate](**rows, **claim.numbers, tolerance=claim.tolerance)
    except (NothingMeasured, ClaimMisfit) as missing:
        return Judgement("not measured", "", "", _excuse(claim, frames, excuses, missing))
    if found.verdict not in VERDICTS:
        allowed = ", ".join(VERDICTS)
        raise ClaimError(
            f"{claim.id}: predicate {claim.predicate} returns {found.verdict!r}; allowed: {allowed}"
        )
    return found


def _require_known(claim: Claim, frames: dict[str, pd.DataFrame]) -> None:
    """ClaimError for a value that no table or config file has; in a list it would go unnoticed."""
    for stem, where in claim.tables.items():
        if said := unknown(frames[stem], stem, where):
            raise ClaimError(f"{claim.id}: tables.{stem}.{said}")


def _excuse(
    claim: Claim, frames: dict[str, pd.DataFrame], excuses: Excuses, missing: NothingMeasured | ClaimMisfit
) -> str:
    """Why a claim may have no verdict; ClaimError if it must have one."""
    reason = excuses.reason(claim.id, claim.tables)
    if reason:
        return reason
    of_machine = isinstance(missing, NothingMeasured) and claim.scope != "any machine"
    if of_machine and not excuses.edited(claim.tables):
        _require_known(claim, frames)
        return "no such cell could be measured on this machine"
    files = excuses.files(claim.tables)
    raise ClaimError(f"{claim.id}: {missing}; measure such rows ({files}), or change the claim")


def _parameter(stem: str) -> str:
    """The name of the parameter that takes a table: its stem, except for `tolerance`, which is taken."""
    return "tolerance_table" if stem == "tolerance" else stem


def _rows(claim: Claim, stem: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that a claim selects from a table; NothingMeasured if there are none."""
    try:
        rows = select(frame, claim.tables[stem])
    except ValueError as error:
        raise ClaimError(f"{claim.id}: tables.{stem}: {error}") from None
    if rows.empty:
        raise NothingMeasured(f"{stem} has no rows where {claim.tables[stem]}")
    return rows


def _require_named(rows: pd.DataFrame, stem: str, where: dict[str, Any]) -> None:
    """NothingMeasured if a selected name, of a kernel for instance, has no row: other rows do not cover
    it."""
    for column, wanted in where.items():
        names = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
        if missing := sorted(names - {*rows[column], "max"}):
            raise NothingMeasured(f"{stem} has no rows where {column} is {listing(missing)}")


def _row(claim: Claim, judgement: Judgement) -> dict[str, Any]:
    kept = {"claim": claim.id} | claim.model_dump(include={"origin", "source", "says"})
    return kept | judgement._asdict() | claim.model_dump(include={"scope", "section", "strict"})


def _check(claim: Claim, where: str) -> None:
    if claim.predicate not in PREDICATES:
        known = ", ".join(sorted(PREDICATES))
        raise ClaimError(f"{where}: predicate: unknown {claim.predicate!r}; allowed: {known}")
    for stem, selector in claim.tables.items():
        if stem not in SCHEMAS:
            raise ClaimError(f"{where}: tables: unknown {stem!r}; allowed: {', '.join(SCHEMAS)}")
        unknown = [column for column in selector if column not in SCHEMAS[stem].columns]
        if unknown:
            allowed = ", ".join(SCHEMAS[stem].columns)
            raise ClaimError(f"{where}: tables.{stem}: no column {unknown[0]!r}; allowed: {allowed}")
    taken = inspect.signature(PREDICATES[claim.predicate]).parameters
    if "tolerance" not in taken:
        raise ClaimError(f"{where}: predicate {claim.predicate} takes no tolerance; needed: that argument")
    wanted = [name for name in taken if name != "tolerance"]
    given = [*map(_parameter, claim.tables), *claim.numbers]
    if set(wanted) != set(given):
        raise ClaimError(
            f"{where}: predicate {claim.predicate} takes {', '.join(wanted) or 'nothing'} "
            f"(tables and numbers); given: {', '.join(given) or 'nothing'}"
        )


def _faults(path: Path, error: ValidationError, entries: list[Any]) -> str:
    """pydantic's faults, with the id of the claim instead of its number."""
    lines = yamlfile.faults(path, error, list(Claim.model_fields)).splitlines()
    for number, entry in enumerate(entries):
        if isinstance(entry, dict) and "id" in entry:
            lines = [line.replace(f"{path}: {number}.", f"{path}: {entry['id']}: ", 1) for line in lines]
    return "\n".join(lines)
