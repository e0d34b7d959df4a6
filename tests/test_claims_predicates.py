"""Every predicate can come out otherwise: frames that confirm a claim, and frames that do not."""

import numpy as np
import pandas as pd
import pytest

from claim_cases import errors
from claim_cases_audits import audits
from claim_cases_cost import ITEMS, LESS, costs, reductions, times
from claim_cases_decisions import decisions
from claim_cases_goals import goals, peers, reached
from claim_cases_gpu import gpu, unmeasured_gpu
from claim_cases_mean_path import cell, mean_paths
from claim_cases_mutants import checked, covers, executed, mutants
from claim_cases_said import said
from claim_cases_saving import representing, saving
from claim_cases_slopes import fitted, slopes
from claim_cases_spells import slowed, spells
from claim_cases_steps import steps
from claim_cases_stores import read_next, stores
from claim_cases_sums import finite, placement, stopped, stored, summation
from claim_cases_tolerances import one_dtype_passes, tolerances
from claim_cases_trained import trained
from claim_frames import (
    accuracy,
    cost,
    derivation,
    divisions,
    eps_rows,
    exact_on,
    exponents,
    frame,
    saved,
    spot,
    timing,
    traffic,
)
from layernorm_backward.kernels.cuda.maps import MAPS
from layernorm_backward.kernels.cuda.plan import static_bytes
from layernorm_backward.paper import claims
from layernorm_backward.paper.predicates import PREDICATES
from layernorm_backward.paper.predicates import cells as by_cell
from layernorm_backward.paper.predicates.cells import KEYS, geometric_mean
from layernorm_backward.paper.predicates.judgement import (
    VERDICTS,
    NothingMeasured,
    listing,
    number,
    over,
    pick,
    power,
    slope,
    span,
)
from layernorm_backward.paper.predicates.spells import _ratio
from workspace import ROOT

CLAIMS = ROOT / "paper" / "claims.yaml"
CASES = [
    *errors(),
    *mutants(),
    *audits(),
    *costs(),
    *times(),
    *goals(),
    *gpu(),
    *decisions(),
    *slopes(),
    *spells(),
    *steps(),
    *stores(),
    *saving(),
    *representing(),
    *mean_paths(),
    *trained(),
    *summation(),
    *placement(),
    *tolerances(),
]


def tables_of(name: str) -> list[str]:
    """A predicate's tables are its parameters without a keyword: all that come before its numbers."""
    code = PREDICATES[name].__code__
    return list(code.co_varnames[: code.co_argcount])


def cut_cases():
    """Every case, with one name removed from a text column of one of its tables: each name in turn."""
    for case in CASES:
        frames = dict(zip(tables_of(case.predicate), case.tables, strict=True))
        arguments = case.numbers | {"tolerance": case.tolerance}
        for stem, table in frames.items():
            for column in table.select_dtypes(["object", "str"]):
                for name in table[column].unique():
                    left = table[table[column] != name]
                    if len(left):
                        yield case.predicate, frames | {stem: left}, arguments


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.predicate}-{case.expected}-{index}" for index, case in enumerate(CASES)]
)
def test_the_verdict_follows_from_the_rows(case):
    frames = dict(zip(tables_of(case.predicate), case.tables, strict=True))
    judgement = PREDICATES[case.predicate](**frames, **case.numbers, tolerance=case.tolerance)
    assert judgement.verdict == case.expected
    assert all(judgement[1:])
    assert "nan" not in " ".join(judgement)


def test_every_predicate_gives_more_than_one_verdict():
    seen = {name: {case.expected for case in CASES if case.predicate == name} for name in PREDICATES}
    assert [name for name, verdicts in seen.items() if len(verdicts) < 2] == []


@pytest.mark.parametrize("case", list(unmeasured_gpu()), ids=lambda case: case.predicate)
def test_a_claim_about_a_gpu_is_not_judged_without_one_and_says_why(case):
    frames = dict(zip(tables_of(case.predicate), case.tables, strict=True))
    judgement = PREDICATES[case.predicate](**frames, **case.numbers, tolerance=case.tolerance)
    assert judgement.verdict == "not measured"
    assert judgement.value == ""
    assert judgement.reason in ("no CUDA device", "this study has no such cell")


