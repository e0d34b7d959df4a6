"""Loads the implementation that is audited: one of our kernels by name, or MODULE:NAME.

MODULE is a dotted module or a file (`./my_norm.py`). NAME is a Kernel, or a pair (forward, backward) of
functions; FORWARD,BACKWARD names two functions. Names may be dotted (`Norm.forward`), as in entry points.
They are tried on one small problem before the audit.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from layernorm_backward import inputs, kernels
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.kernels import KERNELS, Kernel, checks, missing, remedy
from layernorm_backward.kernels.peers import PEERS
from layernorm_backward.problem import draw
from layernorm_backward.untrusted.fitting import MisfitError, fitting
from layernorm_backward.untrusted.raised import FAILURES, place, told

WANTED = (
    "expected: a Kernel, or a pair of functions forward(x, gamma, beta, eps) -> y, saved and "
    "backward(dy, saved) -> dx, dgamma, dbeta, on NumPy arrays, named as MODULE:FORWARD,BACKWARD"
)
_OURS = Path(kernels.__file__).parent


def load(target: str) -> Kernel:
    """The kernel of this name or at MODULE:NAME; ValueError says what is wrong and what is expected."""
    module, colon, name = target.rpartition(":")
    if not colon:
        return _registered(target)
    if not module or not name:
        raise ValueError(f"{target!r} is not MODULE:NAME, as in my_norm:forward,backward")
    home = _module(module)
    found = tuple(_member(module, home, part.strip()) for part in name.split(","))
    return as_kernel(target, found if len(found) > 1 else found[0])


def _member(module: str, home: ModuleType, name: str) -> Any:
    """What a module has under a name, which may be dotted; ValueError lists what it has."""
    try:
        return attrgetter(name)(home)
    except AttributeError:
        fits = (
            key
            for key, value in vars(home).items()
            if callable(value) or isinstance(value, Kernel | tuple | list)
        )
        names = [key for key in fits if not key.startswith("_")]
        raise ValueError(
            f"{module} has no {name!r}; it has: {', '.join(names) or 'nothing that fits'}"
        ) from None


def as_kernel(name: str, thing: Any) -> Kernel:
    """A Kernel, or a pair of functions as a Kernel, under the name by which it was asked for."""
    if isinstance(thing, Kernel):
        return replace(thing, name=name)
    if not (isinstance(thing, tuple | list) and len(thing) == 2 and all(map(callable, thing))):
        size = f" of length {len(thing)}" if isinstance(thing, tuple | list) else ""
        raise ValueError(f"{name} is of type {type(thing).__name__}{size}; {WANTED}")
    return Kernel(name, "cpu", *thing, source=name)


def try_out(kernel: Kernel, dtype: DtypeName, eps: float, gamma_dtype: DtypeName | None = None) -> None:
    """Run the kernel once on three rows; ValueError where it cannot be called or its results do not fit.

    gamma and beta have x's dtype where theirs is not given.
    """
    reason = missing(kernel) or kernel.unsupported.get(dtype)
    if reason:
        said = f"{reason}{remedy(kernel.requires)}"
        raise ValueError(f"{kernel.name} cannot run here in {dtype}: {said}")
    rng = inputs.generator(0)
    problem = draw(rng, inputs.rows(rng, 3, 16, dtype_of(dtype)), "shifted", "random")
    x, gamma, beta, dy = (array.copy() for array in problem)
    gamma, beta = (array.astype(dtype_of(gamma_dtype or dtype)) for array in (gamma, beta))
    fit = fitting(kernel)
    try:
        checks.forward(x, gamma, beta, eps)  # an eps that this dtype cannot hold is nobody's fault
        _, saved = _called("forward", fit.forward, x, gamma, beta, eps)
        _called("backward", fit.backward, dy, saved)
    except ValueError as error:
        raise ValueError(f"{kernel.name} on {dtype} arrays: {error}") from None


def _registered(name: str) -> Kernel:
    for registry in (KERNELS, PEERS):
        if name in registry:
            return registry[name]
    known = ", ".join([*KERNELS, *PEERS])
    own = f"{name}:forward,backward for {_file(name)}" if _file(name) else "MODULE:NAME"
    raise ValueError(f"no kernel is called {name!r}; there are: {known}; or name your own as {own}")


def _file(name: str) -> str:
    """The file here that is meant where no NAME was given; "" where there is none."""
    path = Path(name if name.endswith(".py") else f"{name}.py")
    return str(path) if path.is_file() else ""


def _module(name: str) -> ModuleType:
    path = Path(name)
    is_file = path.suffix == ".py" or len(path.parts) > 1 or name.startswith(".")
    if is_file and not (path.suffix == ".py" and path.is_file()):
        raise ValueError(f"{name} is no file; allowed: a dotted module, or a file that ends in .py")
    try:
        with np.errstate():  # which a module may set for its own program
            return _from_file(path) if is_file else _from_here(name)
    except FAILURES as error:
        raise ValueError(f"{name} cannot be imported: it {told(error)}") from None


def _from_file(path: Path) -> ModuleType:
    _findable(path.resolve().parent)
    name = path.stem if path.stem not in sys.modules else f"audited_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _from_here(name: str) -> ModuleType:
    _findable(Path.cwd())
    return importlib.import_module(name)


def _findable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _called(role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except MisfitError:
        raise
    except FAILURES as error:
        advice = "" if place(error) or _by_ours(error) else f"; {WANTED}"
        raise ValueError(f"{role} {told(error)}{advice}") from None


def _by_ours(error: BaseException) -> bool:
    """Whether a kernel of ours was called, and raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).is_relative_to(_OURS) for frame in frames)
