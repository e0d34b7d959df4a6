"""Environment variables that affect compilation or speed, for the record of a table."""

import os

NONE = "none"
_FAMILIES = ("NUMBA_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MALLOC_", "NPY_", "GLIBC_TUNABLES")
_SET_FOR_US = {  # by Snakemake and by threadpoolctl; timed code sets its own threads
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "KMP_DUPLICATE_LIB_OK",
}


def describe() -> str:
    """Those that are set, as "NUMBA_OPT=0 OMP_WAIT_POLICY=passive"; without values that are paths."""
    found = (
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_FAMILIES) and name not in _SET_FOR_US and os.sep not in value
    )
    return " ".join(found) or NONE