def test_missing_rows_never_raise_a_bare_key_error():
    """Whichever kernel, direction or other name is missing: a verdict, or a ValueError with the claim."""
    for predicate, frames, arguments in cut_cases():
        try:
            judgement = PREDICATES[predicate](**frames, **arguments)
        except ValueError:
            continue
        assert judgement.verdict in VERDICTS


def test_the_fastest_peer_is_reported_with_the_number_of_cells_that_each_was_timed_in():
    cells = [(256, "torch", 2.0), (1024, "torch", 2.0), (4096, "torch", 9.0), (4096, "jax", 2.0)]
    (table,) = peers(*cells)
    judgement = PREDICATES["best_peer_takes"](table, ours="numba_fused", least=1.0, tolerance=1.2)
    assert judgement.value == "geometric mean 2, 2 over 3 cells (torch in 3 and jax in 1)"
    assert judgement.condition.startswith("time of the fastest of torch and jax, each in its best setting")
    (table,) = peers(cells[0])
    judgement = PREDICATES["best_peer_takes"](table, ours="numba_fused", least=1.0, tolerance=1.2)
    assert judgement.condition.startswith("time of torch, in its best setting")


@pytest.mark.parametrize(("gamma", "said"), [("float16", ""), ("float32", " gamma float32;")])
def test_the_dtype_of_gamma_is_told_as_such_where_it_is_not_that_of_x(gamma, said):
    cell = {"direction": "backward", "dtype": "float16", "gamma_dtype": gamma, "hidden": 64, "rows": 8}
    cells = pd.DataFrame([cell | {"roof_fraction": 0.9}])
    found = by_cell.reached(cells, "roof_fraction", cells["roof_fraction"] > 0.5, "0.5").condition
    assert found == f"backward; float16;{said} hidden 64; rows 8"


def test_what_a_reason_says_is_what_was_measured():
    cells = divisions((0.01, 0, 64), (1.0, 64, 64), (100.0, 64, 0))
    orders = PREDICATES["division_last_avoids_overflow"](cells, tolerance=0)
    assert orders.reason == "dividing first loses rows at std 0.01, dividing last at 100"
    checked = PREDICATES["spot_check_replaces"](
        spot(0, (8, False), (8, False), (2, True)), elements="elements", tolerance=0
    )
    assert checked.reason == "not caught in every sample: fault_2"
    assert checked.value.startswith(
        "100 elements of each gradient catch 2 of 3 faults in each of 8 samples; "
    )
    assert checked.value.endswith("in 25 % of the samples")
    again = PREDICATES["reductions_are"](*reductions(2, False), expected=2, tolerance=0)
    assert again.reason == "published: 2; x is read again, or something is recomputed from it"
    (run,) = executed(2.0, 2)
    assert PREDICATES["packages_agree"](run, tolerance=0).value == "2 of 2 verdicts agree, of ours"


@pytest.mark.parametrize("case", list(said()), ids=lambda case: case.predicate)
def test_the_numbers_of_a_judgement_are_those_of_the_rows(case):
    frames = dict(zip(tables_of(case.predicate), case.tables, strict=True))
    judgement = PREDICATES[case.predicate](**frames, **case.numbers, tolerance=case.tolerance)
    assert case.value in judgement.value
    assert case.reason in judgement.reason


def test_a_gain_covers_only_cells_that_were_timed_beside_the_baseline():
    timed, alone = timing(2.5, 2.5), timing(2.5, 2.5).assign(dtype="float16", compact_ratio=float("nan"))
    judgement = PREDICATES["fusion_gains"](
        pd.concat([timed, alone], ignore_index=True), low=2.0, high=3.0, tolerance=0.1
    )
    assert judgement.condition.endswith("numba_fused; float64; 1x1x8; threads 1")
    assert judgement.value.endswith("(medians, of 2 cells; intervals 2.5)")


