"""Every derivation by its name in tables and legends."""

from collections.abc import Callable

from layernorm_backward.derivations.closed_form import chain_rule, dense_jacobian, projection
from layernorm_backward.derivations.complex_step import complex_step
from layernorm_backward.derivations.exact import exact
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.derivations.published import centring_trick, docstring_formula
from layernorm_backward.derivations.symbolic import symbolic

DERIVATIONS: dict[str, Callable[..., Gradients]] = {
    function.__name__: function
    for function in (
        projection,
        chain_rule,
        dense_jacobian,
        symbolic,
        complex_step,
        exact,
        centring_trick,
        docstring_formula,
    )
}
