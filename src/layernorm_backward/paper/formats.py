"""Formats of the values in the text and the tables of the paper: Markdown, with math where needed."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import Any


def power(value: float, digits: int = 2) -> str:
    """5.04e-11 as $5.04 \\times 10^{-11}$; plain below 1000 and above 0.01."""
    if value == 0 or not math.isfinite(value) or 0.01 <= abs(value) < 1000:
        return three(value)
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$"


def three(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    value = float(f"{value:.2e}")
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def upward(value: float, places: int) -> float:
    """The value rounded up to `places` decimal places: for "at most" and "below"."""
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), ROUND_CEILING))


def downward(value: float, places: int) -> float:
    """The value rounded down to `places` decimal places: for "at least"."""
    return -upward(-value, places)


def _third_digit(value: float) -> int:
    """The decimal place of the third significant digit."""
    return 2 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


FORMATS: dict[str, Callable[[Any], str]] = {
    "power": power,
    "power0": lambda value: power(value, 0),
    "three": three,
    "two": lambda value: f"{value:z.2f}",
    "one": lambda value: f"{value:z.1f}",
    "integer": lambda value: f"{value:z,.0f}".replace(",", "\u202f"),
    "percent": lambda value: f"{100 * value:z.0f}\u00a0%",
    "percent1": lambda value: f"{100 * value:z.1f}\u00a0%",
    "power_up": lambda value: power(upward(value, _third_digit(value))),
    "three_down": lambda value: three(downward(value, _third_digit(value))),
    "two_up": lambda value: f"{upward(value, 2):z.2f}",
    "two_down": lambda value: f"{downward(value, 2):z.2f}",
    "one_up": lambda value: f"{upward(value, 1):z.1f}",
    "percent1_up": lambda value: f"{100 * upward(value, 3):z.1f}\u00a0%",
    "megabytes": lambda value: f"{three(value / 1e6)}\u00a0MB",
    "text": str,
    "code": lambda value: f"`{value}`",
}
