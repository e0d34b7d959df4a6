"""Arrays that begin apart, as views of a user's may: each elsewhere modulo 16 bytes, amid other elements."""

from typing import Any

import numpy as np

from layernorm_backward.gpu.board import unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import Arrays

# Elements after a multiple of 16 bytes; of float64, which has two places, x begins apart from dy and y, too.
GIVEN, RESULTS = Arrays(x=1, gamma=1, beta=2, dy=0), Results(y=2, dx=3, dgamma=1, dbeta=3)
BESIDE = 16  # elements at least on either side; of any dtype a multiple of 16 bytes


class Buffers:
    """What the arrays are views of. Beside them there is NaN, which no result takes up unnoticed."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._beside: list[Any] = []

    def given(self, arrays: Arrays) -> Arrays:
        """Copies that begin apart."""
        return Arrays(*map(self._copy, arrays, GIVEN))

    def results(self, arrays: Results) -> Results:
        """Copies that begin apart."""
        return Results(*map(self._copy, arrays, RESULTS))

    def untouched(self) -> bool:
        """Whether nothing has been written beside the arrays."""
        return not any(bool((~one).any()) for one in self._beside)

    def _copy(self, array: Any, place: int) -> Any:
        bits, begin = array.view(unsigned(array.dtype)).reshape(-1), BESIDE + place
        end = begin + bits.size
        buffer = self._xp.empty(end + BESIDE, bits.dtype)
        buffer[...] = np.iinfo(bits.dtype).max  # every bit is set, which is NaN
        buffer[begin:end] = bits
        self._beside += buffer[:begin], buffer[end:]
        return buffer[begin:end].view(array.dtype).reshape(array.shape)
