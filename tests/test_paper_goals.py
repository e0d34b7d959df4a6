"""Each floor and goal has its claim, and the grid pairs them; without measurements there is no verdict."""

from pathlib import Path

import pytest

from claim_cases_decisions import decided
from claim_cases_goals import SHORT, peers, reached, unmeasured, with_interval
from claim_frames import frame
from layernorm_backward.figures import kernel_costs, timing_cpu
from layernorm_backward.paper import claims, machines
from layernorm_backward.paper.goals import floors_of, goal_rows
from layernorm_backward.paper.predicates import PREDICATES
from test_claims_predicates import tables_of

HERE = "this machine"
CLAIMS = Path(__file__).parents[1] / "paper" / "claims.yaml"


def judged(
    says: str, verdict: str = "confirmed", value: str = "0.9", reason: str = "1 of 2 short: D=4 (0.8)"
):
    return {"says": says, "verdict": verdict, "value": value, "reason": reason, "scope": HERE}


def test_a_floor_and_its_goal_share_a_row():
    rows = goal_rows(
        [
            judged("an error stays small"),
            judged("floor of the pass, D = 4: at least 0.80", "corrected"),
            judged("goal of the pass, D = 4: at least 0.95", "refuted", reason="2 of 2 short: D=4 (0.8)"),
            judged("goal of other_D: at least 0.95", reason="none of 2 cells misses 0.95"),
            judged("goal of the pass, D = 4: at least 0.99") | {"scope": "GPU"},
        ],
        HERE,
    )
    assert rows == [
        {
            "subject": "the pass, D = 4",
            "floor": "at least 0.80: **in part**",
            "goal": "at least 0.95: **missed**",
            "measured": "0.9. 1 of 2 short: D=4 (0.8). 2 of 2 short",
        },
        {
            "subject": r"other\_D",
            "floor": "\N{EN DASH}",
            "goal": "at least 0.95: reached",
            "measured": "0.9. none of 2 cells misses 0.95",
        },
    ]


def test_a_goal_that_is_reached_in_part_says_in_how_many_cells():
    part = judged("goal of it: 1", "corrected", reason="19 of 21 cells miss 1: D=4 (0.8)")
    most = judged("goal of it: 1", "corrected", reason="1 of 21 cells misses 1: D=4 (0.8)")
    none = judged("goal of it: 1", "refuted", reason="21 of 21 cells miss 1: D=4 (0.8)")
    found = [goal_rows([claim], HERE)[0]["goal"] for claim in (part, most, none)]
    assert found == ["1: **in 2 of 21 cells**", "1: **in 20 of 21 cells**", "1: **missed**"]


def test_a_floor_that_is_missed_names_its_cells_even_where_its_value_counts_them():
    some = judged("floor of it: a_b", "corrected", "0.8 to 1 in 2 cells", "1 of 2 cells misses 1: D=4 (0.8)")
    (row,) = goal_rows([some], HERE)
    assert row["floor"] == r"a\_b: **in 1 of 2 cells**"
    assert row["measured"] == "0.8 to 1 in 2 cells. 1 of 2 cells misses 1: D=4 (0.8)"


def test_what_was_not_measured_says_why():
    (row,) = goal_rows([judged("goal of the pass: 1", "not measured", "", "no such cell here")], HERE)
    assert (row["goal"], row["measured"]) == ("1: not measured", "no such cell here")


def test_a_reason_that_floor_and_goal_share_is_given_once():
    both = [
        judged(f"{kind} of the pass: 1", "not measured", "", "no such cell") for kind in ("floor", "goal")
    ]
    assert goal_rows(both, HERE)[0]["measured"] == "no such cell"


def test_sizes_that_differ_only_in_rows_are_distinguished():
    keys = {"direction": "backward", "dtype": "float64", "axis": "rows"}
    cells = frame("rows hidden extra_share", (32, 256, 0.5), (64, 256, 0.1), **keys)
    found = PREDICATES["extra_memory_is"](cells, tolerance=0.02)
    assert found.value.endswith("in 2 cells")
    assert found.reason.endswith("backward float64 N=32 D=256 (0.5) and backward float64 N=64 D=256 (0.1)")


