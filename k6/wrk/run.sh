#!/usr/bin/env bash
# Measures the maximum throughput of the server at $SLATEBERG_URI with wrk, which needs less CPU than k6. It measures loads
# of a table, loads with an ETag that still matches (304), and commits to the table. Each measurement takes $LOAD_SECONDS
# (default 10), over $LOAD_CLIENTS connections (default 50).
set -euo pipefail

: "${SLATEBERG_URI:?is the URI of the server}" "${SLATEBERG_API_KEY:?is an API key with the role writer}"
export SLATEBERG_API_KEY
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
namespace=wrk_$$_$(date +%s)

# ask METHOD PATH [BODY]: sends a request. If the status is an error, prints the response and fails.
ask() {
    curl --silent --show-error --fail-with-body --noproxy '*' -X "$1" "$SLATEBERG_URI/v1$2" \
        -H "Authorization: Bearer $SLATEBERG_API_KEY" -H 'Content-Type: application/json' ${3:+--data "$3"}
}

# drive NAME SCRIPT: runs a measurement. wrk only prints the number of responses other than 2xx and 3xx; this also fails.
drive() {
    echo "== $1"
    local said
    said=$(wrk --latency --threads 1 --connections "${LOAD_CLIENTS:-50}" --duration "${LOAD_SECONDS:-10}s" \
        --script "$here/$2" "$SLATEBERG_URI")
    echo "$said"
    if grep -q 'Non-2xx or 3xx' <<<"$said"; then
        echo "wrk: some requests failed" >&2
        exit 1
    fi
}

ask POST /namespaces "{\"namespace\": [\"$namespace\"]}" >/dev/null
trap 'ask DELETE "/namespaces/$namespace/tables/t" && ask DELETE "/namespaces/$namespace"' EXIT
schema='{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"}]}'
ask POST "/namespaces/$namespace/tables" "{\"name\": \"t\", \"schema\": $schema}" >/dev/null

export WRK_PATH=/v1/namespaces/$namespace/tables/t WRK_ETAG=
drive load_table load_table.lua
WRK_ETAG=$(ask GET "/namespaces/$namespace/tables/t" --dump-header - | tr -d '\r' | sed -n 's/^etag: //Ip')
drive load_table_304 load_table.lua
WRK_ETAG=
drive commit commit.lua
