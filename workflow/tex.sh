#!/bin/sh
# Installs the TeX packages named as arguments with apt-get; elsewhere says in one line what to install.
set -eu
if ! command -v apt-get >/dev/null; then
    echo "tex: install a TeX distribution with latexmk, e.g. MacTeX or TeX Live; Debian names these packages: $*" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends "$@"; } </dev/null; then
    echo "tex: apt-get failed: check network and rights, then run make tex again; without TeX the PDF comes from Typst" >&2
    exit 1
fi