def test_cells_of_one_size_are_distinguished_by_rows_and_dtype_of_gamma():
    sizes = (64, "float32", 0.5), (32, "float32", 0.6), (32, "bfloat16", 0.7)
    keys = {"direction": "backward", "dtype": "bfloat16", "hidden": 256, "threads": 2, "residency": "memory"}
    cells = with_interval(frame("rows gamma_dtype roof_fraction", *sizes, **keys), "roof_fraction")
    found = PREDICATES["cells_reach"](cells, **SHORT, tolerance=0.88)
    assert found.reason.partition("; ")[0].endswith(
        "backward bfloat16 gamma float32 N=64 D=256 (0.5), backward bfloat16 gamma float32 N=32 D=256 (0.6) "
        "and backward bfloat16 D=256 (0.7)"
    )


@pytest.mark.parametrize("case", list(unmeasured()), ids=lambda case: case.predicate)
def test_no_cell_gives_no_verdict(case):
    frames = dict(zip(tables_of(case.predicate), case.tables, strict=True))
    found = PREDICATES[case.predicate](**frames, **case.numbers, tolerance=case.tolerance)
    assert (found.verdict, found.value) == ("not measured", "")
    assert found.condition
    assert found.reason


def test_the_cells_furthest_from_a_goal_are_named_and_the_others_counted():
    (cells,) = reached(*((256 + n, 0.5 + n / 100) for n in range(9)))
    found = PREDICATES["cells_reach"](cells, **SHORT, tolerance=0.88)
    assert found.reason.startswith("9 of 9 cells miss 0.88: backward float32 D=256 (0.5), backward")
    assert "D=261 (0.55) and 3 more; " in found.reason


def test_of_one_cell_the_paper_speaks_in_the_singular():
    (cell,) = reached((256, 0.5))
    missed = PREDICATES["cells_reach"](cell, **SHORT, tolerance=0.88)
    assert missed.reason.startswith("1 of 1 cell misses 0.88: ")
    met = PREDICATES["cells_reach"](cell, **SHORT, tolerance=0.5)
    assert met.reason.startswith("none of 1 cell misses 0.5; ")
    assert goal_rows([judged("goal of it: 1", value=met.value, reason=met.reason)], HERE)[0] == {
        "subject": "it",
        "floor": "\N{EN DASH}",
        "goal": "1: reached",
        "measured": met.value,
    }


def test_cells_are_counted_beside_a_value_of_the_median_cell():
    cost = judged("floor of the cost: 5 %", value="1 % in the median cell", reason="3 of 3 cells cost less")
    assert goal_rows([cost], HERE)[0]["measured"] == "1 % in the median cell. 3 of 3 cells cost less"


def test_the_reason_counts_the_cells_whose_whole_interval_misses_or_reaches_a_goal():
    (cells,) = reached((256, 0.8), (512, 0.875), (768, 0.885), (1024, 0.95), (1023, 0.9))
    found = PREDICATES["cells_reach"](cells, **SHORT, tolerance=0.88)
    assert found.reason.startswith("2 of 5 cells miss 0.88: ")
    assert found.reason.endswith("; the whole interval misses it in 1 cell and reaches it in 2")
    (table,) = peers((256, "torch", 0.9), (512, "torch", 0.995), (1024, "torch", 3.0))
    found = PREDICATES["best_peer_takes"](table, ours="numba_fused", least=1.0, tolerance=1.2)
    assert found.reason.endswith("; the whole interval misses it in 1 cell and reaches it in 1")
    costs = decided((0.2, True), (0.055, False), (0.045, False), (0.01, False))
    found = PREDICATES["decision_costs_at_most"](costs, tolerance=0.05)
    assert (
        found.reason
        == "2 of 4 cells stay within 5 %; the whole interval misses it in 1 cell and reaches it in 1"
    )


