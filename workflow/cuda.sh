#!/bin/sh
# Installs the packages of workflow/cuda.lock in .venv and lists them; numpy stays that of requirements.lock.
set -eu
cd "$(dirname "$0")/.."
log=.venv/cuda.log

fail() {
    echo "cuda: $1" >&2
    exit 1
}

case "$(uname -s) $(uname -m)" in
    "Linux x86_64" | "Linux aarch64") ;;
    *) fail "CuPy and NVIDIA's compiler are for Linux, x86-64 or arm64; this is $(uname -s) $(uname -m)" ;;
esac
echo "Installing CuPy, NVIDIA's compiler NVRTC and its disassembler in .venv: 168 MB to download, 430 MB of disk, a minute."
echo "They need no GPU. NVIDIA's packages are under NVIDIA's own licence."
.venv/bin/python -m pip install --disable-pip-version-check --retries 2 --no-deps --require-hashes \
    -r workflow/cuda.lock >"$log" 2>&1 ||
    fail "pip could not install them: check network and free space, then run make cuda again (details: $log)"
.venv/bin/python -m pip list --disable-pip-version-check | grep -E '^(cupy|nvidia)-'
