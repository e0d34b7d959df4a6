"""claims.yaml is checked before it is used, and its verdicts come from the tables."""

import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from layernorm_backward.__main__ import main
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.paper import claims, wanted_values
from layernorm_backward.paper.predicates import PREDICATES
from layernorm_backward.paper.predicates.judgement import ClaimMisfit, Judgement
from layernorm_backward.paper.wanted_values import unknown
from layernorm_backward.records import archive, tables
from layernorm_backward.records.schemas import SCHEMAS

CLAIMS = Path(__file__).parents[1] / "paper" / "claims.yaml"

PUBLISHED = [
    "dx-gradient-error",
    "dgamma-gradient-error",
    "dbeta-gradient-error",
    "alternative-derivation",
    "naive-zero-1e8",
    "naive-zero-1e10",
    "two-pass-exact",
    "two-reductions",
    "three-tensors",
    "overcaching",
    "fused-accesses",
    "fused-speedup",
    "flops",
    "two-pass-worth-it",
    "inference-memory",
    "five-passes",
    "split-division",
    "centring-trick",
    "linear-complexity",
    "minimax-32-128-256",
    "minimax-64-128-512",
    "minimax-32-512-768",
    "minimax-16-512-1024",
    "minimax-gradient-diff",
    "docstring-formula",
    "benign-cancellation",
    "eps-standard",
    "spot-check",
    "scale-sanity",
    "warp-primitives",
    "atomics",
    "fp16-pairwise",
    "gpu-row-blocks",
]
ON_A_GPU = {"warp-primitives", "atomics", "gpu-row-blocks"}

ENTRY = {
    "id": "flat",
    "origin": "ours",
    "source": "this paper",
    "says": "the error stays small",
    "tables": {"scaling": {"kernel": "compact", "quantity": "memory"}},
    "predicate": "grows_linearly",
    "tolerance": 0.1,
    "scope": "any machine",
    "section": "sec:results",
    "strict": True,
}


def written(folder: Path, *entries: object) -> Path:
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump(list(entries)), encoding="utf-8")
    return path


def measured(tmp_path: Path, exponent: float, study: str = "paper") -> Path:
    """A study's folder with one table in it."""
    row = {"kernel": "compact", "direction": "forward", "axis": "rows", "quantity": "memory", "reason": ""}
    fit = {"exponent": exponent, "exponent_low": exponent, "exponent_high": exponent, "points": 7}
    folder = tmp_path / study / "tables"
    tables.write(pd.DataFrame([row | fit]), folder / "scaling.csv", {"study": study})
    return folder


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match=r"claims\.yaml: ") as caught:
        claims.load(path)
    return str(caught.value)


def test_every_published_claim_is_there_once_and_in_order():
    assert len(PUBLISHED) == 33
    assert [claim.id for claim in claims.load(CLAIMS) if claim.origin == "published"] == PUBLISHED


def test_the_claims_about_gpu_programs_are_judged_by_tables_from_a_gpu():
    loaded = claims.load(CLAIMS)
    about = {claim.id: claim for claim in loaded if claim.scope == "GPU"}
    assert {name for name, claim in about.items() if claim.origin == "published"} == ON_A_GPU
    assert all(stem.endswith("_gpu") for claim in about.values() for stem in claim.tables)
    assert all(claim.tables for claim in loaded)


def test_a_claim_that_stops_the_build_is_ours_and_holds_on_any_machine_or_gpu():
    strict = [claim for claim in claims.load(CLAIMS) if claim.strict]
    assert len(strict) >= 8
    assert {claim.origin for claim in strict} == {"ours"}
    assert {claim.id for claim in strict if claim.scope != "any machine"} == {"gpu-checks-pass"}


def test_rows_that_a_machine_lacks_give_no_verdict_where_the_claim_is_about_the_machine(tmp_path):
    where = {"tables": {"scaling": {"kernel": "numba_fused"}}}
    source, folder = written(tmp_path, ENTRY | where | {"scope": "this machine"}), measured(tmp_path, 1.0)
    assert claims.run(source, folder)["verdict"].tolist() == ["not measured"]
    with pytest.raises(claims.ClaimError, match="flat: scaling has no rows where"):
        claims.run(written(tmp_path, ENTRY | where), folder)


def test_a_fault_of_a_predicate_is_no_lack_of_rows(tmp_path, monkeypatch):
    def grows_linearly(scaling, *, tolerance):
        raise ValueError("a fault")

    monkeypatch.setitem(PREDICATES, "grows_linearly", grows_linearly)
    with pytest.raises(ValueError, match=r"^a fault$"):
        claims.run(written(tmp_path, ENTRY), measured(tmp_path, 1.0, "smoke"))


