#!/usr/bin/env bash
# What the server at $SLATEBERG_URI can do at most, by wrk, which costs its machine less than k6: loads of a table, loads
# by clients that have it, and commits to it; each for $LOAD_SECONDS (10) over $LOAD_CLIENTS (50) connections.
set -euo pipefail

: "${SLATEBERG_URI:?is where the server listens}" "${SLATEBERG_API_KEY:?is a key of a writer}"
export SLATEBERG_API_KEY
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
namespace=wrk_$$_$(date +%s)

# ask METHOD PATH [BODY]: fails with what the server says, if it does not like that.
ask() {
    curl --silent --show-error --fail-with-body --noproxy '*' -X "$1" "$SLATEBERG_URI/v1$2" \
        -H "Authorization: Bearer $SLATEBERG_API_KEY" -H 'Content-Type: application/json' ${3:+--data "$3"}
}

# drive NAME SCRIPT: wrk says how many answers were neither 2xx nor 3xx, and does not mind them; we do.
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
