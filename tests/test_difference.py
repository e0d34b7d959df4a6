"""When two times differ: beyond the scatter of their repetitions, and beyond what equal calls differ by."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from layernorm_backward.timing.difference import FEW, USUAL, Ratio, Summary, differs, judged, noise

NAN = float("nan")


def table(*rows, residency="memory", size=10**9):
    """Of rows (ratio, low, high, noise), each a cell of its own."""
    columns = ["ratio", "ratio_low", "ratio_high", "noise"]
    return pd.DataFrame(rows, columns=columns).assign(threads=1, residency=residency, bytes=size)


def test_two_times_differ_beyond_the_noise_and_with_an_interval_that_excludes_1():
    assert differs(Ratio(1.1, 1.05, 1.2), 0.02)
    assert not differs(Ratio(1.1, 0.99, 1.2), 0.02)
    assert not differs(Ratio(1.1, 1.05, 1.2), 0.11)
    assert not differs(Ratio(1.1, float("nan"), float("nan")), 0.0)


def test_a_summary_has_the_median_and_the_quantiles_of_20_and_80_per_cent():
    assert Summary.of([50.0, 10.0, 20.0, 30.0, 40.0, 0.0]) == Summary(25.0, 10.0, 40.0, 6)


@pytest.mark.parametrize("median", [0.9, 1.1])
def test_noise_is_a_distance(median):
    assert noise(Ratio(median, NAN, NAN)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ((1.1, 1.05, 1.2, 0.02), True),
        ((0.9, 0.85, 0.95, 0.02), True),
        ((1.1, 0.99, 1.2, 0.02), False),
        ((1.1, 1.05, 1.2, 0.11), False),
        ((1.1, NAN, NAN, 0.0), False),
        ((1.1, 1.0, 1.2, 0.02), False),
        ((1.5, 1.4, 1.6, 0.5), False),
    ],
)
def test_a_cell_alone_is_judged_by_its_interval_and_noise(row, found):
    assert differs(Ratio(*row[:3]), row[3]) == found


def test_a_table_of_one_cell_allows_for_a_single_draw_of_its_noise():
    """|t| of one deviate is above 6.3 in a tenth of all cases."""
    rows = (1.1, 1.05, 1.2, 0.015), (1.1, 1.05, 1.2, 0.016), (0.9, 0.85, 0.95, 0.015), (1.1, NAN, NAN, 0.0)
    assert [judged(table(row), "ratio")["differs"].item() for row in rows] == [True, False, True, False]


def test_the_quantiles_for_few_cells_are_those_of_student():
    cells = range(1, len(FEW) + 1)
    assert list(FEW) == pytest.approx(stats.t.ppf((1 + USUAL) / 2, cells), abs=5e-4)


def test_a_cell_whose_noise_happens_to_be_small_is_held_to_that_of_the_cells_alike():
    """All differ by 5 %, beyond their own noise; a tenth of the table has no less than 10 % of it.

    Three of ten cells have 10 %, and so has one of nine, by which their root mean square is 3.3 %.
    """
    noises = [0.001] * 8 + [0.1] * 3
    rows = [(1.05, 1.04, 1.06, value * (1 + 1e-6 * number)) for number, value in enumerate(noises)]
    assert not judged(table(*rows), "ratio")["differs"].any()
    assert not judged(table(*rows[:9]), "ratio")["differs"].any()
    fewer = judged(table(*rows[:8]), "ratio")
    assert fewer["differs"].all()
    for other in ({"residency": "cache"}, {"threads": 2}):
        elsewhere = pd.concat([table(*rows[:8]), table(*rows[8:]).assign(**other)], ignore_index=True)
        assert judged(elsewhere, "ratio")["differs"].to_list() == [True] * 8 + [False] * 3


def test_a_cell_of_more_noise_than_most_is_held_to_its_own():
    rows = [(1.05, 1.04, 1.06, 0.01 + 1e-6 * number) for number in range(19)]
    assert judged(table(*rows, (1.05, 1.04, 1.06, 0.5)), "ratio")["differs"].to_list() == [True] * 19 + [
        False
    ]


def test_calls_of_microseconds_do_not_set_the_noise_of_passes_over_megabytes():
    large = [(1.4, 1.3, 1.5, value) for value in (0.01, 0.02, 0.03)]
    small = [(1.4, 1.3, 1.5, value) for value in (0.9, 1.5)]
    sizes = pd.Series([18 << 20] * 3 + [49_152, 98_304], dtype="Int64")
    found = judged(table(*large, *small, residency="cache", size=sizes), "ratio")
    assert found["differs"].to_list() == [True] * 3 + [False] * 2
    unsized = table(*large[:2], size=pd.Series([pd.NA] * 2, dtype="Int64"))
    assert judged(unsized, "ratio")["differs"].all()


def test_rows_of_one_cell_count_once():
    """One noisy cell with many rows among twenty quiet ones is no tenth of the cells."""
    noisy, quiet = (1.5, 1.4, 1.6, 0.4), [(1.05, 1.04, 1.06, 0.01 + 1e-6 * cell) for cell in range(20)]
    assert judged(table(*[noisy] * 20, *quiet), "ratio")["differs"].all()


def test_equal_times_may_be_a_cost_of_nothing_and_a_row_without_a_time_is_not_judged():
    found = judged(table((0.05, 0.04, 0.06, 0.007), (NAN, NAN, NAN, NAN)), "ratio", same=0.0)
    assert found["differs"].to_list() == [True, pd.NA]


def test_equal_calls_on_a_machine_that_favours_some_are_seldom_said_to_differ():
    """Ratios and noise of equal calls, which where they lie in memory moves by 1 % either way."""
    rng = np.random.default_rng(4)
    moved, again = 1 + 0.01 * rng.standard_normal((2, 1000))
    rows = [(one, one - 0.002, one + 0.002, abs(other - 1)) for one, other in zip(moved, again, strict=True)]
    assert 0.05 < judged(table(*rows), "ratio")["differs"].mean() < 0.15
    alone = [differs(Ratio(*row[:3]), row[3]) for row in rows]
    assert np.mean(alone) > 0.4


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 9, 10])
def test_equal_calls_are_as_seldom_said_to_differ_where_few_cells_are_alike(cells):
    """As above, in 300 tables of so many cells; a tenth, within four standard deviations of 300 tables."""
    rng = np.random.default_rng(cells)
    told = []
    for _ in range(300):
        moved, again = 1 + 0.01 * rng.standard_normal((2, cells))
        pairs = zip(moved, again, strict=True)
        rows = [(one, one - 1e-9, one + 1e-9, abs(other - 1)) for one, other in pairs]
        told.append(judged(table(*rows), "ratio")["differs"].mean())
    assert 0.03 < np.mean(told) < 0.17
