#!/usr/bin/env bash
# Executes the documentation: `run.sh [any pytest arguments]`. pages.py describes the marks of
# commands.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary that the commands of the pages use}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}/snippets-venv

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"

cd "$here"
# tests/e2e contains the helpers for certificates.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
