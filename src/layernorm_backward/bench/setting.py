"""What is timed, and how long that may take; a wrong value is refused with what is allowed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from layernorm_backward.directions import AnyDirection
from layernorm_backward.dtypes import DtypeName, dtype_of, require_gamma
from layernorm_backward.timing.timed import allowed_threads, most_threads

EPS = 1e-5


@dataclass(frozen=True)
class Setting:
    """x (rows, hidden) of `dtype`, gamma of `gamma_dtype`; `seconds` is for everything."""

    rows: int
    hidden: int
    dtype: DtypeName
    gamma_dtype: DtypeName
    directions: tuple[AnyDirection, ...]
    threads: int
    seconds: float
    seed: int

    def __post_init__(self) -> None:
        for name in ("rows", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: at least 1")
        if not 1 <= self.threads <= most_threads():
            raise ValueError(f"threads is {self.threads}; allowed: {allowed_threads()}")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds is {self.seconds:g}; allowed: finite and > 0")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; allowed: at least 0")
        require_gamma(self.gamma_dtype, self.dtype)

    @property
    def itemsize(self) -> int:
        return dtype_of(self.dtype).itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of x."""
        return self.hidden * self.itemsize

    def arrays_bytes(self, rows: int) -> int:
        """x, dy, dx, and y where it needs an array of its own."""
        return (4 if self.both else 3) * rows * self.row_bytes

    @property
    def both(self) -> bool:
        """Whether y and dx are wanted at once, so that they need an array each."""
        return "both" in self.directions


class Deadline:
    """The moment at which all must be done, and what the time went into; `spent_s` had passed before."""

    def __init__(
        self, seconds: float, clock: Callable[[], float] = perf_counter, spent_s: float = 0.0
    ) -> None:
        self._clock, self._seconds = clock, seconds
        self._start = self._noted = clock() - spent_s
        self._parts: dict[str, float] = {}

    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._seconds - self.spent_s())

    def spent_s(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    def note(self, what: str) -> None:
        """What the time since the last note, or the start, went into."""
        now = self._clock()
        self._parts[what] = self._parts.get(what, 0.0) + now - self._noted
        self._noted = now

    def told(self) -> str:
        """What took a tenth of the time or more, as a clause; "" where nothing did."""
        long = {what: its for what, its in self._parts.items() if its >= self._seconds / 10}
        parts = ", ".join(f"{what} took {its:.2g} s" for what, its in long.items())
        return f" (of {self._seconds:g} s, {parts})" if parts else ""
