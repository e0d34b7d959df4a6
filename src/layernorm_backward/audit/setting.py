"""The sizes and limits of an audit, and its findings."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from layernorm_backward.dtypes import DtypeName, dtype_of, require_gamma, unit_roundoff
from layernorm_backward.portable import decades
from layernorm_backward.untrusted.raised import RAISED, told

LEAST_HIDDEN = 16  # in shorter rows the projection can take nearly all of g away, at any kappa


@dataclass(frozen=True)
class Setting:
    """Sizes, seed, eps and limits, errors in u of the dtype.

    rows x hidden and `per_decade` values of kappa make the sweep, `sum_rows` rows the sums of dgamma and
    dbeta, `check_shape` the gradient check. `limit_u` is for the sweep, for eps and for the edge cases of
    `cases.FURTHER`, `edge_limit_u` for those of the table edge_cases, `slope_limit` for the
    power of kappa with which an error grows.
    Sums over many rows have `sum_limit_u`. gamma and beta have `gamma_dtype`; None: that of x. `without` are
    edge cases of `cases.CASES` that are left out.
    """

    rows: int
    hidden: int
    per_decade: int
    sum_rows: int
    check_shape: tuple[int, int, int]
    eps: float
    limit_u: float
    slope_limit: float
    edge_limit_u: float
    seed: int
    gamma_dtype: DtypeName | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.hidden < LEAST_HIDDEN:
            raise ValueError(f"hidden is {self.hidden}; allowed: at least {LEAST_HIDDEN}")
        for name in ("rows", "per_decade", "sum_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: at least 1")
        for name in ("eps", "limit_u", "slope_limit", "edge_limit_u"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: finite and > 0")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; allowed: at least 0")

    def gamma_of(self, dtype: DtypeName) -> DtypeName:
        """The dtype of gamma, beta, dgamma and dbeta beside x of a dtype; ValueError for one not allowed."""
        require_gamma(self.gamma_dtype or dtype, dtype)
        return self.gamma_dtype or dtype

    def sum_limit_u(self, rows: int, dtype: DtypeName) -> float:
        """The largest error in u that a sum over so many rows may show, in its dtype; in 16 bits `limit_u`.

        Each addition of a running sum rounds a partial sum, by u of it at most; where terms do not cancel, by
        u of the total. That is rows * u at worst, and sqrt(rows) * u where roundings are independent, in
        whatever order a kernel takes the rows. Sums of 16-bit numbers belong in float32, and show one.
        """
        if dtype_of(dtype).itemsize == 2:
            return self.limit_u
        return max(self.limit_u, math.sqrt(rows))

    def kappas(self, dtype: DtypeName) -> np.ndarray:
        """From 1 to 1/(2u), where neighbouring numbers of the dtype are a standard deviation apart."""
        largest = 0.5 / unit_roundoff(dtype_of(dtype))
        return decades(1.0, largest, 1 + math.ceil(self.per_decade * math.log10(largest)))


STANDARD = Setting(
    rows=64,
    hidden=1024,
    per_decade=2,
    sum_rows=4096,
    check_shape=(4, 8, 16),
    eps=1e-5,
    limit_u=8.0,
    slope_limit=0.25,
    edge_limit_u=32.0,
    seed=20260423,
)


class Finding(NamedTuple):
    """One property of a kernel: its value with an interval, its limit, and whether it passed.

    `passed` is None where the property cannot be measured, and `reason` says why; `note` is for the reader.
    """

    property: str
    value: float
    limit: float
    passed: bool | None
    value_low: float = np.nan
    value_high: float = np.nan
    note: str = ""
    reason: str = ""

    @property
    def raised(self) -> bool:
        """Whether it could not be measured, since the kernel raised or returned what does not fit."""
        return self.note.startswith(RAISED)


def broken(name: str, limit: float, error: BaseException) -> Finding:
    """The finding where the kernel raised, or returned what does not fit."""
    return Finding(name, np.inf, limit, False, note=told(error))
