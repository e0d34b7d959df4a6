#!/bin/sh
# Makes .venv with exactly the packages of requirements.lock, and the package itself (editable).
# Reports errors in one line, with a remedy. usage: set-up.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
here=$(pwd -P)
stamp=.venv/.ready
log=.venv/set-up.log
asked=${1:-}
recent='import sys; sys.exit(sys.version_info < (3, 11))'

fail() {
    echo "set-up: $1" >&2
    exit 1
}

find_python() {
    if [ -n "$asked" ]; then
        set -- "$asked"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11
    fi
    for name in "$@"; do
        if "$name" -c "$recent" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    if version=$("$1" --version 2>&1); then
        fail "Python 3.11 or newer is needed, but $1 is $version: install one, or name it: make PYTHON=/path/to/python3.12"
    fi
    fail "$1 was not found: install Python 3.11 or newer (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.12"
}

make_environment() {
    if usable "$1"; then return; fi
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$1 lacks its venv module: install it (Debian: apt-get install python3-venv), then run make again"
    "$1" -m venv --clear .venv || fail "$1 could not make .venv: check rights and free space, then run make again"
}

# An environment holds its own path: it cannot be used once its folder was moved or its Python is gone.
usable() {
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" != "$here" ]; then return 1; fi
    if [ -n "$asked" ] && [ "$("$1" --version)" != "$(.venv/bin/python --version 2>&1)" ]; then return 1; fi
    .venv/bin/python -c "$recent" >/dev/null 2>&1 && .venv/bin/python -m pip --version >/dev/null 2>&1
}

install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --retries 2 "$@" >>"$log" 2>&1 || explain
}

explain() {
    if grep -q 'No space left' "$log"; then
        fail "the disk is full: .venv needs 1.3 GB; free some space, then run make again"
    elif grep -qE 'NewConnectionError|Max retries|ConnectTimeout|ReadTimeout|ProxyError|Connection broken' "$log"; then
        fail "the packages could not be downloaded: check network and proxy, then run make again (details: $log)"
    elif grep -q 'DO NOT MATCH THE HASHES' "$log"; then
        fail "a package is not the one in requirements.lock: clear pip's cache (pip cache purge), then run make again (details: $log)"
    fi
    fail "pip could not install the packages for $(.venv/bin/python --version): try another, as in make PYTHON=python3.12 (details: $log)"
}

python=$(find_python)
make_environment "$python"
rm -f "$stamp" "$log"
echo "Setting up .venv ($(.venv/bin/python --version)) from requirements.lock: about 2 minutes, 1.3 GB."
install --require-hashes -r requirements.lock
install --no-deps --no-build-isolation --editable .
.venv/bin/python -m layernorm_backward compile || fail "the kernels could not be compiled: see the lines above"
echo "$here" >"$stamp"
