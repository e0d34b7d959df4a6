"""Rows of the paper's tables of claims: what was measured, where, and why a claim is not confirmed."""

import pytest

from layernorm_backward.paper.claim_rows import claim_rows, judged, plain

ROW = {"claim": "flat", "origin": "ours", "says": "dx_i is flat", "value": "slope 0.", "condition": "float64"}


@pytest.mark.parametrize(
    ("verdict", "told", "measured"),
    [
        ("confirmed", "confirmed", "slope 0. float64"),
        ("refuted", "**refuted**", "slope 0. float64. allowed: 1"),
    ],
)
def test_the_reason_is_given_where_a_claim_is_not_confirmed(verdict, told, measured):
    rows = [ROW | {"verdict": verdict, "reason": "allowed: 1"}, ROW | {"origin": "published"}]
    said = {"claim": r"`flat`: dx\_i is flat", "verdict": told, "measured": measured}
    assert claim_rows(rows, "ours") == [said]


def test_a_claim_without_a_value_has_no_empty_sentence():
    row = ROW | {"verdict": "not measured", "value": "", "condition": "", "reason": "no GPU"}
    assert claim_rows([row], "ours")[0]["measured"] == "no GPU"


def test_a_claim_within_a_sentence_has_its_name_and_verdict():
    assert judged(ROW | {"verdict": "refuted"}) == "claim `flat`, refuted"
    assert plain("a|b*c") == r"a|b\*c"
