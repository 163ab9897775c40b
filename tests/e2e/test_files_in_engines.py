"""Engines with only the catalog's URI and a credential write and read tables on MinIO."""

import os

import pyarrow
import pytest
from append_with_duckdb import connect
from files import Scene
from pyiceberg.catalog.rest import RestCatalog
from spark_session import spark_catalog, spark_session
from trino import RefusedStatement, Trino


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("files"))
    yield scene
    scene.stop()


@pytest.fixture(scope="module")
def spark(scene, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("spark")
    jars = [os.environ["ICEBERG_SPARK_JAR"], os.environ["ICEBERG_AWS_JAR"]]
    catalogs = {}
    for warehouse in ["vended", "signed"]:
        catalogs |= spark_catalog(warehouse, scene.uri, warehouse=warehouse, token=scene.key("writer")["key"])
    with spark_session(scratch, jars, catalogs) as session:
        yield session


@pytest.mark.parametrize("warehouse", ["vended", "signed"])
def test_spark_writes_changes_and_reads(scene, spark, warehouse):
    spark.sql(f"CREATE NAMESPACE {warehouse}.spark")
    spark.sql(f"CREATE TABLE {warehouse}.spark.t (id bigint, region string) PARTITIONED BY (region)")
    spark.sql(f"INSERT INTO {warehouse}.spark.t VALUES (1, 'eu'), (2, 'us'), (3, 'a b/c=%2F+ü')")
    spark.sql(f"DELETE FROM {warehouse}.spark.t WHERE id = 2")
    spark.sql(f"CREATE TABLE {warehouse}.spark.made AS SELECT * FROM {warehouse}.spark.t")
    rows = spark.sql(f"SELECT id, region FROM {warehouse}.spark.made ORDER BY id").collect()
    assert [(row.id, row.region) for row in rows] == [(1, "eu"), (3, "a b/c=%2F+ü")]
    spark.sql(f"CALL {warehouse}.system.rewrite_data_files(table => 'spark.t', options => map('rewrite-all', 'true'))")
    spark.sql(f"CALL {warehouse}.system.expire_snapshots(table => 'spark.t', older_than => now(), retain_last => 1)")
    assert spark.sql(f"SELECT count(*) AS n FROM {warehouse}.spark.t").collect()[0].n == 2


def lake(scene, role):
    key = scene.key(role)
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": scene.uri,
        "iceberg.rest-catalog.warehouse": "vended",
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.credential": f"{key['id']}:{key['key']}",
        "iceberg.rest-catalog.vended-credentials-enabled": "true",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": scene.minio.uri,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


def test_trino_writes_and_reads_with_vended_credentials(scene, tmp_path):
    trino = Trino(tmp_path, {name: lake(scene, role) for name, role in [("lake", "writer"), ("window", "reader")]})
    try:
        trino.run("CREATE SCHEMA lake.trino")
        trino.run("CREATE TABLE lake.trino.t (id bigint, region varchar) WITH (partitioning = ARRAY['region'])")
        trino.run("INSERT INTO lake.trino.t VALUES (1, 'eu'), (2, 'us')")
        trino.run("DELETE FROM lake.trino.t WHERE id = 2")
        trino.run("CREATE TABLE lake.trino.made AS SELECT * FROM lake.trino.t")
        assert trino.run("SELECT id, region FROM window.trino.made") == [["1", "eu"]]
        with pytest.raises(RefusedStatement):
            trino.run("INSERT INTO window.trino.t VALUES (3, 'ch')")
    finally:
        trino.stop()


def test_duckdb_reads_with_vended_credentials(scene):
    key = scene.key("writer")["key"]
    catalog = RestCatalog("vended", uri=scene.uri, warehouse="vended", token=key)
    catalog.create_namespace_if_not_exists("duck")
    rows = pyarrow.table({"id": [1, 2, 3]})
    catalog.create_table("duck.t", schema=rows.schema).append(rows)
    session = connect(scene.uri, key, "vended")
    assert session.sql("SELECT sum(id) FROM lake.duck.t").fetchone() == (6,)
