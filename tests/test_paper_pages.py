"""What the paper says of streams in several pages holds wherever they are faster or slower than in order."""

import pytest

from layernorm_backward.paper.context import constant
from layernorm_backward.paper.render import environment
from test_paper_machine import MACROS, TEMPLATE, Numbers
from workspace import ROOT

(PARAGRAPH,) = [line for line in TEMPLATE.splitlines() if "operations `copy_pages`" in line]


def told(**numbers):
    names = {"n": Numbers(**numbers), "c": constant, "judged": {"pages-in-turn": "a claim"}}
    return environment(ROOT / "paper").from_string(MACROS + PARAGRAPH).render(**names)


@pytest.mark.parametrize("triad", [0.93, 1.2])
def test_a_stream_in_pages_is_called_neither_faster_nor_slower_before_its_rate_is_told(triad):
    said = told(ceiling_copy_pages=1.19, ceiling_triad_pages=triad)
    assert "the same lines arrive at another rate: the copy" in said
    assert f"moves 1.19 times and the triad {triad} times the bytes" in said


def test_which_processors_have_their_rows_read_in_pages_is_told():
    assert "On an Intel processor with AVX-512 `numba_fused` reads short rows in this way" in told()
    assert "On a Xeon 6 it does so forward, and backward only on some long rows" in told()
    assert "On other processors it reads line after line (a claim)" in told()


@pytest.mark.parametrize("text", ["of a faster one", "a line of each, is faster;", "gives more than these"])
def test_nowhere_is_a_stream_in_pages_the_faster_one_on_every_machine(text):
    assert text not in TEMPLATE
