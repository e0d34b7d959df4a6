"""The rules that are compared, by name: those of test suites, and those that follow from the bound.

allclose, assert_close    the defaults of numpy.allclose and of torch.testing.assert_close
quack                     dx, dgamma in tests/test_layernorm.py of Dao-AILab/quack: 4 times 1e-4, 1e-3, 1e-2
twice_plain               tests/test_linear.py of Dao-AILab/quack
flash_attention           dx in tests/ops/test_dropout_layer_norm.py of Dao-AILab/flash-attention
"""

from layernorm_backward.tolerances.rules import Rule, fixed, full_bound, one_line, relative


def _by_dtype(float64: float, float32: float, float16: float, bfloat16: float) -> dict[str, float]:
    return {"float64": float64, "float32": float32, "float16": float16, "bfloat16": bfloat16}


_SAME = {value: _by_dtype(value, value, value, value) for value in (1e-8, 1e-5, 1e-3, 1e-2)}
_QUACK = _by_dtype(4e-4, 4e-4, 4e-3, 4e-2)  # float64, which quack does not test, as float32
RULES: dict[str, Rule] = {
    "allclose": fixed(_SAME[1e-5], _SAME[1e-8]),
    "assert_close": fixed(_by_dtype(1e-7, 1.3e-6, 1e-3, 1.6e-2), _by_dtype(1e-7, 1e-5, 1e-5, 1e-5)),
    "fixed_1e-3": fixed(_SAME[1e-3], _SAME[1e-3]),
    "fixed_1e-2": fixed(_SAME[1e-2], _SAME[1e-2]),
    "quack": fixed(_QUACK, _QUACK),
    "twice_plain": relative(2.0, 1e-6),
    "flash_attention": relative(4.0, 1e-4),
    "full_bound": full_bound(strict=False),
    "one_line": one_line(strict=False),
    "full_bound_strict": full_bound(strict=True),
    "one_line_strict": one_line(strict=True),
}
