"""QuACK's layer norm for Hopper and later, in the CuTe DSL; it has a backward pass since 0.6.2.

The forward pass takes gamma and beta in float32 only, so they are widened before anything is timed. dgamma
and dbeta are returned in float32, and rounded to gamma's dtype only when results are read. The backward pass
writes their partial sums, one per block, which PyTorch adds up.

Launch parameters are tuned on the device, by rmsnorm_fwd_tuned and rmsnorm_bwd_tuned with is_layernorm, on
preallocated results. Where a version has no such function, or tuning fails, layernorm_fwd and layernorm_bwd
use QuACK's own rule for the device, an analytical heuristic.
"""

from importlib import import_module
from typing import Any

from layernorm_backward.one_line import one_line
from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, Directions, refuse_float64
from layernorm_backward.peers_on_gpu.passes import Pass, contender
from layernorm_backward.peers_on_gpu.quack_tuning import tuned

LONGEST = {2: 1 << 18, 4: 1 << 17}  # elements of a row that fit on the chip, by bytes of an element
SMALLEST_COPY = 4  # bytes; with fewer its kernels do not compile (0.6.5)
_NOTE = "quack.rmsnorm, gamma and beta in float32"
_HALF = "this version has no backward pass of layer normalization"


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """ValueError on a CPU, and for what QuACK does not compile: float64, and some row lengths."""
    _refuse(x)
    home = import_module("quack.rmsnorm")  # the package has a function of the same name
    given = (x, gamma, beta, dy)
    x, gamma, beta, dy = map(tensor, given)
    gamma, beta = gamma.float(), beta.float()
    _, rstd, mean = home.layernorm_fwd(x, gamma, beta, eps, return_rstd=True, return_mean=True)
    passes: dict[str, Pass | None] = {"forward": None, "backward": None}
    notes = [_NOTE]
    if "forward" in directions:
        passes["forward"], note = _forward(home, x, gamma, beta, eps)
        notes.append(note)
    if "backward" in directions:
        passes["backward"], note = _backward(home, x, gamma, dy, rstd, mean)
        notes.append(note)
    return contender(*passes.values(), "; ".join(notes), given[1], directions, cuda=True)


def _forward(home: Any, x: Any, gamma: Any, beta: Any, eps: float) -> tuple[Pass, str]:
    def by_rule() -> tuple[Any, ...]:
        return home.layernorm_fwd(x, gamma, beta, eps, return_rstd=True, return_mean=True)[:1]

    try:
        return _forward_tuned(home, x, gamma, beta, eps)
    except Exception as error:  # whatever QuACK, its compiler or a launch raises
        return by_rule, f"layernorm_fwd by its rule, not tuned ({one_line(error)})"


def _forward_tuned(home: Any, x: Any, gamma: Any, beta: Any, eps: float) -> tuple[Pass, str]:
    import torch

    y = torch.empty_like(x)
    rstd, mean = (torch.empty(len(x), dtype=torch.float32, device=x.device) for _ in range(2))
    arguments = {"x": x, "weight": gamma, "out": y, "bias": beta, "rstd": rstd, "mean": mean, "eps": eps}
    rule = home.RmsNormFwdConfig.from_analytical_heuristic(x.shape[1], 8 * x.itemsize, is_layernorm=True)
    how = {"is_layernorm": True, "per_head": False}
    run, note = tuned(home.rmsnorm_fwd_tuned, rule, arguments | how)

    def forward() -> tuple[Any, ...]:
        run()
        return (y,)

    return forward, note


def _backward(home: Any, x: Any, gamma: Any, dy: Any, rstd: Any, mean: Any) -> tuple[Pass | None, str]:
    if not hasattr(home, "layernorm_bwd"):
        return None, _HALF

    def by_rule() -> tuple[Any, ...]:
        return home.layernorm_bwd(x, gamma, dy, rstd, mean, has_bias=True)

    try:
        return _backward_tuned(home, x, gamma, dy, rstd, mean)
    except Exception as error:
        return by_rule, f"layernorm_bwd by its rule, not tuned ({one_line(error)})"


def _backward_tuned(home: Any, x: Any, gamma: Any, dy: Any, rstd: Any, mean: Any) -> tuple[Pass, str]:
    import torch

    (rows, hidden), bits = x.shape, 8 * x.itemsize
    dx, blocks = torch.empty_like(x), home.get_sm_count(hidden, x.device)
    sums = [torch.empty((blocks, hidden), dtype=torch.float32, device=x.device) for _ in range(2)]
    rule = home.RmsNormBwdConfig.from_analytical_heuristic(hidden, bits, bits, T_hint=rows, num_acc=len(sums))
    arguments = {"x": x, "weight": gamma, "dout": dy, "rstd": rstd, "mean": mean, "dx": dx}
    arguments |= dict(zip(("dw_partial", "db_partial"), sums, strict=True))
    how = {"has_dw_partial": True, "has_db_partial": True, "is_layernorm": True, "per_head": False}
    run, note = tuned(home.rmsnorm_bwd_tuned, rule, arguments | how)

    def backward() -> tuple[Any, ...]:
        run()
        return dx, *(one.sum(dim=0) for one in sums)

    return backward, note


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