def test_every_predicate_is_used():
    assert {claim.predicate for claim in claims.load(CLAIMS)} == set(PREDICATES)


def test_the_sections_named_are_sections_of_the_paper():
    template = CLAIMS.with_name("paper.md.j2").read_text(encoding="utf-8")
    sections = set(re.findall(r"\{#(sec:[\w-]+)", template))
    assert len(sections) > 8
    assert {claim.section for claim in claims.load(CLAIMS)} <= sections


def test_each_value_that_a_claim_wants_of_an_archived_table_is_there_or_in_a_config_file():
    wanted = [(claim.id, *it) for claim in claims.load(CLAIMS) for it in claim.tables.items()]
    archived = {stem: archive.latest(stem, archive.WHOLE) for _, stem, _ in wanted}
    frames = {stem: tables.read(path) for stem, path in archived.items() if path}
    assert len(frames) > 20
    said = {name: unknown(frames[stem], stem, where) for name, stem, where in wanted if stem in frames}
    assert {name: fault for name, fault in said.items() if fault} == {}


def test_a_predicate_without_a_tolerance_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(PREDICATES, "grows_linearly", lambda scaling: None)
    said = "flat: predicate grows_linearly takes no tolerance; needed: that argument"
    assert said in refusal(written(tmp_path, ENTRY))


def test_an_unknown_verdict_is_reported(tmp_path, monkeypatch):
    def misspelt(scaling: pd.DataFrame, tolerance: float) -> Judgement:
        return Judgement("confrmed", "", "", "")

    monkeypatch.setitem(PREDICATES, "grows_linearly", misspelt)
    with pytest.raises(
        claims.ClaimError, match="flat: predicate grows_linearly returns 'confrmed'; allowed: confirmed, "
    ):
        claims.run(written(tmp_path, ENTRY), measured(tmp_path, 1.0))


def test_the_tables_needed_are_known_without_reading_them():
    needed = {stem for claim in claims.load(CLAIMS) for stem in claim.tables}
    assert {"derivation", "gradient_check", "variance", "timing_cpu", "scaling"} <= needed
    assert needed <= set(SCHEMAS) - {"claims"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predicate": "grows"}, "flat: predicate: unknown 'grows'; allowed: accesses_are, "),
        ({"tables": {"scalings": {}}}, "flat: tables: unknown 'scalings'; allowed: derivation"),
        (
            {"tables": {"scaling": {"kernels": "x"}}},
            "flat: tables.scaling: no column 'kernels'; allowed: kernel",
        ),
        ({"numbers": {"most": 2}}, "grows_linearly takes scaling (tables and numbers); given: scaling, most"),
        ({"tables": {}}, "grows_linearly takes scaling (tables and numbers); given: nothing"),
        ({"says": None}, "flat: says: Input should be a valid string, found None"),
        ({"tolerance": "low"}, "flat: tolerance: Input should be a valid number, found 'low'"),
        ({"strict": 1}, "flat: strict: Input should be a valid boolean, found 1"),
        (
            {"scope": "Mars"},
            "flat: scope: Input should be 'any machine', 'this machine' or 'GPU', found 'Mars'",
        ),
        ({"verdict": "confirmed"}, "flat: verdict: unknown key; allowed: id, origin, source"),
    ],
)
def test_a_faulty_entry_is_reported_with_file_claim_key_and_what_is_allowed(tmp_path, change, message):
    assert message in refusal(written(tmp_path, ENTRY | change))


def test_a_key_that_is_missing_is_named(tmp_path):
    entry = {key: value for key, value in ENTRY.items() if key != "tolerance"}
    assert "flat: tolerance: Field required" in refusal(written(tmp_path, entry))


def test_an_id_stands_once(tmp_path):
    assert "flat: the id stands twice" in refusal(written(tmp_path, ENTRY, ENTRY))


