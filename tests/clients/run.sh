#!/usr/bin/env bash
# Runs the real clients against a server: `run.sh [pyiceberg|spark|any pytest arguments]`. The
# default is both suites. The server is the one at $SLATEBERG_URI, or else the binary
# $SLATEBERG_BIN, which the tests start.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLATEBERG_CACHE=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$SLATEBERG_CACHE/venv
runtime=iceberg-spark-runtime-4.1_2.13
runtime_version=1.12.0
export SLATEBERG_SPARK_JAR=$SLATEBERG_CACHE/jars/$runtime-$runtime_version.jar

# pytest changes its directory, which would break a relative path.
if [[ -n ${SLATEBERG_BIN:-} ]]; then
    SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
    export SLATEBERG_BIN
fi

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"

if [[ ("$*" == *spark* || "$*" != *pyiceberg*) && ! -f $SLATEBERG_SPARK_JAR ]]; then
    mvn --quiet --batch-mode dependency:copy \
        -Dartifact="org.apache.iceberg:$runtime:$runtime_version" -DoutputDirectory="$(dirname "$SLATEBERG_SPARK_JAR")"
fi

# A client in Go, for the comparison of scan plans.
if [[ "$*" == *spark* || "$*" != *pyiceberg* ]]; then
    "$here/../../scripts/tools" plans
    export SLATEBERG_GO_PLANS=$SLATEBERG_CACHE/tools/bin/plans
fi

cd "$here"
# tests/e2e contains the Spark session.
PYTHONPATH=$here/../e2e PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -p no:cacheprovider "$@"
