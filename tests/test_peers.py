"""Layer norms of other packages: told apart where they are missing, right where they are installed."""

import dataclasses
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import yaml

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.experiments import audit_peers
from layernorm_backward.kernels import KERNELS, missing, version
from layernorm_backward.kernels.peers import PEERS
from layernorm_backward.problem import draw, run_kernel
from layernorm_backward.studies.config import ConfigError, load
from workspace import ROOT

CONFIG = ROOT / "config" / "smoke" / "audit_peers.yaml"


def test_a_missing_package_is_named():
    kernel = dataclasses.replace(KERNELS["compact"], requires=("numpy", "no_such_package"))
    assert missing(kernel) == "not installed: no_such_package"
    assert version(kernel) == f"numpy {np.__version__}"
    assert version(KERNELS["compact"]) == ""


def test_a_peer_that_is_not_installed_keeps_a_row_that_says_so(monkeypatch):
    lost = {name: dataclasses.replace(peer, requires=("no_such_package",)) for name, peer in PEERS.items()}
    monkeypatch.setattr(audit_peers, "PEERS", lost)
    table = audit_peers.run(**load(CONFIG, audit_peers.run))
    assert list(table["kernel"]) == list(PEERS)
    assert (table["reason"].str.startswith("not installed: no_such_package")).all()
    assert table["passed"].isna().all()


def test_edge_cases_that_a_config_leaves_out_are_not_in_the_table(monkeypatch):
    monkeypatch.setattr(audit_peers, "PEERS", {"torch": KERNELS["recentred"]})
    arguments = load(CONFIG, audit_peers.run) | {"peers": ["torch"]}
    found = set(audit_peers.run(**arguments)["property"])
    left_out = {f"edge_{name}" for name in arguments["without"]}
    assert left_out and not left_out & found and "edge_nan_row" in found


def test_an_unknown_peer_is_refused(tmp_path):
    path = tmp_path / "audit_peers.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(CONFIG.read_text("utf-8")) | {"peers": ["theano"]}))
    with pytest.raises(ConfigError, match="peers: unknown 'theano'; allowed: torch,"):
        load(path, audit_peers.run)


def test_what_the_peers_require_is_what_the_experiment_requires():
    assert {name for peer in PEERS.values() for name in peer.requires} == set(audit_peers.REQUIRES)


INSTALLED = [(name, dtype) for name, peer in PEERS.items() if not missing(peer) for dtype in peer.dtypes]


@pytest.mark.parametrize(("name", "dtype"), INSTALLED)
def test_an_installed_peer_is_right_on_usual_rows_and_obeys_eps(name, dtype):
    rng = inputs.generator(3)
    problem = draw(rng, inputs.rows(rng, 8, 64, dtype_of(dtype)), "shifted", "random")
    for eps in (1e-5, 0.5):
        exact = oracle.results(*problem.values(), eps)
        for found, truth in zip(run_kernel(PEERS[name], problem, eps), exact, strict=True):
            assert np.max(error_u(found, truth)) < 12


def test_make_peers_installs_the_pinned_versions_and_keeps_those_of_the_lock(tmp_path):
    tree = tmp_path / "tree"
    (tree / "workflow").mkdir(parents=True)
    (tree / ".venv" / "bin").mkdir(parents=True)
    for name in ("workflow/peers.sh", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tree / name)
    fake = tree / ".venv" / "bin" / "python"
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in\n-c*) exec {sys.executable} "$@" ;;\n*list*) echo "torch 2.0" ;;\n'
        '*install*) echo "$*" >pip.calls ;;\nesac\n'
    )
    fake.chmod(0o755)
    done = subprocess.run(["sh", "workflow/peers.sh"], cwd=tree, capture_output=True, text=True, check=True)
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["peers"]
    call = (tree / "pip.calls").read_text().split()
    assert call[-len(pinned) :] == pinned
    assert "--constraint .venv/peers.constraints" in " ".join(call)
    assert f"numpy=={np.__version__}" in (tree / ".venv" / "peers.constraints").read_text().split()
    assert done.stdout.splitlines()[-1] == "torch 2.0"
