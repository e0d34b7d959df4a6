"""Pieces of work: every unit once, large ones first, one at the end."""

import numpy as np
import pytest

from layernorm_backward.work_sharing import pieces, untaken


@pytest.mark.parametrize("units", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("threads", [2, 3, 16])
def test_pieces_shrink_from_half_a_share_to_a_unit(units, threads):
    ends = pieces(units, threads)
    sizes = np.diff(ends)
    assert (ends[0], ends[-1]) == (0, units)
    assert sizes[0] == max(1, units // (2 * threads))
    assert sizes[-1] == 1 and (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize("units", [0, 1, 64])
def test_one_thread_takes_all_at_once(units):
    assert pieces(units, 1).tolist() == ([0, units] if units else [0])


def test_no_piece_is_taken_before_the_start():
    assert untaken().tolist() == [0]
    assert untaken() is not untaken()
