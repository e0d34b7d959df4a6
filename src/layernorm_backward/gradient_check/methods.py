"""Numerical derivatives: each a weighted mean of central differences, or a complex step.

f'(a) is about sum_k weight_k * (f(a + o_k h) - f(a - o_k h)) / (2 o_k h), where the weights sum to 1. The
stencils of findiff have this form, and so does Richardson extrapolation with halved steps: one halving is the
stencil of order 4 at h/2; two give order 6, with other steps than the stencil.
"""

from dataclasses import dataclass
from fractions import Fraction

import findiff
import sympy

Terms = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Method:
    """`terms` are pairs (offset in steps, weight); the error falls as step**order.

    `of_loss` differences the scalar sum(dy * y), one element of x at a time, instead of y itself.
    """

    name: str
    order: int
    terms: Terms = ((1.0, 1.0),)
    imaginary: bool = False
    of_loss: bool = False

    @property
    def points(self) -> int:
        """Evaluations of the forward pass for one derivative."""
        return len(self.terms) * (1 if self.imaginary else 2)

    @property
    def amplification(self) -> float:
        """sum |weight|/offset: over the step, the factor by which the rounding error of y is amplified."""
        return 0.0 if self.imaginary else sum(abs(weight) / offset for offset, weight in self.terms)

    @property
    def truncation(self) -> float:
        """The error of order step**order for t/sqrt(1 + t^2) at t = 0, which is x_hat along a row's own
        direction in units of sqrt(var + eps): |binomial(-1/2, order/2)| * |sum weight * offset**order|."""
        series = abs(float(sympy.binomial(sympy.Rational(-1, 2), self.order // 2)))
        return series * abs(sum(weight * offset**self.order for offset, weight in self.terms))


def central(order: int) -> Method:
    """The central difference of an even order, from findiff's exact rational coefficients.

    Its floating-point ones are off by up to 4u each.
    """
    stencil = findiff.coefficients(deriv=1, acc=order, symbolic=True)["center"]
    pairs = zip(stencil["offsets"], stencil["coefficients"], strict=True)
    terms = tuple((float(offset), float(2 * offset * weight)) for offset, weight in pairs if offset > 0)
    return Method(f"central{order}", order, terms)


def richardson(halvings: int) -> Method:
    """Richardson extrapolation of the central differences at h, h/2, ..., h/2**halvings."""
    steps = [Fraction(1, 2**k) for k in range(halvings + 1)]
    weights = [_extrapolated(steps, step) for step in steps]
    terms = tuple((float(step), float(weight)) for step, weight in zip(steps, weights, strict=True))
    return Method("richardson", 2 * (halvings + 1), terms)


def _extrapolated(steps: list[Fraction], step: Fraction) -> Fraction:
    """The weight at `step` of the polynomial in step**2 through all steps, taken at 0 (Lagrange)."""
    weight = Fraction(1)
    for other in steps:
        if other != step:
            weight *= other**2 / (other**2 - step**2)
    return weight


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        central(2),
        central(4),
        central(6),
        richardson(2),
        Method("complex_step", 2, imaginary=True),
        Method("central2_of_loss", 2, of_loss=True),
    )
}
