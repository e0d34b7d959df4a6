"""The names that the template of the paper can use: numbers, claims, rows of tables, provenance,
constants."""

import difflib
import re
from functools import partial
from pathlib import Path
from typing import Any

from layernorm_backward import figures
from layernorm_backward.figures._captions import caption
from layernorm_backward.paper import attempts, claim_rows, devices, goals, grids, machines
from layernorm_backward.paper.formats import FORMATS
from layernorm_backward.paper.markdown_table import markdown_table
from layernorm_backward.paper.partial import Excuses
from layernorm_backward.records import mixed, tables, waited
from layernorm_backward.records.recorded import read_record
from layernorm_backward.storage import jsonfile


class UnknownName(ValueError):
    """A number or table that the template names but the run did not make."""


class Number(str):
    """A printed number: its Markdown text, `.tex` (for use inside math), `.value`, `.table`, `.cells`."""

    __slots__ = ("cells", "table", "value")
    value: Any
    table: str
    cells: int

    @property
    def tex(self) -> str:
        return self.strip("$")


class Names(dict[str, Any]):
    """A mapping whose entries are also attributes; the error for an unknown name lists similar ones."""

    def __init__(self, kind: str, entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self._kind = kind

    def __missing__(self, name: str) -> Any:
        near = difflib.get_close_matches(name, self, n=3, cutoff=0.4) or sorted(self)[:3]
        raise UnknownName(f"there is no {self._kind} {name!r}; near: {', '.join(near) or 'none at all'}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


def context(numbers: Path, tables_dir: Path, figures_dir: Path, folder: Path) -> dict[str, Any]:
    """The names for the template in `folder`, for one run; `numbers` is its numbers.json."""
    stems = sorted(path.stem for path in tables_dir.glob("[!.]*.csv"))
    claims = _rows(tables_dir, "claims") if "claims" in stems else []
    meta = {stem: read_record(tables_dir / f"{stem}.csv") for stem in stems}
    latest = max(meta.values(), key=lambda record: record["date"], default={})
    grid = {"listing": partial(grids.listing, tables_dir), "pivot": partial(grids.pivot, tables_dir)}
    drawn = Names("figure", {path.stem: f"figures/{path.stem}" for path in figures_dir.glob("*.pdf")})
    return {
        "n": Names("number", _numbers(numbers)),
        "claims": claims,
        "judged": Names("claim", {row["claim"]: claim_rows.judged(row) for row in claims}),
        "claim_rows": partial(claim_rows.claim_rows, claims),
        "goal_rows": partial(goals.goal_rows, claims),
        "floors_of": partial(goals.floors_of, claims),
        "attempts": partial(attempts.rows, folder / "attempts.csv"),
        "machines": partial(machines.rows, tables_dir),
        "rows": partial(_rows, tables_dir),
        "table": markdown_table,
        "grid": Names("grid", grid),
        "figure": drawn.__getitem__,
        "captions": Names("caption", {stem: caption(stem, tables_dir) for stem in figures.FIGURES}),
        "meta": Names("table", meta),
        "sources": partial(devices.sources, Names("table", meta)),
        "came_from": lambda stem: _came_from(Names("table", meta)[stem]),
        "machine": Names("machine property", latest.get("machine", {})),
        "date": latest.get("date", "")[:10],
        "commit": latest.get("commit", ""),
        "mixed": mixed.differences(meta, mark="`"),
        "waited": _waited(waited.largest(meta)),
        "study": tables_dir.parent.name,
        "edited": Excuses(tables_dir).edited_files(),
        "c": constant,
    }


def _waited(most: tuple[str, float] | None) -> str:
    """The largest share of samples in which threads waited, rounded up, and its table."""
    return f"{FORMATS['percent1_up'](most[1])} (table `{most[0]}`)" if most else ""


def _came_from(record: dict[str, Any]) -> str:
    """A phrase that says where a table was measured, and whether the code has changed since."""
    if "archived" not in record:
        return "measured in this run"
    processor = mixed.processor(record["machine"])
    where = f"archive `{record['archived']}`, measured on {record['date'][:10]} on {processor}"
    changed = "; the code has changed since" if record["code_hash"] != record["code_here"] else ""
    return f"taken from the {where}, code hash `{record['code_hash']}`{changed}"


def constant(text: str) -> Number:
    """A constant that is typed by hand on purpose; 1e-5 and 5.04e-11 are printed with powers of ten."""
    if not isinstance(text, str):
        raise TypeError(f'c({text!r}): a constant is written as text: c("{text}")')
    power = re.fullmatch(r"(-?[\d.]+)e([-+]?\d+)", text)
    if power is None:
        return _number(text, text, "")
    mantissa, exponent = power.group(1), int(power.group(2))
    factor = {"1": "", "-1": "-"}.get(mantissa, rf"{mantissa} \times ")
    return _number(f"${factor}10^{{{exponent}}}$", float(text), "")


def _numbers(path: Path) -> dict[str, Number]:
    return {
        name: _number(it["text"], it["value"], it["table"], it.get("cells", 0))
        for name, it in jsonfile.load(path).items()
    }


def _number(text: str, value: Any, table: str, cells: int = 0) -> Number:
    number = Number(text)
    number.value, number.table, number.cells = value, table, cells
    return number


def _rows(tables_dir: Path, stem: str) -> list[dict[str, Any]]:
    return tables.read(tables_dir / f"{stem}.csv").to_dict("records")
