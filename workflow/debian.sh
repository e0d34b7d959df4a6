#!/bin/sh
# Installs packages with apt-get; without apt-get, prints in one line what to install.
# usage: debian.sh TARGET ADVICE WITHOUT PACKAGE...
set -eu
target=$1 advice=$2 without=$3
shift 3
if ! command -v apt-get >/dev/null; then
    echo "$target: $advice; Debian names these packages: $*" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends "$@"; } </dev/null; then
    echo "$target: apt-get failed: check network and rights, then run make $target again; $without" >&2
    exit 1
fi
