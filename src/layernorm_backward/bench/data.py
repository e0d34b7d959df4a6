"""Arrays of any number of rows with exact results: a block of random rows, repeated.

A few hundred rows are drawn, and their exact results are computed; every further row is one of them again. So
y and dx are known for every row, dgamma and dbeta for all rows together, and two billion bytes take a second
to fill. Other rows of the block lie between a row and its repetition.
"""

from math import gcd
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.bench.block import DataBudget, block_rows
from layernorm_backward.bench.setting import EPS, Setting
from layernorm_backward.double_double import DoubleDouble
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.untrusted.guarded import Guarded, guarded

LARGEST_SUM = 1 << 13  # about what dbeta is at most where it is float16, an eighth of what that can hold


class Data(NamedTuple):
    """The arrays of one problem, and the exact y, dx (rows of the block, D) and dgamma, dbeta (D,).

    `given` holds what the inputs are made of: x, dy (rows of the block, D), gamma and beta (D,). `results`
    are the arrays that results are written to, with what lies beside them.
    """

    arrays: Buffers
    exact: oracle.Results
    given: dict[str, NDArray]
    results: dict[str, Guarded]


def draw(setting: Setting, budget: DataBudget | None = None) -> Data:
    """x from N(0,1), dy from N(1,1), gamma from N(1,1/4), beta from N(0,1); every page has been written.

    Where dbeta is float16 and the rows are many, dy is less by a power of two, so that no sum overflows.
    ValueError where that would take longer than `budget` allows.
    """
    shape = setting.rows, setting.hidden
    dtype, gamma_dtype = dtype_of(setting.dtype), dtype_of(setting.gamma_dtype)
    rng = inputs.generator(setting.seed, *shape)
    x = inputs.rows(rng, block_rows(setting), setting.hidden, dtype)
    dy = inputs.upstream(rng, "shifted", x) * dtype.type(_scale(setting))
    gamma = inputs.gamma(rng, "random", setting.hidden, gamma_dtype)
    beta = inputs.beta(rng, setting.hidden, gamma_dtype)
    results = {name: guarded(gamma.shape, gamma_dtype) for name in ("dgamma", "dbeta")}
    results["dx"] = guarded(shape, dtype)
    results["y"] = guarded(shape, dtype) if setting.both else results["dx"]
    y, dx, dgamma, dbeta = (results[name].array for name in oracle.Results._fields)
    for array in (dx, y) if setting.both else (dx,):
        repeat(dy, array, budget)
    full_x, full_dy = (repeat(block, aligned_empty(shape, dtype), budget) for block in (x, dy))
    arrays = Buffers(full_x, full_dy, dx, gamma.copy(), beta.copy(), dgamma, dbeta, y)
    given = {"x": x, "dy": dy, "gamma": gamma, "beta": beta}
    return Data(arrays, _exact(x, gamma, beta, dy, setting.rows), given, results)


def _scale(setting: Setting) -> float:
    most = LARGEST_SUM if setting.gamma_dtype == "float16" else setting.rows
    return 2.0 ** -max(0, (setting.rows - 1).bit_length() - (most - 1).bit_length())


def repeat(block: NDArray, array: NDArray, budget: DataBudget | None = None) -> NDArray:
    """The array (rows, D), filled with the rows of the block (count, D), again and again."""
    for part in _blocks(array, len(block)):
        started = perf_counter()
        part[...] = block[: len(part)]
        if budget:
            budget.filled(part.nbytes, started)
    return array


def changed(data: Data) -> list[str]:
    """The inputs that do not hold the bits that they were made of."""
    return [name for name, block in data.given.items() if not _repeats(getattr(data.arrays, name), block)]


def _repeats(array: NDArray, block: NDArray) -> bool:
    array, block = _bits(array), _bits(block)
    return all(np.array_equal(part, block[: len(part)]) for part in _blocks(array, len(block)))


def _blocks(array: NDArray, step: int) -> list[NDArray]:
    return [array[start : start + step] for start in range(0, len(array), step)]


def _bits(array: NDArray) -> NDArray:
    """The bits of each row, in words as long as fit."""
    word = gcd(8, array.shape[-1] * array.itemsize)
    return np.ascontiguousarray(array).view(f"u{word}")


def errors_u(data: Data, **computed: NDArray) -> dict[str, float]:
    """The largest error in u of each result named: of all rows of y and dx, of all dgamma, dbeta.

    Rows that repeat the bits of those before them have their errors, which are not taken again.
    """
    return {name: _largest_u(array, getattr(data.exact, name)) for name, array in computed.items()}


def _largest_u(array: NDArray, exact: DoubleDouble) -> float:
    if array.ndim == 1:
        return float(np.max(error_u(array, exact)))
    first, *others = _blocks(array, len(exact.hi))
    errors = [error_u(first, exact)]
    for part in others:
        (unlike,) = np.nonzero((_bits(part) != _bits(first)[: len(part)]).any(axis=1))
        errors.append(error_u(part[unlike], exact.at(unlike)))
    return float(np.max(np.concatenate(errors)))


def _exact(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, rows: int) -> oracle.Results:
    whole, rest = divmod(rows, len(x))
    values = [inputs.values(array) for array in (x, gamma, beta, dy)]
    block = oracle.results(*values, EPS)
    sums = [part * float(whole) for part in (block.dgamma, block.dbeta)]
    if rest:
        x, gamma, beta, dy = values
        last = oracle.backward(x[:rest], gamma, dy[:rest], EPS)
        sums = [total + part for total, part in zip(sums, (last.dgamma, last.dbeta), strict=True)]
    return oracle.Results(block.y, block.dx, *sums)
