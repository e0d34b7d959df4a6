"""The table of floors and goals: claims that say "floor of SUBJECT: ..." and "goal of SUBJECT: ..."."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from layernorm_backward.paper.claim_rows import plain

REACHED = {
    "confirmed": "reached",
    "corrected": "**in part**",
    "refuted": "**missed**",
    "not measured": "not measured",
}
NONE = "\N{EN DASH}"
_MISSED = re.compile(r"(\d+) of (\d+) cells? miss(?:es)? ")
_COUNTED = re.compile(r"\d cells?\b")
_SENTENCE = re.compile(r"(?P<kind>floor|goal) of (?P<subject>.+): (?P<wanted>[^:]+)")


def goal_rows(claims: Iterable[Mapping[str, Any]], scope: str) -> list[dict[str, str]]:
    """One row per subject, in the order of the claims of a scope: floor and goal, their outcomes, and values.

    Cells that miss a floor are listed, cells that miss a goal only counted. The number of all cells is given
    in any case.
    """
    rows: dict[str, dict[str, str]] = {}
    for claim in claims:
        found = _SENTENCE.fullmatch(claim["says"])
        if found is None or claim["scope"] != scope:
            continue
        kind, subject, wanted = found.groups()
        row = rows.setdefault(
            subject, {"subject": plain(subject), "floor": NONE, "goal": NONE, "measured": ""}
        )
        row[kind] = f"{plain(wanted)}: {_reached(claim)}"
        row["measured"] = row["measured"] or plain(claim["value"])
        if claim["verdict"] != "confirmed" or _COUNTED.search(row["measured"]) is None:
            reason = claim["reason"] if kind == "floor" else claim["reason"].partition(":")[0]
            text = row["measured"]
            row["measured"] = text if plain(reason) in text else f"{text}. {plain(reason)}".removeprefix(". ")
    return list(rows.values())


def floors_of(claims: Iterable[Mapping[str, Any]], what: str) -> list[dict[str, str]]:
    """The floors whose subject contains `what`: the rest of the subject, and the verdict."""
    found = [(_SENTENCE.fullmatch(claim["says"]), claim["verdict"]) for claim in claims]
    floors = [(said["subject"], verdict) for said, verdict in found if said and said["kind"] == "floor"]
    return [
        {"subject": plain(subject.partition(what)[2]), "verdict": verdict}
        for subject, verdict in floors
        if what in subject
    ]


def _reached(claim: Mapping[str, Any]) -> str:
    """The outcome of a floor or goal; if it is reached in part, in how many cells."""
    missed = _MISSED.match(claim["reason"])
    if claim["verdict"] != "corrected" or missed is None:
        return REACHED[claim["verdict"]]
    few, many = map(int, missed.groups())
    return f"**in {many - few} of {many} cells**"