def test_the_rows_on_which_a_variance_is_exact_are_described():
    found = PREDICATES["stable_is_exact"](exact_on(0.0, 1e-16), tolerance=0)
    told = "relative error up to 0 (the row offset + [0, 1, 2, 3, 4]); 1e-16 (rows offset + N(0,1))"
    assert found.value == told
    assert found.reason == "exact only where the mean is representable: the row offset + [0, 1, 2, 3, 4]"


def test_the_kappa_from_which_two_passes_pay_is_reported():
    table = accuracy(1e-8, 1e-16, 1e-8, 1e-7)
    judgement = PREDICATES["stability_pays"](table, cost(0.8), most=2.0, tolerance=100)
    assert judgement.reason.startswith("100 times as accurate from kappa about 100 on; ")


@pytest.mark.parametrize("missing", ["overcached", "compact"])
def test_a_kernel_that_is_not_in_the_table_is_nothing_measured(missing):
    table = saved(3, 1, 200)
    with pytest.raises(NothingMeasured, match=f"no measured rows of {missing}"):
        PREDICATES["saves_less"](
            table[table["kernel"] != missing], kernel="compact", than="overcached", tolerance=0.5
        )


@pytest.mark.parametrize("predicate", ["saves_less", "saves_too_much"])
def test_only_shapes_and_dtypes_for_which_both_kernels_save_are_reported(predicate):
    both, alone = saved(8, 4, 300), saved(8, 4, 300).assign(shape="2x2x2", dtype="float16")
    table = pd.concat([both, alone[alone["kernel"] == "overcached"]])
    numbers = {"saves_less": LESS, "saves_too_much": ITEMS}[predicate]
    told = PREDICATES[predicate](table, **numbers, tolerance=0.5).condition
    assert both["shape"].iloc[0] in told
    assert both["dtype"].iloc[0] in told
    assert "2x2x2" not in told
    assert "float16" not in told


def test_minimum_traffic_is_judged_only_if_both_directions_were_counted():
    table = traffic(1.0, 1.0)
    with pytest.raises(NothingMeasured, match=r"no measured ratio where \{'direction': 'backward'\}"):
        PREDICATES["traffic_is"](table[table["direction"] == "forward"], over_least={}, tolerance=0.1)


def test_spells_are_not_judged_where_the_core_was_never_free():
    never = slowed((float("nan"), 0.9, 0.9, 0.9))
    judgement = PREDICATES["core_slows_kernel_more"](never, slowed=1.2, tolerance=0.05)
    assert judgement.verdict == "not measured"
    assert judgement.reason == "no cell ran both on a free core and where the loop took 1.2 times its minimum"


def test_spells_are_judged_from_the_lower_end_of_a_band():
    with pytest.raises(ValueError, match=r"slowed is 1\.3; allowed: the lower end of a band: 0, 1\.1, 1\.2"):
        PREDICATES["core_slows_kernel_more"](slowed((0.8, 0.8, 0.6, 0.6)), slowed=1.3, tolerance=0.05)


@pytest.mark.parametrize("ends", [(0.4, 1.6), (0.95, 1.4), (0.5, 1.05), (float("nan"), float("nan"))])
def test_an_exponent_that_could_be_linear_or_not_is_not_judged(ends):
    found = exponents((1.0, 0.95, 1.05), (1.0, *ends), (1.0, 0.95, 1.05))
    judgement = PREDICATES["grows_linearly"](found, tolerance=0.1)
    assert (judgement.verdict, judgement.value) == ("not measured", "")
    assert judgement.reason.startswith("2 of 3 intervals are within 0.1 of 1; the others are overcached")


