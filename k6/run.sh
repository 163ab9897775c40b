#!/usr/bin/env bash
# Puts the server at $SLATEBERG_URI under load: `run.sh [SCENARIO...]`, by default all but the soak, each for
# $LOAD_SECONDS (30) by $LOAD_CLIENTS (10). Ends with 1 if an objective was missed. Summaries go to $K6_OUTPUT.
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
    # What is measured stays here.
    K6_NO_USAGE_REPORT=true "$cache/tools/bin/k6" run --quiet --no-color \
        --summary-export "$output/$scenario.json" "$here/$scenario.js" || status=1
done
exit $status
