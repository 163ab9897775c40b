import logging
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(server, tmp_path_factory):
    """One session for all tests: starting another costs more than most tests do."""
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": runtime_jar(),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} -XX:+UseSerialGC",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        # The tables are tiny: interpreting a query is quicker than compiling it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": "shop",
        **catalog("shop", server),
        **catalog("frugal", server, **{"snapshot-loading-mode": "REFS", "rest-page-size": "2", "rest-catalog-purge": "true"}),
        **catalog("planned", server, **{"scan-planning-mode": "server"}),
    }
    builder = SparkSession.builder.master("local[2]").appName("slateberg")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    # It writes each refused statement's whole Java stack, though being refused is what many tests are about.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    yield session
    session.stop()


def catalog(name, server, **options):
    """The settings of one more catalog over the same server."""
    # Without a cache every statement asks the server, and none answers from what Spark remembers.
    options = {"type": "rest", "uri": server.uri, "cache-enabled": "false", **options}
    prefix = f"spark.sql.catalog.{name}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **{f"{prefix}.{key}": value for key, value in options.items()}}


def runtime_jar():
    """Iceberg for Spark, which does not come from the Python package index: run.sh fetches it and says where it is."""
    jar = os.environ.get("SLATEBERG_SPARK_JAR", "")
    if not Path(jar).is_file():
        pytest.exit("set SLATEBERG_SPARK_JAR to Iceberg's runtime for Spark, or use run.sh, which does", returncode=2)
    return jar


@pytest.fixture
def namespace(spark, unique):
    """A namespace of the test's own, which the names in its statements are relative to."""
    name = unique("shop")
    spark.sql(f"CREATE NAMESPACE {name}")
    spark.sql(f"USE {name}")
    yield name
    drop_with_contents(spark, f"`{name}`")


@pytest.fixture
def sql(spark, namespace):
    """Runs a statement; gives back its rows as plain tuples.

    `@orders.files` stands for the metadata table `files` of `orders`, and `@orders.branch_audit` for its branch: Spark
    takes these for tables in a namespace `orders`, unless the table's own namespace comes first.
    """
    return lambda statement: [tuple(row) for row in spark.sql(statement.replace("@", f"{namespace}.")).collect()]


@pytest.fixture
def orders(sql):
    """The table `orders`, of three orders each in a snapshot of its own."""
    sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DOUBLE, placed_at TIMESTAMP)")
    for i in (1, 2, 3):
        sql(f"INSERT INTO orders VALUES ({i}, 'ada', {i}0, TIMESTAMP '2026-01-0{i} 12:00:00')")
    return "orders"


@pytest.fixture
def ids(sql):
    """The order ids in a table, or whatever else can follow FROM, in order."""
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
    """Whether there is a file at the location, seen with Spark's own eyes."""

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
