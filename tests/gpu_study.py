"""A tiny study of all GPU experiments, and campaigns over it on a board without a device."""

import pytest
import yaml

from host_board import HostBoard
from layernorm_backward import peers_on_gpu
from layernorm_backward.gpu import command
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.records import tables

CONFIG = {
    "checks_gpu": {
        "kernels": ["cuda_fused"],
        "dtypes": ["float32", "bfloat16"],
        "hidden": [3, 40],
        "rows": [9, 1],
        "large": [["bfloat16", 20, 24]],
        "far": [200],
        "apart": [40, 61],
        "strided": [40],
        "unaligned": [3],
        "repeated": [40],
        "tools": ["memcheck"],
        "sanitized": [["float32", 33, 40]],
        "limits_u": {"float32": 8, "bfloat16": 1.5},
        "runs": 3,
        "eps": 1e-5,
        "seed": 1,
    },
    "ceiling_gpu": {
        "dtypes": ["float32"],
        "sizes": [8192],
        "flop_dtypes": [],
        "repeats": 7,
        "at_least": 7,
        "budget_s": 1.0,
        "seed": 1,
    },
    "timing_gpu": {
        "kernels": ["cuda_fused"],
        "variants": ["cuda_uncentred"],
        "peers": ["torch_eager"],
        "sets": {
            "a": {
                "kernels": ["cuda_fused", "cuda_uncentred", "torch_eager"],
                "directions": ["backward", "forward"],
                "hidden": [40],
                "array_bytes": 4000,
                "dtypes": ["float32"],
                "gamma_dtypes": ["same"],
            },
            "b": {
                "kernels": ["cuda_fused"],
                "directions": ["backward"],
                "hidden": [40, 41],
                "rows": [3],
                "dtypes": ["bfloat16"],
                "gamma_dtypes": ["same", "float32"],
            },
        },
        "repeats": 7,
        "at_least": 7,
        "budget_s": 1.0,
        "error_limit_u": {"float32": 8, "bfloat16": 1.5},
        "sums_limit_u": {"float32": 100, "bfloat16": 8},
        "eps": 1e-5,
        "seed": 1,
    },
    "backward_error_gpu": {
        "kernels": ["cuda_fused"],
        "peers": ["torch_eager"],
        "dtypes": ["float32"],
        "kappas": [1.0, 1e4],
        "hidden": 40,
        "hidden_sweep": [],
        "hidden_kappas": [],
        "upstreams": ["shifted"],
        "rows": 8,
        "eps": 1e-5,
        "seed": 1,
    },
    "traffic_gpu": {
        "kernels": ["cuda_fused"],
        "peers": [],
        "directions": ["backward"],
        "dtypes": ["float32"],
        "hidden": [40],
        "array_bytes": 4000,
        "seed": 1,
    },
    "maps_gpu": {
        "directions": ["backward", "forward"],
        "dtypes": ["float32"],
        "hidden": [40, 61],
        "array_bytes": 4000,
        "threads": [128],
        "resident": {"backward": [256], "forward": [256]},
        "chunks": [1, 2],
        "rows_at_once": [1],
        "clusters": [1, 2],
        "rests": {"backward": [[0, 1]], "forward": [[1, 1]]},
        "filled": 0.6,
        "repeats": 7,
        "at_least": 7,
        "budget_s": 1.0,
        "error_limit_u": {"float32": 8},
        "sums_limit_u": {"float32": 100},
        "eps": 1e-5,
        "seed": 1,
    },
}


def written(folder):
    """The folder, filled with the study's files."""
    folder.mkdir(parents=True)
    for stem, values in CONFIG.items():
        (folder / f"{stem}.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return folder


def without_peers():
    """A fixture's body: all peers are reported missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers_on_gpu, "missing", lambda name: f"not installed: {name}")
        yield


def run(study, out, stems=command.STEMS, *, board=None, deadline=None, **how):
    return command.run(
        board or HostBoard(), out, command._wanted(study, stems), deadline or Deadline(86400), **how
    )


def table(out, stem):
    return tables.read(out / "tables" / f"{stem}.csv")


def tiny_study(tmp_path_factory):
    """The folder of a study of CONFIG, for a fixture."""
    return written(tmp_path_factory.mktemp("study") / "tiny")
