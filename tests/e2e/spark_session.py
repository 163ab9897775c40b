"""A Spark session with catalogs of slateberg."""

import os
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def spark_session(scratch, catalogs, jars=("ICEBERG_SPARK_JAR",), threads=2):
    """Runs Spark in this process. `catalogs` has the options of each catalog, and `jars` the variables with its jars."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": ",".join(os.environ[jar] for jar in jars),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    for name, options in catalogs.items():
        prefix = f"spark.sql.catalog.{name}"
        settings[prefix] = "org.apache.iceberg.spark.SparkCatalog"
        settings |= {f"{prefix}.{key}": value for key, value in {"type": "rest", **options}.items()}
    builder = SparkSession.builder.master(f"local[{threads}]").appName("slateberg")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # The tests report the errors of Spark.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
