#!/bin/sh
# Runs Iceberg's Spark suites against a running slateberg. The last line of the output is
# "NNN passed, N failed, N skipped". The exit status is zero only if all tests that failed or were
# skipped are listed with a reason in known-exceptions.txt or skipped-tests.txt.
#
#   SLATEBERG_URI            part of the server's URI before /v1, for example http://127.0.0.1:8181.
#                            The server must not require credentials, and must have no namespaces
#   RCK_WAREHOUSE            directory of the warehouse, with the same absolute path here and on the server
#   ICEBERG_SPARK_REFERENCE  optional: with 1, run against Iceberg's reference server instead, which the
#                            tests start themselves. No exceptions are permitted then
#   ICEBERG_SPARK_TARGET     optional: build directory, outside of the checkout
#   ICEBERG_SPARK_TEST       optional: run only these tests, in the notation of surefire's -Dtest. The
#                            run then does not check that all listed tests were run
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${ICEBERG_SPARK_TARGET:-$HOME/.cache/slateberg/iceberg-spark-target}
known=$here/known-exceptions.txt

rm -rf "$target/work" "$target/surefire-reports"
mkdir -p "$target/work"
if [ -n "${ICEBERG_SPARK_REFERENCE:-}" ]; then
  unset SLATEBERG_URI
  temporary=$target/work
  known=/dev/null
else
  : "${SLATEBERG_URI:?is the part of the URI of the server before /v1}"
  : "${RCK_WAREHOUSE:?is the directory of the warehouse}"
  # Tests put tables into temporary directories, and the server accepts no locations elsewhere.
  temporary=$RCK_WAREHOUSE/requested
  mkdir -p "$temporary"
  export SLATEBERG_URI
fi

tests=${ICEBERG_SPARK_TEST:-$(grep -v '^#' "$here/suites.txt" | paste -sd, -)}

run_maven() {
  mvn -q -B -Dstyle.color=never -f "$here/pom.xml" -DbuildDirectory="$target" -Dtemporary="$temporary" "-Dtest=$tests" "$@" test
}

# Offline first, as in tests/rck/run.sh.
log=$target/maven.log
if ! run_maven -o >"$log" 2>&1 && [ ! -d "$target/surefire-reports" ]; then
  run_maven >"$log" 2>&1 || true
fi

if [ ! -d "$target/surefire-reports" ]; then
  cat "$log" >&2
  echo "no test ran" >&2
  exit 2
fi

partial=
if [ -n "${ICEBERG_SPARK_TEST:-}" ]; then
  partial=--partial
fi
exec java "$here/../rck/Verdict.java" $partial "$target/surefire-reports" "$known" "$here/skipped-tests.txt" "$here/suites.txt"
