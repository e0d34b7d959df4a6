"""The interface of a device to the code that launches kernels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from layernorm_backward.kernels.checks import Arrays
from layernorm_backward.kernels.cuda.plan import Hardware

SOURCES = Path(__file__).parent
CPP_TYPES = {"float64": "double", "float32": "float", "float16": "f16", "bfloat16": "bf16"}


class Program(NamedTuple):
    """An instance of a kernel: the source file (without .cuh), the template and its arguments."""

    source: str
    kernel: str
    template: tuple[str, ...]

    @property
    def text(self) -> str:
        """As C++ names it: backward<float, float, Map<...>>."""
        return f"{self.kernel}<{', '.join(self.template)}>"


class Launch(NamedTuple):
    """Blocks of the grid, threads of a block, blocks of a cluster, bytes of dynamic shared memory, early.

    early: whether it may begin before the previous launch has ended, for which its program then waits itself.
    """

    blocks: int
    threads: int
    cluster: int = 1
    dynamic_bytes: int = 0
    early: bool = False


class Machine(Protocol):
    """A device, or an emulation of one.

    arrays: those that its kernels take. address: where an array begins. launch: runs a program on arrays and
    NumPy scalars, after earlier launches; reading an array waits for its results. clusters: how many clusters
    of such a launch run at the same time.
    """

    hardware: Hardware
    arrays: Arrays

    def address(self, array: Any) -> int: ...

    def clusters(self, program: Program, how: Launch) -> int: ...

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None: ...


def cpp(dtype: np.dtype) -> str:
    """The C++ type of a storage dtype."""
    return CPP_TYPES[dtype.name]
