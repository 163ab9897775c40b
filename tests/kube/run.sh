#!/usr/bin/env bash
# Installs the Helm chart into a real API server of Kubernetes: `run.sh [any pytest arguments]`. README.md says what is
# looked at there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLATEBERG_CACHE=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$SLATEBERG_CACHE/deploy-venv

# The same that the chart is checked with elsewhere.
"$here/../../scripts/venv" "$venv" "$here/../deploy/requirements.txt"
"$here/../../scripts/tools" helm prometheus-operator etcd kube-apiserver
export PATH=$SLATEBERG_CACHE/tools/bin:$PATH

cd "$here"
# Processes and HTTP are those of the tests beside other people's servers.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
