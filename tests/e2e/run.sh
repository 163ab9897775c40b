#!/usr/bin/env bash
# Runs slateberg beside the real servers of others: `run.sh [any pytest arguments]`. README.md says which, and what for.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary to start}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
venv=$cache/e2e-venv
keycloak_version=26.7.3
export KEYCLOAK_HOME=$cache/keycloak/keycloak-$keycloak_version

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"

if [[ ! -d $KEYCLOAK_HOME ]]; then
    mkdir -p "$cache/keycloak"
    archive=keycloak-quarkus-dist-$keycloak_version.zip
    [[ -f $cache/keycloak/$archive ]] || mvn --quiet --batch-mode dependency:copy \
        -Dartifact="org.keycloak:keycloak-quarkus-dist:$keycloak_version:zip" -DoutputDirectory="$cache/keycloak"
    # Unpacked beside its place first: half of it would look like all of it the next time.
    unpacked=$(mktemp -d "$cache/keycloak/unpacking.XXXXXX")
    python3 - "$cache/keycloak/$archive" "$unpacked" <<'PYTHON'
import sys, zipfile
zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])
PYTHON
    chmod +x "$unpacked/keycloak-$keycloak_version/bin/kc.sh"
    mv "$unpacked/keycloak-$keycloak_version" "$KEYCLOAK_HOME"
    rmdir "$unpacked"
fi

cd "$here"
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
