#!/bin/sh
# Runs Iceberg's catalog test suites against a running slateberg and prints, as its last line,
# "NNN passed, N failed, N skipped". The exit status is zero only if nothing failed or was skipped
# beyond what known-exceptions.txt and skipped-tests.txt give a reason for.
#
#   SLATEBERG_URI        address in front of /v1, for example http://127.0.0.1:8181
#   RCK_WAREHOUSE        absolute directory of the warehouse, reachable from here and from the server
#   RCK_WAREHOUSE_NAME   optional: the warehouse to name in GET /v1/config
#   RCK_TOKEN            optional: bearer token
#   RCK_TARGET           optional: build directory, outside the checkout
#   RCK_TEST             optional: run only these tests, as surefire's -Dtest understands it; the
#                        written lists are then not enforced, because most of them do not run
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
: "${SLATEBERG_URI:?is the address of the server in front of /v1}"
: "${RCK_WAREHOUSE:?is the directory of the warehouse}"
target=${RCK_TARGET:-$HOME/.cache/slateberg/rck-target}

case $RCK_WAREHOUSE in
  /*) ;;
  *) echo "RCK_WAREHOUSE must be absolute: $RCK_WAREHOUSE" >&2; exit 2 ;;
esac
mkdir -p "$RCK_WAREHOUSE" "$target"
RCK_WAREHOUSE=$(CDPATH='' cd -- "$RCK_WAREHOUSE" && pwd)
export SLATEBERG_URI RCK_WAREHOUSE

reports=$target/surefire-reports
rm -rf "$reports"

run_maven() {
  mvn -q -B -Dstyle.color=never -f "$here/pom.xml" -DbuildDirectory="$target" ${RCK_TEST:+"-Dtest=$RCK_TEST"} "$@" test
}

# Offline first, because the artifacts of a fixed version never change; only a machine that lacks
# them asks the repository. Reports mean that the tests ran, so they are never run twice.
log=$target/maven.log
if ! run_maven -o >"$log" 2>&1 && [ ! -d "$reports" ]; then
  run_maven >"$log" 2>&1 || true
fi

if [ ! -d "$reports" ]; then
  cat "$log" >&2
  echo "no test ran" >&2
  exit 2
fi

known=$here/known-exceptions.txt
skipped=$here/skipped-tests.txt
if [ -n "${RCK_TEST:-}" ]; then
  exec java "$here/Verdict.java" --partial "$reports" "$known" "$skipped"
fi
exec java "$here/Verdict.java" "$reports" "$known" "$skipped"
