#!/usr/bin/env bash
# Checks the Helm chart, the alerts, the dashboard and shell files: `run.sh [any pytest arguments]`.
# README.md lists the tools.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary that the tests start with the rendered settings}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLATEBERG_CACHE=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$SLATEBERG_CACHE/deploy-venv

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"
"$here/../../scripts/tools" helm kubeconform kube-score promtool shellcheck prometheus-operator
export PATH=$SLATEBERG_CACHE/tools/bin:$PATH

cd "$here"
# tests/e2e contains the helpers for processes and certificates.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