def test_checks_on_a_gpu_that_fail_are_named_and_those_without_a_verdict_counted():
    keys = {"kernel": "cuda_fused", "dtype": "float32", "rows": 9, "reason": ""}
    rows = [("results", 8, True, 1.0), ("results", 7, None, np.nan), ("memcheck", 9, False, 1.0)]
    rows += [("far", size, False, 99.0) for size in range(1, 7)]
    judgement = PREDICATES["gpu_checks_pass"](frame("check hidden passed value", *rows, **keys), tolerance=0)
    assert judgement.value == "passed: 1 of 1 results and 0 of 6 far"
    first = ", ".join(f"cuda_fused far float32 N=9 D={size} (99)" for size in range(1, 5))
    assert judgement.reason == f"not passed: {first} and 2 more; not measured: 1 of 8"
    raised = frame("check hidden passed value", ("far", 3, False, np.nan), **keys | {"reason": "Error: 701"})
    judgement = PREDICATES["gpu_checks_pass"](raised, tolerance=0)
    assert judgement.reason.startswith("not passed: cuda_fused far float32 N=9 D=3 (Error: 701); ")


def test_bytes_on_a_gpu_are_reported_with_the_row_lengths_counted_and_the_number_of_cells_not_counted():
    keys = {"direction": "backward", "dtype": "float32", "rows": 9, "reason": ""}
    counted = frame("hidden measured_over_minimum", (64, 0.98), (64, 1.0), (128, np.nan), **keys)
    judgement = PREDICATES["gpu_traffic_is"](counted, least=0.95, tolerance=1.05)
    assert judgement.value == "0.98 to 1, median 0.99, in 2 cells, hidden 64; not measured: 1 of 3"


def test_failures_of_an_audit_are_reported_per_property_since_units_differ():
    rows = [("long_sums", "a", 167.0), ("ones_counted", "a", 256.0), ("long_sums", "b", 160.0)]
    table = frame("property kernel value", *rows, dtype="bfloat16", passed=False)
    judgement = PREDICATES["peers_fail"](table, tolerance=0)
    assert judgement.value == "3 of 3 fail; long_sums 160 to 167 and ones_counted 256"


def test_an_infinite_bound_counts_as_no_bound():
    rows = [("cuda_fused", 1.0, 3.0, 4.0), ("cuda_fused", 1e7, 9.0, np.inf), ("jax", 1.0, 9.0, np.nan)]
    keys = {"dtype": "float32", "hidden": 64, "bound_ratio_max": np.nan}
    table = frame("kernel kappa error_u_max bound_u", *rows, **keys)
    judgement = PREDICATES["gpu_errors_within_bounds"](table, tolerance=1.0)
    assert judgement.value == "largest ratio of error to bound 0.75 in 1 cells"
    assert judgement.reason.endswith("; 2 of 3 cells have no bound")
    assert judgement.condition == "cuda_fused; float32; kappa 1; hidden 64"


def test_a_row_over_its_own_bound_on_a_gpu_is_seen_where_the_largest_error_is_under_the_largest_bound():
    keys = {"kernel": "cuda_fused", "dtype": "float32", "kappa": 1.0, "hidden": 64}
    table = frame("error_u_max bound_u bound_ratio_max", (3.0, 4.0, 28.0), (3.0, np.inf, 0.5), **keys)
    judgement = PREDICATES["gpu_errors_within_bounds"](table, tolerance=1.0)
    assert (judgement.verdict, judgement.value) == (
        "refuted",
        "largest ratio of error to bound 28 in 2 cells",
    )


def test_the_longest_rows_that_the_claim_names_are_those_of_the_table_of_maps():
    maps = {way: MAPS[way][4] for way in MAPS}
    claim = next(claim for claim in claims.load(CLAIMS) if claim.id == "warp-primitives")
    warp = {way: [one for one in its if one.team <= 32] for way, its in maps.items()}
    assert claim.numbers["warp"] == min(max(one.most for one in its) for its in warp.values()) * 4
    assert claim.numbers["chip"] in {one.most * 4 for one in maps["backward"]}
    assert {static_bytes("forward", one, 4) for one in warp["forward"]} == {0}
    assert all(static_bytes("backward", one, 4) for one in warp["backward"])


def test_exactly_two_derivations_are_compared():
    with pytest.raises(ValueError, match="selects 1 derivations, needs two: a"):
        PREDICATES["two_derivations_agree"](derivation(("a", "random", 0.1, False)), tolerance=1)


