#!/usr/bin/env bash
# Operates a cluster behind a proxy, on the store of scripts/with-store: `run.sh [any pytest arguments]`.
# README.md describes the purpose.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary to start}"
: "${SLATEBERG_TEST_STORE:?is the bucket, which scripts/with-store provides}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$cache/cluster-operation-venv

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"
"$here/../../scripts/tools" k6 nginx
export K6=$cache/tools/bin/k6 NGINX=$cache/tools/bin/nginx

cd "$here"
# tests/e2e contains the helpers for processes and HTTP.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
