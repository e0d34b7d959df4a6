"""Gradient checks of other packages, run on a NumPy layer; a package is imported when its check runs."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from layernorm_backward.gradient_check.cases import Arguments, Case, flat
from layernorm_backward.gradient_check.rules import SCIPY_TOLERANCE

Backward = Callable[..., Arguments]


def version(package: str) -> str:
    """The version of a package that can be imported here, else ""."""
    try:
        return str(importlib.import_module(package).__version__)
    except (ImportError, OSError):
        return ""


def torch_catches(case: Case, backward: Backward) -> bool:
    """torch.autograd.gradcheck with its defaults, the layer as a custom autograd.Function."""
    import torch

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, *arguments: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(np.array(case.value(*(part.numpy() for part in arguments))))

        @staticmethod
        def backward(context: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
            seed = cotangent.numpy() if case.of == "output" else float(cotangent)
            return tuple(torch.from_numpy(part) for part in case.pulled(backward, seed))

    arguments = [torch.tensor(part, requires_grad=True) for part in case.arguments]
    return not torch.autograd.gradcheck(Layer.apply, arguments, raise_exception=False)


def jax_catches(case: Case, backward: Backward) -> bool:
    """jax.test_util.check_grads of order 1 in mode "rev", the layer as a custom_vjp that is not compiled."""
    import jax
    from jax.test_util import check_grads

    @jax.custom_vjp
    def layer(*arguments: Any) -> Any:
        return jax.numpy.asarray(case.value(*map(np.asarray, arguments)))

    def pull(_: None, cotangent: Any) -> Any:
        return tuple(map(jax.numpy.asarray, case.pulled(backward, np.asarray(cotangent))))

    layer.defvjp(lambda *arguments: (layer(*arguments), None), pull)
    with jax.enable_x64(case.at.x.dtype == np.float64):
        try:
            check_grads(layer, case.arguments, order=1, modes=("rev",))
        except AssertionError:
            return True
    return False


def scipy_catches(case: Case, backward: Backward) -> bool:
    """scipy.optimize.check_grad with its default step, over all of x, gamma, beta in one vector."""
    from scipy.optimize import check_grad

    size, hidden = case.at.x.size, case.at.x.shape[-1]

    def value(vector: np.ndarray) -> float:
        x, gamma, beta = np.split(vector, [size, size + hidden])
        return float(case.value(x.reshape(case.at.x.shape), gamma, beta))

    found = check_grad(value, lambda _: flat(case.pulled(backward, 1.0)), flat(case.arguments))
    return not found <= SCIPY_TOLERANCE


CATCHES: dict[str, Callable[[Case, Backward], bool]] = {
    "torch": torch_catches,
    "jax": jax_catches,
    "scipy": scipy_catches,
}
