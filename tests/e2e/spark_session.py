"""A Spark session with catalogs of slateberg."""

import os
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def spark_session(scratch, jars, settings, java_options="", threads=2):
    """Runs Spark in this process. `settings` adds catalogs and other settings."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} {java_options}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **settings,
    }
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


def spark_catalog(name, uri, **options):
    """The settings of a catalog with these options."""
    prefix = f"spark.sql.catalog.{name}"
    options = {"type": "rest", "uri": uri, **options}
    options = {f"{prefix}.{key}": value for key, value in options.items()}
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **options}
