import logging
import os
from pathlib import Path

import pytest
from spark_session import spark_catalog, spark_session


@pytest.fixture(scope="session")
def spark(server, tmp_path_factory):
    """One session for all tests, because its start takes longer than most of them."""
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        # The tables are tiny, so that interpreting a query is faster than compiling it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.defaultCatalog": "shop",
        **catalog("shop", server),
        **catalog("frugal", server, **{"snapshot-loading-mode": "REFS", "rest-page-size": "2", "rest-catalog-purge": "true"}),
        **catalog("planned", server, **{"scan-planning-mode": "server"}),
    }
    # It logs a Java stack trace for each failed statement, and many tests expect failures.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    with spark_session(scratch, [runtime_jar()], settings, java_options="-XX:+UseSerialGC") as session:
        yield session


def catalog(name, server, **options):
    """The settings of a further catalog on the same server."""
    # Without the cache, each statement sends requests to the server.
    return spark_catalog(name, server.uri, **{"cache-enabled": "false", **options})


def runtime_jar():
    """Iceberg for Spark, which is not on the Python package index. run.sh downloads it and sets the
    path."""
    jar = os.environ.get("SLATEBERG_SPARK_JAR", "")
    if not Path(jar).is_file():
        pytest.exit("set SLATEBERG_SPARK_JAR to Iceberg's runtime for Spark, or use run.sh, which does", returncode=2)
    return jar


@pytest.fixture
def namespace(spark, unique):
    """A namespace for one test, and the session's current one."""
    name = unique("shop")
    spark.sql(f"CREATE NAMESPACE {name}")
    spark.sql(f"USE {name}")
    yield name
    drop_with_contents(spark, f"`{name}`")


@pytest.fixture
def sql(spark, namespace):
    """Runs a statement and returns its rows as tuples.

    `@` is replaced by the namespace: `@orders.files` is the metadata table `files` of `orders`, and
    `@orders.branch_audit` is its branch. Without the table's namespace in front, Spark resolves
    these as tables in a namespace `orders`.
    """
    return lambda statement: [tuple(row) for row in spark.sql(statement.replace("@", f"{namespace}.")).collect()]


@pytest.fixture
def orders(sql):
    """The table `orders` with three orders, each in its own snapshot."""
    sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DOUBLE, placed_at TIMESTAMP)")
    for i in (1, 2, 3):
        sql(f"INSERT INTO orders VALUES ({i}, 'ada', {i}0, TIMESTAMP '2026-01-0{i} 12:00:00')")
    return "orders"


@pytest.fixture
def ids(sql):
    """The sorted order ids of a table, or of any other FROM clause."""
    return lambda source="orders": [row[0] for row in sql(f"SELECT id FROM {source} ORDER BY id")]


@pytest.fixture
def snapshots(sql):
    """The ids of a table's snapshots, oldest first."""
    return lambda table="orders": [row[0] for row in sql(f"SELECT snapshot_id FROM @{table}.snapshots ORDER BY committed_at")]


@pytest.fixture
def properties(sql):
    return lambda table="orders": dict(sql(f"SHOW TBLPROPERTIES {table}"))


@pytest.fixture
def exists(spark):
    """Whether a file exists at the location, as seen by Spark."""

    def look(location):
        path = spark._jvm.org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(path)

    return look


def drop_with_contents(spark, namespace):
    for (child,) in spark.sql(f"SHOW NAMESPACES IN {namespace}").collect():
        drop_with_contents(spark, child)
    for _, view, _ in spark.sql(f"SHOW VIEWS IN {namespace}").where("NOT isTemporary").collect():
        spark.sql(f"DROP VIEW {namespace}.`{view}`")
    for _, table, _ in spark.sql(f"SHOW TABLES IN {namespace}").collect():
        spark.sql(f"DROP TABLE {namespace}.`{table}`")
    spark.sql(f"DROP NAMESPACE {namespace}")
