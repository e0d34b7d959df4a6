"""What predicates say of small tables: the numbers in value and reason, each from rows of its own."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from claim_cases import EPS, Tables, stacked
from claim_cases_audits import findings
from claim_cases_cost import WORK
from claim_cases_decisions import bits, decided, errors
from claim_cases_goals import EVERY, PEERS, peers, reached
from claim_cases_gpu import LAUNCHES, _launches, _traffic
from claim_cases_mean_path import cell, more
from claim_cases_stores import read_next
from claim_cases_sums import changes, kernel_of_few_rows, predicted, ways
from claim_cases_tolerances import cells
from claim_cases_trained import sites
from claim_frames import bounds, cancellation, cases, divisions, eps_rows, exponents, naive, timing, work


class Said(NamedTuple):
    """A predicate, what it is called with, and what its value and its reason must hold."""

    predicate: str
    tables: Tables
    tolerance: float
    numbers: dict[str, Any]
    value: str
    reason: str = ""


def said() -> Iterator[Said]:
    yield Said(
        "cancellation_is_benign",
        (cancellation(500.0, 2.0),),
        16,
        {},
        "error up to 500 u of dx, 2 u of r*g",
        "grows as kappa_g to the power 1.35; relative to r*g it is at most 16 u",
    )
    tested = (cases(True, True, False),)
    yield Said("cases_pass", tested, 0, {}, "2 of 3 cases pass", "failed: compact case_2 float64")
    yield Said("cases_fail", tested, 0, {}, "1 of 3 cases fail; errors 1 u")
    found = findings((1.0, True), (1.0, True), (9.0, False))
    yield Said("audit_passes", found, 0, {}, "2 of 3 pass", "failed: property_2 (compact, float32)")
    yield Said(
        "cells_reach", reached((64, 0.5), (128, 0.9), (255, 0.95)), 0.9, EVERY, "median 0.9, in 3 cells"
    )
    yield Said(
        "best_peer_takes",
        peers((256, "torch", 0.9), (512, "torch", 0.8), (1024, "torch", 9.0)),
        1.2,
        PEERS,
        "0.8 to 9 over 3 cells (torch in 3)",
        "2 of 3 cells miss 1: backward float32 D=512 (0.8) and backward float32 D=256 (0.9); ",
    )
    yield Said(
        "decision_costs_at_most",
        (decided((0.01, True), (0.046, True), (0.2, True), (0.3, True)),),
        0.05,
        {},
        "costs 12.3 % of the time in the median cell, 1 to 30 % over the cells",
        "2 of 4 cells stay within 5 %; the whole interval misses it in 2 cells and reaches it in 1",
    )
    saved = decided((-0.1, True), (-0.2, True), (-0.6, True))
    told = "saves 20 % of the time in the median cell, 10 to 60 % over the cells"
    yield Said("decision_saves", (saved,), 0.05, {}, told)
    twice = stacked(bits(True, False), bits(False, False))[0]
    yield Said("bits_stay", twice, 0, {}, "equal in 1 of 4 rows", "different bits: variant_0 and variant_1")
    order = "division_last_avoids_overflow"
    yield Said(order, (divisions((1.0, 64, 32)),), 0, {}, "up to 0 of 64 rows more are finite (none), and")
    yield Said(order, (divisions((1.0, 32, 64)),), 0, {}, "and up to 0 fewer (none)")
    lost = stacked(eps_rows(0.0, True), eps_rows(0.0, True).assign(kernel="overcached"))[0]
    defaults = EPS | {"defaults": {"A": 1e-8}}
    yield Said("eps_is_standard", lost, 0, defaults, "rounds to 0: 1e-8 in float16; results not finite: none")
    yield Said(
        "recentring_is_used",
        (errors([2.0, 3.0], [1e4, 1e5]),),
        4,
        {"without": 1e3},
        "errors of 2 to 3 u with re-centring, 10000 to 100000 u without",
    )
    bounded = bounds(0.8, 0.9, 1.1, 2.0, float("nan"))
    bounded["bound_ratio_max"] = bounded["bound_ratio_max"].where(bounded["error_u_max"] != 2.0)
    yield Said(
        "errors_within_bounds",
        (bounded,),
        1,
        {},
        "largest ratio of error to bound 1.1 in 3 cells",
        "1 cells exceed 1 times their bound; 1 of 4 cells have no bound",
    )
    yield Said(
        "gpu_traffic_is",
        _traffic(*(("cuda_fused", over, 2.0) for over in (1.2, 1.3, 1.0))),
        1.05,
        {"least": 0.95},
        "median 1.2, in 3 cells",
        "miss 0.95 to 1.05: backward float32 N=9 D=1024 (1.3) and backward float32 N=9 D=1024 (1.2)",
    )
    yield Said(
        "gpu_launches_are",
        _launches((1, 4), (2, 5)),
        0,
        LAUNCHES,
        "2 instead of 5 backward and 1 instead of 4 forward",
    )
    yield Said(
        "grows_linearly",
        (exponents((1.0, 0.95, 1.05), (1.0, 0.4, 1.6)),),
        0.1,
        {},
        "",
        "forward rows memory, of which 1 contain 1 but are too wide to decide",
    )
    yield Said(
        "division_last_avoids_overflow",
        (divisions((0.01, 0, 64), (1.0, 64, 64), (100.0, 64, 32)),),
        0,
        {},
        "up to 64 of 64 rows more are finite (std 0.01, share 0.02, normal dz), and up to 32 fewer",
    )
    yield Said(
        "eta_and_rho_explain",
        more(cell(error=30.0, remainder=1.0), cell(error=100.0, remainder=3.0)),
        4,
        {},
        "eta and rho explain errors of up to 100 u but for 3 u",
    )
    yield Said(
        "eps_changes_dx",
        changes([0.02, 0.03], [0.005, 0.001]),
        0.01,
        {"below": 40, "above": 60},
        "by at least 0.02 up to a variance of 40 eps, and by at most 5e-3 from 60 eps on",
    )
    change = predicted(1.2e-3)
    told = "ratio of change to prediction 1.2 in 1 cells"
    yield Said("eps_change_is_first_order", change, 0.05, {"share": 0.01}, told)
    yield Said(
        "published_times",
        (timing(1.0, 2.0),),
        0.05,
        {way: {"forward": 4e-5, "backward": 8e-5} for way in ("milliseconds", "printed")},
        "1000 ms forward (published 4e-5) and 2000 ms backward (published 8e-5); published times give 0.2 "
        "and 0.1 elements per ns and 3.2 and 2.4 GB/s",
    )
    yield Said(
        "ordinary_within",
        read_next((0.6, False), (1.4, True), (1.5, True)),
        0.05,
        {},
        "0.6 to 1.5 times the time with non-temporal stores",
        "1 of 3 cells stay within 5 %; the others have arrays of 2 MB and more",
    )
    yield Said(
        "kernel_errs_no_more",
        kernel_of_few_rows(0.8, 0.9),
        1.0,
        {"kernel": "fused", "order": "pairwise"},
        "0.8 to 0.9 in 2 cells",
        "0 of 2 ratios are above 1",
    )
    (many,), (few,) = ways((0.1, 1e-3, 1e-3)), ways((0.2, 1e-2, 1e-2))
    yield Said(
        "pairwise_helps",
        stacked(few.assign(rows=10), many)[0],
        2,
        {"wide": "float64"},
        "running 0.1, pairwise 1e-3, running in float64 1e-3 (quantity_0, 100 rows)",
    )
    half = cells(False, False, True)
    half["passed"] = half["passed"] | (half["dtype"] == "float64") & (half.index < 2)
    yield Said(
        "rules_fail",
        (half,),
        0,
        {"at": {"kappa": 1, "std": 1}},
        "allclose fail in every dtype",
        "failing cells, in the dtype with the fewest: 1 (allclose)",
    )
    yield Said(
        "operations_are",
        (work("counted_operations_per_element", compact=(5.0, 10.0)),),
        0.1,
        WORK,
        "5 forward and 10 backward, 15 in all; ratio backward/forward 2",
    )
    yield Said(
        "kappa_stays_below", (sites(1.001, 1.002),), 1.01, {}, "kappa up to 1 + 2e-3, |mean|/std up to"
    )
    yield Said(
        "naive_gives",
        (naive([0.0, 2.0, 4.0], 3.2, 2.0),),
        0,
        {"naive": 0.0, "stable": 2.0},
        "D = 5: 0 as S2/n - (S/n)^2, 2 as S2/n - (S/n)^2, 4 as S2/n - (S/n)^2 and 3.2 as (S2 - S^2/n)/n",
        "1 of 3 rows give 0 as S2/n - (S/n)^2",
    )