def test_the_floors_of_a_pass_are_named_with_their_verdicts():
    found = floors_of(
        [
            judged("floor of the triad, backward pass, one thread, D_s = 4: at least 0.75", "refuted"),
            judged("goal of the triad, backward pass, one thread, D_s = 4: at least 0.9"),
            judged("floor of its own triad, backward pass, 16-bit storage: at least 0.8"),
            judged("floor of the copy, forward pass, one thread: at least 0.8"),
            judged("an error stays small"),
        ],
        "triad, backward pass, ",
    )
    assert found == [
        {"subject": r"one thread, D\_s = 4", "verdict": "refuted"},
        {"subject": "16-bit storage", "verdict": "confirmed"},
    ]


def test_the_floors_that_the_abstract_speaks_of_are_those_of_the_backward_pass_on_this_machine():
    found = floors_of([judged(claim.says) for claim in claims.load(CLAIMS)], "triad, backward pass, ")
    assert [floor["subject"] for floor in found] == [
        "all threads, D = 256 to 1024",
        "all threads, D = 4096 to 16384",
        "one thread, D = 256 to 1024",
        "one thread, D = 4096 to 16384",
        "16-bit storage, all threads",
    ]


def goals_of(scope):
    """The claims of a scope that are floors or goals, all of which are ours and stop no build."""
    loaded = [claim for claim in claims.load(CLAIMS) if claim.id.startswith("goal-")]
    assert {(claim.origin, claim.strict) for claim in loaded} == {("ours", False)}
    return [claim for claim in loaded if claim.scope == scope]


@pytest.mark.parametrize(("scope", "least"), [(HERE, 20), ("GPU", 8)])
def test_every_floor_and_goal_of_the_paper_is_a_claim_and_in_the_grid(scope, least):
    loaded = goals_of(scope)
    rows = goal_rows([judged(claim.says) | {"scope": scope} for claim in loaded], scope)
    cells = [cell for row in rows for cell in (row["floor"], row["goal"]) if cell != "\N{EN DASH}"]
    assert len(cells) == len(loaded) >= least
    assert all(row["goal"] != "\N{EN DASH}" for row in rows)


@pytest.mark.parametrize("kind", ["floor", "goal"])
def test_a_floor_or_goal_of_this_machine_ends_in_its_kind(kind):
    named = {claim.id for claim in goals_of(HERE) if claim.says.startswith(f"{kind} of ")}
    assert named == {claim.id for claim in goals_of(HERE) if claim.id.endswith(f"-{kind}")}


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize(("place", "threads"), [(0, "max"), (1, 1)])
def test_the_figure_of_times_shows_the_floors_and_goals_of_the_claims(direction, place, threads):
    cells = {
        "kernel": "numba_fused",
        "direction": direction,
        "dtype": ["float64", "float32"],
        "threads": threads,
    }
    found = [claim for claim in goals_of(HERE) if claim.tables == {"timing_cpu": cells}]
    found = [claim for claim in found if claim.numbers["column"] == "roof_fraction"]
    floors = {
        (*sizes, claim.tolerance)
        for claim in found
        for sizes in claim.numbers["hidden"]
        if claim.id.endswith("-floor")
    }
    goals = {claim.tolerance for claim in found if claim.id.endswith("-goal")} or {None}
    assert set(timing_cpu.FLOORS[direction][place]) == floors
    assert {timing_cpu.GOALS[direction][place]} == goals


def test_the_table_of_machines_has_the_sizes_of_the_floors():
    sizes = [machines.SPANS[name][-1] for name in ("short", "long")]
    assert sizes == [(start, end) for start, end, _ in timing_cpu.FLOORS["backward"][0]]


def test_the_figure_of_costs_shows_goal_and_floor_of_the_claims():
    costs = [claim.tolerance for claim in goals_of(HERE) if claim.predicate == "decision_costs_at_most"]
    assert [100 * cost for cost in sorted(costs)] == list(kernel_costs.GOALS)
