"""A schema that is written wrongly is told before anything is measured."""

import pytest

from layernorm_backward import experiments
from layernorm_backward.records import schemas
from layernorm_backward.studies import study


def test_what_is_timed_or_measured_on_a_gpu_depends_on_the_machine():
    measured = {stem for stem in experiments.EXPERIMENTS if study.runs_alone(stem)}
    assert [stem for stem in sorted(measured) if schemas.SCHEMAS[stem].repeats is not None] == []


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        ("dtype", "error:flaot reason", "column error: unknown kind 'flaot'; allowed: str, int, float, bool"),
        (
            "dtype hidden:int",
            "error:float hidden:int",
            "columns hidden: stand twice in one schema; allowed: once",
        ),
    ],
)
def test_a_fault_of_a_schema_is_told_by_column(keys, values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        schemas._schema(keys, values)