def test_a_file_that_holds_no_list_is_refused(tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text("id: flat\n", encoding="utf-8")
    assert "must hold a list of claims, holds dict" in refusal(path)


@pytest.mark.parametrize(("exponent", "verdict"), [(1.0, "confirmed"), (0.5, "corrected"), (2.0, "refuted")])
def test_the_verdict_is_computed_from_the_table(tmp_path, exponent, verdict):
    judged = claims.run(written(tmp_path, ENTRY), measured(tmp_path, exponent))
    assert judged["verdict"].tolist() == [verdict]
    tables.write(judged, tmp_path / "claims.csv")
    assert tables.read(tmp_path / "claims.csv")["value"][0].startswith(f"exponent of memory {exponent:g} ")


@pytest.mark.parametrize(("exponent", "verdict"), [(2.0, "refuted"), (0.5, "corrected")])
def test_a_strict_claim_of_ours_stops_the_build_with_what_was_found(tmp_path, exponent, verdict):
    judged = claims.run(written(tmp_path, ENTRY), measured(tmp_path, exponent))
    found = f"flat: {verdict}: the error stays small: exponent of memory {exponent:g}"
    with pytest.raises(ValueError, match=found):
        claims.require(judged)


@pytest.mark.parametrize("change", [{"origin": "published"}, {"strict": False}])
def test_no_other_claim_stops_it(tmp_path, change):
    judged = claims.run(written(tmp_path, ENTRY | change), measured(tmp_path, 2.0))
    assert judged["verdict"].tolist() == ["refuted"]
    claims.require(judged)


def test_a_confirmed_claim_lets_the_build_pass(tmp_path):
    claims.require(claims.run(written(tmp_path, ENTRY), measured(tmp_path, 1.0)))


def test_a_missing_table_stops_with_its_name(tmp_path):
    with pytest.raises(ValueError, match=r"scaling\.csv: there is no such table"):
        claims.run(written(tmp_path, ENTRY), tmp_path / "paper" / "tables")


def test_rows_that_are_missing_stop_the_paper_and_not_the_smoke_study(tmp_path):
    entry = ENTRY | {"tables": {"scaling": {"kernel": "recentred"}}}
    path = written(tmp_path, entry)
    with pytest.raises(ValueError, match=r"flat: scaling has no rows where \{'kernel': 'recentred'\}"):
        claims.run(path, measured(tmp_path, 1.0))
    judged = claims.run(path, measured(tmp_path, 1.0, "smoke"))
    assert judged["verdict"].tolist() == ["not measured"]
    claims.require(judged)


@pytest.mark.parametrize("scope", ["any machine", "this machine", "GPU"])
@pytest.mark.parametrize(("column", "value"), [("kernel", "compakt"), ("axis", 5), ("points", 7.5)])
def test_a_wanted_value_that_nothing_has_stops_even_beside_one_that_has_rows(tmp_path, scope, column, value):
    there = {"kernel": "compact", "axis": "rows", "points": 7}[column]
    where = {"tables": {"scaling": {"quantity": "memory", column: [there, value]}}, "scope": scope}
    said = f"flat: tables.scaling.{column}: no row, config file or archived table has {value!r}; there are: "
    with pytest.raises(claims.ClaimError, match=f"{said}{there}$"):
        claims.run(written(tmp_path, ENTRY | where), measured(tmp_path, 1.0))


@pytest.mark.parametrize("scope", ["this machine", "GPU"])
def test_a_wanted_value_that_nothing_has_is_no_cell_that_a_machine_lacks(tmp_path, scope):
    where = {"tables": {"scaling": {"kernel": "compakt"}}, "scope": scope}
    with pytest.raises(claims.ClaimError, match="no row, config file or archived table has 'compakt'"):
        claims.run(written(tmp_path, ENTRY | where), measured(tmp_path, 1.0))


def test_a_reader_who_edits_a_file_may_want_what_only_that_file_had(tmp_path, monkeypatch):
    monkeypatch.setattr(claims.Excuses, "edited", lambda self, stems: list(stems))
    wanted = {"quantity": "memory", "kernel": ["compact", "my_kernel"]}
    path = written(tmp_path, ENTRY | {"tables": {"scaling": wanted}, "scope": "this machine"})
    assert claims.run(path, measured(tmp_path, 1.0))["verdict"].tolist() == ["confirmed"]


def test_all_faulty_claims_are_told_at_once(tmp_path):
    where = {"tables": {"scaling": {"kernel": "numba_fused"}}}
    path = written(tmp_path, ENTRY | where, ENTRY | where | {"id": "flatter"})
    with pytest.raises(
        claims.ClaimError, match=r"flat: scaling has no rows(.|\n)*flatter: scaling has no rows"
    ):
        claims.run(path, measured(tmp_path, 1.0))


def test_text_for_a_column_of_numbers_is_reported_with_claim_table_and_column(tmp_path):
    where = {"tables": {"scaling": {"points": [7, "seven"]}}}
    said = r"flat: tables\.scaling: points is \[7, 'seven'\]; allowed: numbers, max or any"
    with pytest.raises(claims.ClaimError, match=said):
        claims.run(written(tmp_path, ENTRY | where), measured(tmp_path, 1.0))


@pytest.mark.parametrize(
    ("stem", "column", "value"),
    [("tolerance", "kappa", 1.0e7), ("traffic_gpu", "hidden", 4096), ("scaling", "kernel", "numba_fused")],
)
def test_a_wanted_value_may_be_one_of_a_study_or_archived_run_that_holds_more(stem, column, value):
    """The first two are in a file of the study `full`, the last in an archived table only."""
    nothing = pd.DataFrame(columns=[column])
    assert wanted_values.unknown(nothing, stem, {column: value}) == ""
    assert wanted_values.unknown(nothing, stem, {column: f"{value}x"}).startswith(f"{column}: no row")


def test_a_claim_that_names_two_kernels_is_not_judged_by_one_of_them(tmp_path):
    """One about a machine is: its verdict is that of the rows that the machine has."""
    where = {"kernel": ["compact", "recentred"], "quantity": "memory"}
    both = ENTRY | {"tables": {"scaling": where}}
    folder = measured(tmp_path, 1.0)
    with pytest.raises(ValueError, match="flat: scaling has no rows where kernel is recentred"):
        claims.run(written(tmp_path, both), folder)
    here = claims.run(written(tmp_path, both | {"scope": "this machine"}), folder)
    assert here["verdict"].tolist() == ["confirmed"]


def test_the_largest_number_may_be_one_of_a_list(tmp_path):
    entry = ENTRY | {"tables": {"scaling": {"points": [7, "max"]}}}
    judged = claims.run(written(tmp_path, entry), measured(tmp_path, 1.0))
    assert judged["verdict"].tolist() == ["confirmed"]


def test_rows_that_do_not_suit_their_predicate_are_no_cell_that_a_machine_lacks(tmp_path, monkeypatch):
    def misfit(scaling: pd.DataFrame, *, tolerance: float) -> Judgement:
        raise ClaimMisfit("needs two kernels")

    monkeypatch.setitem(PREDICATES, "grows_linearly", misfit)
    with pytest.raises(claims.ClaimError, match="flat: needs two kernels; measure such rows"):
        claims.run(written(tmp_path, ENTRY | {"scope": "this machine"}), measured(tmp_path, 1.0))


def test_a_claim_about_time_is_not_judged_in_the_smoke_study(tmp_path):
    path = written(tmp_path, ENTRY | {"scope": "this machine"})
    judged = claims.run(path, measured(tmp_path, 1.0, "smoke"))
    assert judged["verdict"].tolist() == ["not measured"]
    assert judged["reason"].tolist() == ["not judged in the smoke study: too small to time"]
    assert claims.run(path, measured(tmp_path, 1.0))["verdict"].tolist() == ["confirmed"]


def test_the_command_writes_the_table_and_fails_for_a_strict_claim(tmp_path, capsys):
    folder, out = measured(tmp_path, 2.0), tmp_path / "claims.csv"
    assert main(["claims", str(written(tmp_path, ENTRY)), str(folder), str(out)]) == 1
    assert "error: strict claims of ours do not hold:\nflat: refuted" in capsys.readouterr().err
    assert tables.read(out)["verdict"].tolist() == ["refuted"]
    assert tables.read_meta(out)["study"] == "paper"


def test_the_paper_names_claims_and_tables_that_there_are():
    """A name with hyphens in code type is a claim's, or that of a folder of the archive."""
    text = (CLAIMS.parent / "paper.md.j2").read_text(encoding="utf-8")
    known = {claim.id for claim in claims.load(CLAIMS)}
    folders = {path.name for path in (CLAIMS.parents[1] / "results" / "archive").iterdir()}
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", text))
    assert len(named) > 50 and named <= known | folders
    listed = re.findall(r"\btables? ((?:`[a-z_0-9]+`(?:, | and )?)+)", text)
    assert {name for names in listed for name in re.findall(r"`([a-z_0-9]+)`", names)} <= set(SCHEMAS)


def test_each_dtype_that_a_claim_names_is_measured_by_the_study_of_the_paper():
    for claim in claims.load(CLAIMS):
        for stem, where in claim.tables.items():
            path = CLAIMS.parents[1] / "config" / "paper" / f"{stem}.yaml"
            settings = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            measured = settings.get("dtypes") or settings.get("accumulators") or DTYPE_NAMES
            named = where.get("dtype", [])
            missing = {*([named] if isinstance(named, str) else named)} - {*measured}
            assert not missing, f"{claim.id}: {stem}: {missing}"
