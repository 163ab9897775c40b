#!/usr/bin/env python3
"""Measures how long clients take to plan the scans of `slateberg-bench scans` by themselves.

Run it with the Python of tests/clients while the server still has the tables of `slateberg-bench scans`:

    local_plans.py http://127.0.0.1:8181 --jar iceberg-spark-runtime-4.1_2.13-1.12.0.jar

For each table, PyIceberg and Iceberg's Java library plan the range of ids that the benchmark uses, with their
defaults. The first plan of each is not counted: it fills the caches of the client.
"""

import argparse
import json
import statistics
import time

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan

ROWS = 1000
RANGE_PART = 1000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uri", help="URI of the catalog")
    parser.add_argument("--jar", help="iceberg-spark-runtime; without it, Java is not measured")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def id_range(files):
    """The first id of the range, and the end."""
    first = files // 3 * ROWS
    return first, first + max(files // RANGE_PART, 1) * ROWS


def measure(name, files, repeats, plan):
    """Prints the median duration of plans."""
    expected, seconds = max(files // RANGE_PART, 1), []
    for _ in range(repeats + 1):
        began = time.monotonic()
        found = plan()
        seconds.append(time.monotonic() - began)
        assert found == expected, f"{name} found {found} files instead of {expected}"
    median = statistics.median(seconds[1:])
    print(json.dumps({"client": name, "files": files, "seconds": round(median, 4), "plans": repeats}), flush=True)


def pyiceberg_plan(catalog, identifier, files):
    first, end = id_range(files)
    table = catalog.load_table(identifier)
    row_filter = And(GreaterThanOrEqual("id", first), LessThan("id", end))
    return lambda: len(list(table.scan(row_filter=row_filter).plan_files()))


def java_plan(jvm, catalog, identifier, files):
    first, end = id_range(files)
    namespace, name = identifier
    table = catalog.loadTable(jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{namespace}.{name}"))
    expressions = jvm.org.apache.iceberg.expressions.Expressions
    row_filter = getattr(expressions, "and")(
        expressions.greaterThanOrEqual("id", first), expressions.lessThan("id", end)
    )

    def plan():
        tasks = table.newScan().filter(row_filter).planFiles()
        try:
            return jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        finally:
            tasks.close()

    return plan


def java(uri, jar):
    """A JVM, and a catalog in it."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    jvm = session.config("spark.driver.memory", "4g").getOrCreate().sparkContext._jvm
    catalog = jvm.org.apache.iceberg.rest.RESTCatalog()
    properties = jvm.java.util.HashMap()
    properties.put("uri", uri)
    catalog.initialize("bench", properties)
    return jvm, catalog


def main():
    asked = arguments()
    catalog = RestCatalog("bench", uri=asked.uri)
    namespaces = [found for found in catalog.list_namespaces() if found[0].endswith("_scans")]
    tables = sorted(
        (int(name.removeprefix("files_")), (namespace, name))
        for (namespace,) in namespaces
        for _, name in catalog.list_tables(namespace)
        if name.startswith("files_")
    )
    jvm, java_catalog = java(asked.uri, asked.jar) if asked.jar else (None, None)
    for files, identifier in tables:
        measure("PyIceberg", files, asked.repeats, pyiceberg_plan(catalog, identifier, files))
        if jvm:
            measure("Java", files, asked.repeats, java_plan(jvm, java_catalog, identifier, files))


if __name__ == "__main__":
    main()
