#!/bin/sh
# Runs Iceberg's catalog test suites against a running slateberg. The last line of the output is
# "NNN passed, N failed, N skipped". The exit status is zero only if all tests that failed or were
# skipped are listed with a reason in known-exceptions.txt or skipped-tests.txt.
#
#   SLATEBERG_URI        part of the server's URI before /v1, for example http://127.0.0.1:8181
#   RCK_WAREHOUSE        directory of the warehouse, with the same absolute path here and on the server
#   RCK_WAREHOUSE_NAME   optional: the warehouse in the request GET /v1/config
#   RCK_TOKEN            optional: bearer token
#   RCK_TARGET           optional: build directory, outside of the checkout
#   RCK_TEST             optional: run only these tests, in the notation of surefire's -Dtest. The run
#                        then does not check that all listed tests were run
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
: "${SLATEBERG_URI:?is the part of the URI of the server before /v1}"
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

# Run Maven offline first: the artifacts of a fixed version never change, so the repository is only
# needed if they are missing on this machine. If there are reports, the tests have run, and are not
# run again.
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
  exec java "$here/Verdict.java" --partial "$reports" "$known" "$skipped" "$here/suites.txt"
fi
exec java "$here/Verdict.java" "$reports" "$known" "$skipped" "$here/suites.txt"