def test_derivations_are_not_judged_where_one_is_missing_or_no_proof_was_tried():
    pair = derivation(("a", "random", 1e-15, True), ("b", "random", 1e-15, False))
    with pytest.raises(NothingMeasured, match="needs 3 derivations, 2 measured: a and b"):
        PREDICATES["derivations_agree"](pair, expected=3, tolerance=1)
    with pytest.raises(NothingMeasured, match="no proof was attempted"):
        PREDICATES["derivations_agree"](pair.assign(proved=False), expected=2, tolerance=1)
    wrong = PREDICATES["derivations_agree"](pair.assign(proved=False), expected=2, tolerance=1e-16)
    assert wrong.verdict == "refuted"


@pytest.mark.parametrize(
    ("last", "at", "short"),
    [(200, {"bfloat16": 256}, "256 rows in bfloat16"), (900, {"float16": 2048}, "2048 rows in float16")],
)
def test_whether_a_sum_stops_is_not_judged_by_sums_that_are_too_short(last, at, short):
    (table,) = stopped(min(last, 256.0), last=last)
    with pytest.raises(NothingMeasured, match=f"no sum of more than {short}"):
        PREDICATES["running_sum_stops"](table, at={"bfloat16": 256} | at, tolerance=0)


def test_only_rows_of_large_kappa_show_that_no_pass_errs():
    (small,), kappa = cell(error=3.0), {"gaussian": 1e4}
    with pytest.raises(
        NothingMeasured, match=r"from kappa 10000 \(gaussian\) on of two_pass float64 gaussian"
    ):
        PREDICATES["pass_errors_reach"](small, kappa=kappa, tolerance=10)
    with pytest.raises(NothingMeasured, match="no measured rows of outlier"):
        PREDICATES["pass_errors_reach"](small, kappa=kappa | {"outlier": 1.0}, tolerance=10)
    assert PREDICATES["pass_errors_reach"](small, kappa=kappa, tolerance=2).verdict == "confirmed"


def test_the_condition_of_a_claim_names_what_was_measured_and_whether_it_was_crossed():
    small = cell(error=3.0)[0].iloc[:1]
    unmeasured = small.assign(kappa=1e15, error_u_max=np.nan)
    crossed = pd.concat([small, small.assign(hidden=256), unmeasured], ignore_index=True)
    condition = PREDICATES["pass_errors_stay_below"](crossed, tolerance=4).condition
    assert condition == "two_pass; dx; float64; storage; gaussian; shifted; hidden 64 to 256; kappa 1000"
    star = pd.concat([crossed, small.assign(kappa=10.0)], ignore_index=True)
    condition = PREDICATES["pass_errors_stay_below"](star, tolerance=4).condition
    assert condition.endswith(
        "hidden 64 to 256; kappa 10 to 1000; data, upstream, hidden and kappa not all combined"
    )


def test_only_the_named_cell_shows_that_a_tolerance_rule_does_not_fail():
    with pytest.raises(NothingMeasured, match="at kappa 1, std 1000 of allclose float64"):
        PREDICATES["rules_fail"](one_dtype_passes(), at={"kappa": 1, "std": 1000}, tolerance=0)


def test_faults_do_not_survive_checks_that_all_fail_the_correct_kernel():
    with pytest.raises(NothingMeasured, match="no selected check and data set pass the correct kernel"):
        PREDICATES["faults_survive"](*checked(1, True, True), tolerance=2)


@pytest.mark.parametrize("predicate", ["spot_check_replaces", "large_check_catches"])
def test_the_correct_kernel_alone_does_not_show_that_faults_are_caught(predicate):
    name = {"spot_check_replaces": "elements", "large_check_catches": "check"}[predicate]
    with pytest.raises(NothingMeasured, match="no fault was measured with the check elements"):
        PREDICATES[predicate](spot(0), **{name: "elements"}, tolerance=0)


@pytest.mark.parametrize("missing", ["inside", "outside"])
def test_where_a_gradient_exists_needs_every_named_placement(missing):
    (table,) = finite(True, False)
    with pytest.raises(NothingMeasured, match=f"no measured rows of {missing}"):
        PREDICATES["gradient_exists"](
            table[table["placement"] != missing], where=["inside"], nowhere=["outside"], tolerance=0
        )


