"""A bench of small arrays, for the tests."""

from layernorm_backward.bench import Setting

SETTING = Setting(
    rows=40,
    hidden=24,
    dtype="float32",
    gamma_dtype="float32",
    directions=("backward",),
    threads=1,
    seconds=1.0,
    seed=3,
)
