"""An audit of small arrays, for the tests: the faults that it finds in a kernel."""

import dataclasses

from layernorm_backward.audit import STANDARD, audit
from layernorm_backward.kernels import Kernel

SMALL = dataclasses.replace(STANDARD, rows=8, hidden=32, per_decade=1, sum_rows=1024, check_shape=(2, 4, 8))


def failed(kernel: Kernel, dtype: str = "float32") -> set[str]:
    return {finding.property for finding in audit(kernel, dtype, SMALL) if finding.passed is False}
