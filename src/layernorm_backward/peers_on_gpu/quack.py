"""QuACK's layer norm for Hopper and later, in the CuTe DSL: layernorm_fwd and, since 0.6.2, layernorm_bwd.

The forward pass takes gamma and beta in float32 only, so they are widened before anything is timed; dgamma
and dbeta come in float32 and are rounded when they are looked at. The backward pass writes partial sums of
these, one a block, which PyTorch adds up. Launch parameters are those of QuACK's own rules for the device.
"""

from typing import Any

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, refuse_float64
from layernorm_backward.peers_on_gpu.passes import contender

LONGEST = {2: 1 << 18, 4: 1 << 17}  # elements of a row that fit on the chip, by bytes of an element
SMALLEST_COPY = 4  # bytes; with fewer its kernels do not compile (0.6.5)
_NOTE = "quack.rmsnorm: layernorm_fwd and layernorm_bwd, gamma and beta in float32, its own launch parameters"
_HALF = "quack.rmsnorm: layernorm_fwd; this version has no backward pass of layer normalization"


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float) -> Contender:
    """ValueError on a CPU, and for what QuACK does not compile: float64, and some lengths of rows."""
    _refuse(x)
    from importlib import import_module

    home = import_module("quack.rmsnorm")  # the package has a function of the same name
    given = (x, gamma, beta, dy)
    x, gamma, beta, dy = map(tensor, given)
    gamma, beta = gamma.float(), beta.float()
    _, rstd, mean = home.layernorm_fwd(x, gamma, beta, eps, return_rstd=True, return_mean=True)

    def forward() -> tuple[Any, ...]:
        return home.layernorm_fwd(x, gamma, beta, eps, return_rstd=True, return_mean=True)[:1]

    def backward() -> tuple[Any, ...]:
        return home.layernorm_bwd(x, gamma, dy, rstd, mean, has_bias=True)

    has_backward = hasattr(home, "layernorm_bwd")
    note = _NOTE if has_backward else _HALF
    return contender(forward, backward if has_backward else None, note, given[1], cuda=True)


def _refuse(x: Any) -> None:
    hidden, itemsize = x.shape[1], x.dtype.itemsize
    refuse_float64(x.dtype, "QuACK")
    if hidden > LONGEST[itemsize]:
        raise ValueError(
            f"QuACK takes rows of at most {LONGEST[itemsize]} elements of {x.dtype}, not {hidden}"
        )
    if hidden * itemsize % SMALLEST_COPY:
        raise ValueError(
            f"QuACK copies {SMALLEST_COPY} bytes or more at once: no {x.dtype} rows of odd length"
        )
    if on_host(x):
        raise ValueError("QuACK runs on a GPU only")
