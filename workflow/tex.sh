#!/bin/sh
# Installs the TeX packages named as arguments.
set -eu
exec sh "$(dirname "$0")/debian.sh" tex "install a TeX distribution with latexmk, e.g. MacTeX or TeX Live" \
    "without TeX the PDF comes from Typst" "$@"
