#!/usr/bin/env bash
# Runs slateberg with its keys in an emulator of AWS KMS: `run.sh [any pytest arguments]`. README.md
# describes the purpose.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary to start}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$cache/kms-venv

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"
export MOTO_SERVER=$venv/bin/moto_server

cd "$here"
# tests/e2e contains the helpers for processes and HTTP.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
