"""The locations of our kernels: names to MODULE:NAME in this package.

The hash of a table covers only the entries of the kernels that it names.
"""

HOMES = {
    "reference": "reference:KERNEL",
    "compact": "published:COMPACT",
    "overcached": "published:OVERCACHED",
    "recentred": "recentred:KERNEL",
    "numpy_blocked": "numpy_blocked:KERNEL",
    "numba_fused": "numba_fused:KERNEL",
    "cuda_fused": "cuda_fused:KERNEL",
    "cuda_separate": "cuda_separate:KERNEL",
    "cupy_compact": "cupy_compact:KERNEL",
}
