"""Thirty-two writers of four kinds append to one table that rebases appends, while the table is maintained."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
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
    "format-version": "2",
    "slateberg.append-rebase": "all",
    # No client repeats a commit.
    "commit.retry.num-retries": "0",
    # Clients merge manifests too.
    "commit.manifest.min-count-to-merge": "10",
    "commit.manifest-merge.enabled": "true",
}
NAME = "mixed.t"
KINDS = {"pyiceberg-0.12": 8, "pyiceberg-0.11": 8, "duckdb": 8, "spark": 8}
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
    python = os.environ["PYICEBERG_0_11"] if kind == "pyiceberg-0.11" else sys.executable
    program = "append_with_duckdb.py" if kind == "duckdb" else "append_with_pyiceberg.py"
    command = [python, str(HERE / program), slateberg.uri, slateberg.admin_key, NAME, *map(str, ids)]
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


def test_each_append_of_mixed_writers_succeeds_at_once_during_maintenance(slateberg, spark):
    catalog = load_catalog("lake", type="rest", uri=slateberg.uri, token=slateberg.admin_key)
    catalog.create_namespace("mixed")
    schema = pyarrow.schema([("id", pyarrow.int64())])
    catalog.create_table(NAME, schema=schema, properties=PROPERTIES)
    kinds = [kind for kind, count in KINDS.items() for _ in range(count)]
    tasks = [(kind, range(APPENDS * writer, APPENDS * (writer + 1))) for writer, kind in enumerate(kinds)]
    with (
        Repeatedly(lambda: maintain(slateberg), threads=1) as maintenance,
        Repeatedly(lambda: compact(spark), threads=1) as compaction,
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
    _, expiry = maintain(slateberg, older_than="1s")
    assert expiry["snapshots"], expiry

    expected = list(range(APPENDS * len(tasks)))
    assert sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == expected
    assert [row.id for row in spark.sql(f"SELECT id FROM lake.{NAME} ORDER BY id").collect()] == expected
    duckdb = connect(slateberg.uri, slateberg.admin_key)
    assert [id for (id,) in duckdb.sql(f"SELECT id FROM lake.{NAME} ORDER BY id").fetchall()] == expected
