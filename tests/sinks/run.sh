#!/usr/bin/env bash
# Runs `slateberg watch --to` with real brokers: `run.sh [any pytest arguments]`. README.md describes
# the purpose.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary to start}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$cache/sinks-venv
version=$(sed -n '/kafka_2.13/{n;s/.*<version>\(.*\)<.*/\1/p}' "$here/pom.xml")
export KAFKA_JARS=$cache/kafka-$version
export NATS_SERVER=$venv/bin/nats-server

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"
if [[ ! -f $KAFKA_JARS/complete ]]; then
    mvn --quiet --batch-mode --file "$here/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$KAFKA_JARS"
    touch "$KAFKA_JARS/complete"
fi

cd "$here"
# tests/e2e contains the helpers for processes, certificates and HTTP.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
