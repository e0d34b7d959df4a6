"""Claims over the archived tables: one that speaks of every data set, or of every way, selects all; and one
about orders of summation tells them apart."""

import pandas as pd
import pytest
import yaml

from layernorm_backward.paper.predicates import PREDICATES
from layernorm_backward.paper.selection import select
from workspace import ROOT

CLAIMS = {it["id"]: it for it in yaml.safe_load((ROOT / "paper" / "claims.yaml").read_text(encoding="utf-8"))}
ARCHIVE = ROOT / "results" / "archive" / "xeon5-2core"
RECENTRED, WIDE = {"recentred", "recentred_sums"}, {"float64_statistics"}
NAIVE = {"naive", "naive_s2", "naive_nn", "naive_compensated"}


def held(table: str, column: str) -> set[str]:
    return set(pd.read_csv(ARCHIVE / f"{table}.csv", usecols=[column])[column])


@pytest.mark.parametrize(
    ("claim", "rows", "but"),
    [
        ("jax-offset-alarm", ["offset"], {"offset uniform squared_loss"}),
        ("scipy-near-eps-alarm", ["near_eps", "mixed"], set()),
    ],
)
def test_every_data_set_of_such_rows_is_selected(claim: str, rows: list[str], but: set[str]) -> None:
    wanted = CLAIMS[claim]["tables"]["mutation"]
    table = pd.read_csv(ARCHIVE / "mutation.csv", usecols=["check", "data"])
    checks = [wanted["check"]] if isinstance(wanted["check"], str) else wanted["check"]
    there = set(table.loc[table["check"].isin(checks), "data"])
    assert set(wanted["data"]) == {data for data in there if data.split()[0] in rows} - but


@pytest.mark.parametrize(
    ("claim", "table", "but"),
    [
        ("trained-moved", "model_error", {"recentred_sums"} | WIDE),
        ("mean-path-two-numbers", "mean_path", NAIVE),
        ("mean-path-first-order", "mean_path", NAIVE | RECENTRED),
        ("trained-ways-alike", "model_error", {"welford", "shifted"}),
        ("wide-sums-suffice-for-16-bit", "mean_path", NAIVE | {"welford"}),
    ],
)
def test_every_way_but_those_named_is_selected(claim: str, table: str, but: set[str]) -> None:
    assert set(CLAIMS[claim]["tables"][table]["algorithm"]) == held(table, "algorithm") - but


@pytest.mark.parametrize("other", ["running", "pairwise"])
def test_a_kernel_that_sums_otherwise_is_not_taken_for_a_chunked_one(other: str) -> None:
    claim = CLAIMS["sum-kernels"]
    table = select(pd.read_csv(ARCHIVE / "summation.csv"), claim["tables"]["summation"])
    others = table[table["scheme"] == other].assign(scheme="kernel:numba_fused")
    spoilt = pd.concat([table[table["scheme"] != "kernel:numba_fused"], others])
    verdicts = [
        PREDICATES[claim["predicate"]](rows, **claim["numbers"], tolerance=claim["tolerance"]).verdict
        for rows in (table, spoilt)
    ]
    assert verdicts == ["confirmed", "refuted"]
