#!/bin/sh
# Installs the dependency group `peers` of pyproject.toml in .venv and lists what it installed. The versions of
# requirements.lock stay as they are. pip's own variables (PIP_EXTRA_INDEX_URL) can name an index with PyTorch's
# CPU build, a fifth of the size of the CUDA build.
set -eu
cd "$(dirname "$0")/.."
log=.venv/peers.log
constraints=.venv/peers.constraints
wanted='import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["peers"])'

packages=$(.venv/bin/python -c "$wanted")
sed -n '/^[a-z]/s/ *\\$//p' requirements.lock >"$constraints"
echo "Installing $packages in .venv: up to 3 GB to download with CUDA, 0.5 GB without; some minutes."
# shellcheck disable=SC2086 # one word per package
if ! .venv/bin/python -m pip install --disable-pip-version-check --retries 2 --constraint "$constraints" \
    $packages >"$log" 2>&1; then
    echo "peers: pip could not install them: check network and free space, then run make peers again (details: $log)" >&2
    exit 1
fi
.venv/bin/python -m pip list --disable-pip-version-check | grep -iE '^(torch|jax|jaxlib|flax) '
