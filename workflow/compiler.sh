#!/bin/sh
# Installs g++ where it is missing.
set -eu
if command -v g++ >/dev/null; then
    g++ --version | sed 1q
    exit
fi
exec sh "$(dirname "$0")/debian.sh" compiler "install g++" \
    "without g++ the tests do not run the CUDA sources" g++
