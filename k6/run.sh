#!/usr/bin/env bash
# Sends load to the server at $SLATEBERG_URI: `run.sh [SCENARIO...]`. The default is all scenarios except `soak`. Each
# scenario takes $LOAD_SECONDS (default 30), with $LOAD_CLIENTS clients (default 10). The exit code is 1 if a threshold is
# exceeded. The directory $K6_OUTPUT gets the summaries.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
output=${K6_OUTPUT:-$cache/k6}
"$here/../scripts/tools" k6
mkdir -p "$output"

scenarios=("$@")
[[ $# -gt 0 ]] || scenarios=(smoke load_table commit_many commit_one mixed list)
status=0
for scenario in "${scenarios[@]}"; do
    echo "== $scenario"
    # k6 must not send usage reports to its vendor.
    K6_NO_USAGE_REPORT=true "$cache/tools/bin/k6" run --quiet --no-color \
        --summary-export "$output/$scenario.json" "$here/$scenario.js" || status=1
done
exit $status
