"""Thirty-two writers of several kinds append to one table that rebases appends, while the table is maintained."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from append_with_duckdb import connect
from processes import Repeatedly, Slateberg
from pyiceberg.catalog import load_catalog
from spark_session import spark_catalog, spark_session

HERE = Path(__file__).parent
SETTINGS = """
[catalog]
append_rebase = "all"
"""
PROPERTIES = {
    "slateberg.append-rebase": "all",
    # No client repeats a commit.
    "commit.retry.num-retries": "0",
    # Clients merge manifests too.
    "commit.manifest.min-count-to-merge": "10",
    "commit.manifest-merge.enabled": "true",
}
NAME = "mixed.t"
# The writers of each format version. PyIceberg does not write tables of version 3.
KINDS = {
    2: {"pyiceberg-0.12": 7, "pyiceberg-0.11": 7, "duckdb": 6, "iceberg-go": 6, "spark": 6},
    3: {"duckdb": 10, "iceberg-go": 11, "spark": 11},
}
COMPACTIONS_MAX = 5
APPENDS = int(os.environ.get("APPENDS_PER_WRITER", "5"))


@pytest.fixture
def slateberg(tmp_path):
    slateberg = Slateberg(tmp_path, SETTINGS)
    yield slateberg
    slateberg.stop()


@pytest.fixture
def spark(slateberg, tmp_path):
    lake = spark_catalog("lake", slateberg.uri, **{"token": slateberg.admin_key, "cache-enabled": "false"})
    with spark_session(tmp_path, [os.environ["ICEBERG_SPARK_JAR"]], lake, threads=4) as session:
        yield session


def write_with(kind, slateberg, spark, ids):
    """Appends these ids. Returns the output of a writer that fails, or None."""
    if kind == "spark":
        try:
            for number in ids:
                spark.sql(f"INSERT INTO lake.{NAME} VALUES ({number})").collect()
        except Exception as error:  # Any exception fails the test.
            return repr(error)
        return None
    program = {
        "iceberg-go": [os.environ["APPEND_WITH_GO"]],
        "duckdb": [sys.executable, HERE / "append_with_duckdb.py"],
        "pyiceberg-0.11": [os.environ["PYICEBERG_0_11"], HERE / "append_with_pyiceberg.py"],
        "pyiceberg-0.12": [sys.executable, HERE / "append_with_pyiceberg.py"],
    }[kind]
    command = [*program, slateberg.uri, slateberg.admin_key, NAME, *map(str, ids)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return None if ended.returncode == 0 else ended.stdout + ended.stderr


def maintain(slateberg, older_than="30s"):
    """Merges manifests and expires snapshots, with the commands of an operator. Returns their results."""
    name = "table:default/" + NAME.replace(".", "/")
    environment = {**os.environ, "SLATEBERG_URL": slateberg.uri, "SLATEBERG_API_KEY": slateberg.admin_key}

    def run(*words):
        command = [os.environ["SLATEBERG_BIN"], "job", *words, "--output", "json"]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
        return json.loads(ended.stdout)

    rewrite = run("rewrite-manifests", name, "--rewrite")
    return rewrite, run("expire-snapshots", name, "--delete", "--older-than", older_than, "--retain-last", "20")


def compact(spark):
    """Rewrites small data files, and returns their number. The rewrite may lose against another rewrite, because no
    client repeats a commit."""
    options = "map('min-input-files', '2')"
    try:
        (result,) = spark.sql(f"CALL lake.system.rewrite_data_files(table => '{NAME}', options => {options})").collect()
    except Exception as error:
        if "CommitFailedException" not in str(error):
            raise
        return 0
    return result.rewritten_data_files_count


def row_ids(spark, version):
    """The row ID of each row. Rows of tables before format version 3 have none."""
    row_id = "_row_id" if version >= 3 else "NULL"
    return {row.id: row.row_id for row in spark.sql(f"SELECT id, {row_id} AS row_id FROM lake.{NAME}").collect()}


@pytest.mark.parametrize("version", KINDS)
def test_each_append_of_mixed_writers_succeeds_at_once_during_maintenance(slateberg, spark, version):
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    spark.sql("CREATE NAMESPACE lake.mixed")
    spark.sql(f"CREATE TABLE lake.{NAME} (id BIGINT) TBLPROPERTIES ('format-version' = '{version}', {properties})")
    kinds = [kind for kind, count in KINDS[version].items() for _ in range(count)]
    tasks = [(kind, range(APPENDS * writer, APPENDS * (writer + 1))) for writer, kind in enumerate(kinds)]
    with (
        Repeatedly(lambda: maintain(slateberg), threads=1) as maintenance,
        Repeatedly(lambda: compact(spark), threads=1) as compaction,
        Repeatedly(lambda: row_ids(spark, version), threads=1) as reads,
        ThreadPoolExecutor(len(tasks)) as pool,
    ):
        outputs = pool.map(lambda task: write_with(task[0], slateberg, spark, task[1]), tasks)
        failures = [output for output in outputs if output]
        # The only compaction beside the writers may have lost against a rewrite of manifests.
        for _ in range(COMPACTIONS_MAX):
            if not any(compaction.results):
                compaction.wait_for(1)
    assert not failures, f"{len(failures)} writers failed: {failures[0]}"
    assert not maintenance.failures, maintenance.failures
    assert not compaction.failures, compaction.failures
    assert any(rewrite["manifests-replaced"] for rewrite, _ in maintenance.results), maintenance.results
    assert any(compaction.results), "a compaction rewrote files"
    assert not reads.failures, reads.failures
    assert any(reads.results), "rows were read beside the writers"
    _, expiry = maintain(slateberg, older_than="1s")
    assert expiry["snapshots"], expiry

    expected = list(range(APPENDS * len(tasks)))
    catalog = load_catalog("lake", type="rest", uri=slateberg.uri, token=slateberg.admin_key)
    assert sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == expected
    assert [row.id for row in spark.sql(f"SELECT id FROM lake.{NAME} ORDER BY id").collect()] == expected
    duckdb = connect(slateberg.uri, slateberg.admin_key)
    assert [id for (id,) in duckdb.sql(f"SELECT id FROM lake.{NAME} ORDER BY id").fetchall()] == expected
    final = row_ids(spark, version)
    assert all(final[id] == row_id for read in reads.results for id, row_id in read.items())
    if version >= 3:
        assert len(set(final.values()) - {None}) == len(expected)
