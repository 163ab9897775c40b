#!/usr/bin/env bash
# Runs slateberg with real third-party servers: `run.sh [any pytest arguments]`. README.md describes
# them and their purpose.
set -euo pipefail

: "${SLATEBERG_BIN:?is the binary to start}"
SLATEBERG_BIN=$(realpath "$SLATEBERG_BIN")
export SLATEBERG_BIN
# The release archive, if there is one. The operator tests install it. The server warns about unknown
# variables with its prefix, so the variables of the tests have other names.
if [[ -n ${SLATEBERG_ARCHIVE:-} ]]; then
    RELEASE_ARCHIVE=$(realpath "$SLATEBERG_ARCHIVE")
    export RELEASE_ARCHIVE
    unset SLATEBERG_ARCHIVE
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLATEBERG_CACHE=${SLATEBERG_CACHE:-$HOME/.cache/slateberg}
cache=$SLATEBERG_CACHE
venv=$cache/e2e-venv
keycloak_version=26.7.3
export KEYCLOAK_HOME=$cache/keycloak/keycloak-$keycloak_version
trino_version=476
trino_java_min=24
export TRINO_HOME=$cache/trino/trino-server-$trino_version
export TRINO_CLI=$cache/trino/trino-cli-$trino_version-executable.jar

"$here/../../scripts/venv" "$venv" "$here/requirements.txt"

# The previous minor version of PyIceberg.
previous_venv=$cache/pyiceberg-0.11-venv
"$here/../../scripts/venv" "$previous_venv" "$here/requirements-pyiceberg-0.11.txt"
export PYICEBERG_0_11=$previous_venv/bin/python

# An emulator of AWS KMS.
kms_venv=$cache/kms-venv
"$here/../../scripts/venv" "$kms_venv" "$here/../kms/requirements.txt"
export MOTO_SERVER=$kms_venv/bin/moto_server

# A writer in Go.
"$here/../../scripts/tools" append-with-go
export APPEND_WITH_GO=$cache/tools/bin/append-with-go

# Observability tools and load generators.
"$here/../../scripts/tools" otelcol jaeger prometheus k6
export OTELCOL_BIN=$cache/tools/bin/otelcol JAEGER_BIN=$cache/tools/bin/jaeger PROMETHEUS_BIN=$cache/tools/bin/prometheus

# fetch DIRECTORY ARTIFACT: downloads from Maven Central into a directory of the cache.
fetch() {
    mkdir -p "$cache/$1"
    mvn --quiet --batch-mode dependency:copy -Dartifact="$2" -DoutputDirectory="$cache/$1"
}

# Iceberg for Spark, and its libraries for files on S3.
iceberg_version=1.12.0
runtime=iceberg-spark-runtime-4.1_2.13
export ICEBERG_SPARK_JAR=$cache/jars/$runtime-$iceberg_version.jar
export ICEBERG_AWS_JAR=$cache/jars/iceberg-aws-bundle-$iceberg_version.jar
[[ -f $ICEBERG_SPARK_JAR ]] || fetch jars "org.apache.iceberg:$runtime:$iceberg_version"
[[ -f $ICEBERG_AWS_JAR ]] || fetch jars "org.apache.iceberg:iceberg-aws-bundle:$iceberg_version"

# Reuse the binary of the benchmarks if it exists.
minio_version=v0.0.0-20260212201848-7aac2a2c5b7c
export MINIO_BIN=$cache/bench/bin/minio
if [[ ! -x $MINIO_BIN ]]; then
    export MINIO_BIN=$cache/minio/minio
    [[ -x $MINIO_BIN ]] || GOBIN=$cache/minio go install "github.com/minio/minio@$minio_version"
fi

if [[ ! -d $KEYCLOAK_HOME ]]; then
    archive=keycloak-quarkus-dist-$keycloak_version.zip
    [[ -f $cache/keycloak/$archive ]] || fetch keycloak "org.keycloak:keycloak-quarkus-dist:$keycloak_version:zip"
    # Unpack into a temporary directory first. A partial installation would look complete to the
    # next run.
    unpacked=$(mktemp -d "$cache/keycloak/unpacking.XXXXXX")
    python3 - "$cache/keycloak/$archive" "$unpacked" <<'PYTHON'
import sys, zipfile
zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])
PYTHON
    chmod +x "$unpacked/keycloak-$keycloak_version/bin/kc.sh"
    mv "$unpacked/keycloak-$keycloak_version" "$KEYCLOAK_HOME"
    rmdir "$unpacked"
fi

if [[ ! -d $TRINO_HOME ]]; then
    archive=$cache/trino/trino-server-$trino_version.tar.gz
    [[ -f $archive ]] || fetch trino "io.trino:trino-server:$trino_version:tar.gz"
    unpacked=$(mktemp -d "$cache/trino/unpacking.XXXXXX")
    # Files of some plugins are links to files of other plugins, so all plugins must be unpacked.
    tar -xzf "$archive" -C "$unpacked"
    find "$unpacked"/trino-server-*/plugin -mindepth 1 -maxdepth 1 ! -name iceberg -exec rm -r {} +
    mv "$unpacked/trino-server-$trino_version" "$TRINO_HOME"
    rmdir "$unpacked"
    rm "$archive"
fi
[[ -f $TRINO_CLI ]] || fetch trino "io.trino:trino-cli:$trino_version:jar:executable"

# java_version HOME: the major version of a Java, or an empty string.
java_version() {
    sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null || true
}
for home in ${JAVA_HOME:-} /usr/lib/jvm/*; do
    if [[ -z ${TRINO_JAVA_HOME:-} && $(java_version "$home") -ge $trino_java_min ]]; then
        TRINO_JAVA_HOME=$home
    fi
done
export TRINO_JAVA_HOME=${TRINO_JAVA_HOME:?is not set, and there is no Java $trino_java_min or newer in /usr/lib/jvm, which Trino needs: set it to the directory of a Java}

# Iceberg's own REST server. Reuse that of the benchmarks if it exists.
export ICEBERG_FIXTURE_CLASSPATH=$cache/bench/java-fixture/classpath
if [[ ! -f $ICEBERG_FIXTURE_CLASSPATH ]]; then
    mkdir -p "${ICEBERG_FIXTURE_CLASSPATH%/*}"
    mvn --quiet --batch-mode -f "$here/../../benches/java-fixture/pom.xml" dependency:build-classpath \
        -Dmdep.outputFile="$ICEBERG_FIXTURE_CLASSPATH"
fi
# The libraries with which Iceberg's REST server stores tables on S3, in the same version, and their dependencies.
fixture_version=1.11.0
export ICEBERG_FIXTURE_S3_JARS=
for artifact in "org.apache.iceberg:iceberg-aws:$fixture_version" \
    "org.apache.iceberg:iceberg-aws-bundle:$fixture_version" dev.failsafe:failsafe:3.3.2; do
    IFS=: read -r _ name version <<<"$artifact"
    jar=$cache/jars/$name-$version.jar
    [[ -f $jar ]] || fetch jars "$artifact"
    ICEBERG_FIXTURE_S3_JARS+=:$jar
done

# PyIceberg's threads share an s3fs client. At its start, each thread removes the signer of the
# client and adds it again. Requests that other threads send in between are unsigned.
export PYICEBERG_MAX_WORKERS=1

cd "$here"
# The KMS emulator is in tests/kms.
PYTHONPATH=$here/../kms PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/pytest" -q -ra -p no:cacheprovider "$@"
