"""A shape that the paper's text names is that which a config file says, or which its numbers select."""

import re
from types import SimpleNamespace

import pytest

from layernorm_backward.paper import numbers
from layernorm_backward.paper.render import environment
from layernorm_backward.records.schemas import SCHEMAS
from workspace import ROOT

TEXT = (ROOT / "paper/paper.md.j2").read_text(encoding="utf-8")
NUMBERS = numbers.load(ROOT / "paper/numbers.yaml")
_NAMED = re.compile(r'D = << c\("\d+"\)|rows? of << c\("\d+"\) >> elements')
OF_ALL = {"recentred_dx_float32_all", "gpu_triton_forward_high"}  # whose clause says so, or names no D


class Anything:
    """A table's record, or a number, of which this test asks nothing."""

    def __getattr__(self, name):
        return Anything()

    def __str__(self):
        return "-"


@pytest.mark.parametrize(
    ("says", "stem", "config", "wanted"),
    [
        ("All of this was measured", "saved_statistics", {"hidden": 321}, "rows of $D = 321$ elements"),
        (": Bytes kept beyond", "saved_statistics", {"hidden": 321, "rows": 5}, "5 rows of $D = 321$"),
        ("n.summation_torch_version >>:", "audit_peers", {"sum_rows": 321}, "over 321 rows of"),
        ("n.spot_most >> such elements", "spot_check", {"shape": [2, 3, 7]}, "42 elements"),
    ],
)
def test_a_shape_of_a_config_file_follows_it(says, stem, config, wanted):
    (line,) = (line for line in TEXT.splitlines() if says in line)
    meta = Anything()
    setattr(meta, stem, SimpleNamespace(config=config))
    filled = environment(ROOT / "paper").from_string(line)
    assert wanted in filled.render(meta=meta, n=Anything(), c=str, judged=Anything())


def test_the_sizes_of_a_table_follow_it():
    (line,) = (line for line in TEXT.splitlines() if "the pass for $D$ from" in line)
    rows = {"handover": [{"hidden": hidden} for hidden in (32, 8, 16)]}
    filled = environment(ROOT / "paper").from_string(line)
    assert "the pass for $D$ from 8 to 32, in float32" in filled.render(rows=rows.get)


def test_the_numbers_of_a_sentence_that_names_a_size_are_of_a_size():
    """In another configuration they were the extremes over all sizes, and the sentence named one."""
    sentences = [one for one in re.split(r"(?<=[.:;])\s", TEXT.replace("\n", " ")) if _NAMED.search(one)]
    named = {name for one in sentences for name in re.findall(r"\bn\.(\w+)", one)} - OF_ALL
    assert len(named) > 30
    of_any = {
        name
        for name in named
        if "hidden" in SCHEMAS[NUMBERS[name].table].columns and "hidden" not in NUMBERS[name].where
    }
    assert of_any == set()


def test_the_times_of_a_sentence_that_names_one_dtype_are_of_that_dtype():
    """Those of `compact` in float64 stood beside "in float32", and were the least of the range."""
    wrong = {}
    for sentence in re.split(r"(?<=[.:;])\s", TEXT.replace("\n", " ")):
        dtypes = [*set(re.findall(r"\b(?:bfloat|float)\d\d\b", re.sub("<<.*?>>", "", sentence)))]
        if "times as long" not in sentence or len(dtypes) != 1:
            continue
        for name in re.findall(r"\bn\.(\w+)", sentence):
            found = NUMBERS[name].where.get("dtype")
            if "dtype" in SCHEMAS[NUMBERS[name].table].columns and found != dtypes[0]:
                wrong[name] = found
    assert wrong == {}


def test_the_slopes_that_are_counted_are_those_whose_range_is_told():
    counted = {"property": "kappa"}
    assert NUMBERS["slopes_fitted"].where == NUMBERS["slopes_asked"].where == counted
    ranges = [NUMBERS[f"slopes_{kind}_low"].where for kind in ("naive", "plain", "flat")]
    assert [set(where) - {"expected", "reason"} for where in ranges] == [set(counted)] * 3