@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 2)])
def test_up_to_which_eps_it_vanishes_needs_eps_on_both_sides(rows):
    (table,) = stored(0.0, 1e-5)
    with pytest.raises(NothingMeasured, match="not measured on both sides of eps 3e-8"):
        PREDICATES["stored_eps_vanishes"](table.iloc[rows], tolerance=3e-8)


@pytest.mark.parametrize("missing", [1e-8, 1e-5])
def test_which_eps_is_standard_needs_measurements_of_both(missing):
    table, numbers = eps_rows(1e-8, True), {"ours": 1e-8, "theirs": 1e-5, "defaults": {"A": 1e-8}}
    with pytest.raises(NothingMeasured, match=f"no measured rows of {missing}"):
        PREDICATES["eps_is_standard"](table[table["eps"] != missing], **numbers, tolerance=0)


def test_that_one_data_set_is_not_enough_needs_the_named_one():
    cover, tried = covers(2)
    with pytest.raises(NothingMeasured, match="no measured rows of set 3"):
        PREDICATES["sets_suffice"](cover, tried, data="set 3", tolerance=1)
    assert PREDICATES["sets_suffice"](cover, tried, data="set 3", tolerance=2).verdict == "confirmed"


def test_a_column_without_measurements_is_no_verdict():
    empty = frame("kernel error_u_max", ("compact", float("nan")))
    with pytest.raises(NothingMeasured, match="no measured error_u_max where"):
        pick(empty, "error_u_max", kernel="compact")


def test_a_slope_needs_two_points():
    with pytest.raises(NothingMeasured, match="two points"):
        slope([1.0, 2.0], [0.0, 1.0])
    assert slope([1.0, 10.0], [2.0, 200.0]) == pytest.approx(2.0)


def test_a_slope_over_an_overflow_is_infinite():
    assert slope([1.0, 10.0, 100.0], [2.0, 200.0, np.inf]) == np.inf


def test_an_exponent_that_rounds_to_zero_has_no_sign():
    assert [power(-0.004), power(-0.006)] == ["0.00", "-0.01"]


