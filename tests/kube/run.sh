#!/usr/bin/env bash
# Installs the Helm chart on a real Kubernetes API server: `run.sh [any pytest arguments]`.
# README.md describes the checks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLATEBERG_CACHE=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$SLATEBERG_CACHE/deploy-venv

# The same version as in the other checks of the chart.
"$here/../../scripts/venv" "$venv" "$here/../deploy/requirements.txt"
"$here/../../scripts/tools" helm prometheus-operator etcd kube-apiserver
export PATH=$SLATEBERG_CACHE/tools/bin:$PATH

cd "$here"
# tests/e2e contains the helpers for processes and HTTP.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