@pytest.mark.parametrize(("passed", "told"), [(None, "not measured"), (True, "1 of 1"), (False, "0 of 1")])
def test_a_check_beyond_offsets_of_32_bits_is_reported_separately(passed, told):
    keys = {"kernel": "cuda_fused", "dtype": "bfloat16", "hidden": 4096, "value": 0.0, "reason": ""}
    rows = [("results", 9, True), ("results", 2**20 + 1, passed)]
    judgement = PREDICATES["gpu_checks_pass"](frame("check rows passed", *rows, **keys), tolerance=0)
    assert judgement.reason.endswith(f"; more than 2^32 elements: {told}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2.0, "2"),
        (100.0, "100"),
        (1e-5, "1e-5"),
        (5.04e-11, "5.04e-11"),
        (1.2e8, "1.2e8"),
        (-13107.2, "-13107"),
        (0.03125, "0.0312"),
        (1.006, "1.01"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_printed_with_three_digits(value, text):
    assert number(value) == text


def test_a_span_of_numbers_that_print_alike_is_one_of_them():
    assert span([1.0, 2.5]) == "1 to 2.5"
    assert span([1.0001, 1.0002]) == "1"


def test_of_more_than_five_names_the_first_and_the_last_stand_for_all():
    names = [f"way_{number}" for number in range(6)]
    assert over(pd.DataFrame({"way": names[:5]}), "way") == listing(names[:5])
    assert over(pd.DataFrame({"way": names}), "way") == "6 ways from way_0 to way_5"
    assert over(pd.DataFrame({"property": names}), "property").startswith("6 properties from ")


def test_the_mean_of_ratios_is_their_geometric_one():
    assert geometric_mean(pd.Series([1.0, 4.0])) == pytest.approx(2.0)


def test_the_cell_farthest_below_the_floor_is_named_first():
    (table,) = reached((256, 0.8), (512, 0.5), (1024, 0.7))
    judgement = PREDICATES["cells_reach"](table, column="roof_fraction", hidden=[[0, 4096]], tolerance=0.88)
    assert [judgement.reason.find(f"D={size} ") for size in (512, 1024, 256)] == sorted(
        judgement.reason.find(f"D={size} ") for size in (256, 512, 1024)
    )


@pytest.mark.parametrize(("more", "rows"), [({}, ""), ({"axis": "rows"}, " N=9")])
def test_a_single_cell_is_named_with_its_rows_where_they_vary_along_an_axis(more, rows):
    cell = {"direction": "backward", "dtype": "float32", "hidden": 64, "rows": 9, "ratio": 0.5} | more
    told = by_cell.short(pd.DataFrame([cell]), "ratio", 3, "0.9")
    assert told == f"1 of 3 cells misses 0.9: backward float32{rows} D=64 (0.5)"


def test_nothing_is_judged_for_the_most_frequent_reason():
    table = frame("reason", ("none here",), ("none here",), ("time was up",))
    assert by_cell.nothing(table, "times").reason == "none here"


def test_lists_read_as_english():
    assert [listing([]), listing(["a"]), listing("ab"), listing("abc")] == [
        "none",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_a_cell_whose_interval_contains_the_limit_counts_neither_as_missed_nor_as_reached():
    (table,) = reached((256, 0.5), (512, 0.879), (1024, 0.881), (512, 0.95))
    judgement = PREDICATES["cells_reach"](table, column="roof_fraction", hidden=[[0, 4096]], tolerance=0.88)
    assert judgement.reason.endswith("the whole interval misses it in 1 cell and reaches it in 1")


@pytest.mark.parametrize("key", [*KEYS, "rows"])
def test_a_cell_of_peers_is_identified_by_all_its_keys(key):
    one, other = (peers((256, "torch", 2.0))[0] for _ in range(2))
    told = 64 if pd.api.types.is_numeric_dtype(other[key]) else "another"
    table = pd.concat([one, other.assign(**{key: told})], ignore_index=True)
    judgement = PREDICATES["best_peer_takes"](table, ours="numba_fused", least=1.0, tolerance=1.2)
    assert " over 2 cells " in judgement.value


def test_the_smallest_arrays_with_which_ordinary_stores_lose_are_reported():
    table = read_next((0.6, False), (1.4, True), (1.5, True))
    judgement = PREDICATES["ordinary_within"](*table, tolerance=0.05)
    assert judgement.reason == "1 of 3 cells stay within 5 %; the others have arrays of 2 MB and more"


def test_the_slope_farthest_from_theory_is_reported():
    judgement = PREDICATES["powers_are_those_of_theory"](*fitted(2.05, 0.8), tolerance=0.1)
    assert judgement.value.startswith("2 slopes; farthest from theory 0.80, welford dx ")


@pytest.mark.parametrize(("wide", "free", "sure"), [(0.035, 0.0, 2), (0.0, 0.04, 2), (0.035, 0.04, 0)])
def test_the_fraction_kept_on_a_contended_core_is_as_uncertain_as_both_fractions(wide, free, sure):
    """0.6 / 0.8 is certainly below 0.8 as long as only one of the two fractions is uncertain."""
    cells = slowed((0.8, 0.8, 0.6, 0.6), wide=wide, free=free)
    found = PREDICATES["core_slows_kernel_more"](cells, slowed=1.2, tolerance=0.2)
    assert f"{sure} of 2 cells" in found.reason


def test_a_ratio_with_one_exact_fraction_has_the_interval_of_the_other():
    sure, unsure = (0.6, 0.6, 0.6), (0.8, 0.7, 1.0)
    above, below = (pd.DataFrame([ends]) for ends in (sure, unsure))
    assert _ratio(above, below).iloc[0].tolist() == pytest.approx([0.6 / 0.8, 0.6 / 1.0, 0.6 / 0.7])
    assert _ratio(below, above).iloc[0].tolist() == pytest.approx([0.8 / 0.6, 0.7 / 0.6, 1.0 / 0.6])
