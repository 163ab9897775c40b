#!/usr/bin/env python3
"""Measures how long clients take to plan the scans of `slateberg-bench scans` by themselves.

Run it with the Python of tests/clients while the server still has the tables of `slateberg-bench scans`:

    local_plans.py http://127.0.0.1:8181 --jar iceberg-spark-runtime-4.1_2.13-1.12.0.jar

For each table, PyIceberg and Iceberg's Java library plan the scans of the benchmark, with their defaults. The first
plan of each scan fills the caches of the client. It is only counted if it is too slow for repetitions.
Java plans the smallest table twice, because it compiles its code while it runs, and the first result is dropped.
"""

import argparse
import datetime
import json
import statistics
import time

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, In, LessThan

ROWS = 1000
RANGE_PART = 1000
DAYS = 1000
FIRST_DAY = 19_723
LIST_VALUES = 1000
# A scan is not repeated after this time. A scan that takes longer is not planned for larger tables.
REPEATS_SECONDS_MAX = 10


class Scans:
    """The filters of the benchmark, for a table with this number of files."""

    def __init__(self, files):
        self.files = files
        self.day = FIRST_DAY + files // 2 * DAYS // files
        self.first = files // 3 * ROWS
        self.end = self.first + max(files // RANGE_PART, 1) * ROWS
        step = max(files // LIST_VALUES, 1) * ROWS
        self.ids = [number * step for number in range(LIST_VALUES)]

    def expected(self):
        """The number of files of each scan. Clients do not compare long lists with statistics."""
        return {"partition": self.files // DAYS, "range": (self.end - self.first) // ROWS, "complete": self.files}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uri", help="URI of the catalog")
    parser.add_argument("--jar", help="iceberg-spark-runtime; without it, Java is not measured")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", help="file to append the results to")
    return parser.parse_args()


def measure(client, scans, repeats, plans, too_slow):
    """Returns the median duration of each plan, and its number of files. Adds the names of slow plans to `too_slow`."""
    row = {"server": client, "scenario": "scans", "files": scans.files}
    for name, plan in plans.items():
        if name in too_slow:
            continue
        first, found = timed(plan)
        expected = scans.expected().get(name, found)
        assert found == expected, f"{client} found {found} files instead of {expected}"
        seconds, began = [], time.monotonic()
        while first < REPEATS_SECONDS_MAX and len(seconds) < repeats and time.monotonic() - began < REPEATS_SECONDS_MAX:
            seconds.append(timed(plan)[0])
        if not seconds:
            too_slow.add(name)
        median = statistics.median(seconds or [first])
        row |= {f"{name}_files": found, f"{name}_plans": len(seconds) or 1, f"{name}_p50_us": round(median * 1e6)}
    return row


def timed(plan):
    began = time.monotonic()
    found = plan()
    return time.monotonic() - began, found


def pyiceberg_plans(catalog, identifier, scans):
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=scans.day)
    filters = {
        "partition": EqualTo("day", day),
        "range": And(GreaterThanOrEqual("id", scans.first), LessThan("id", scans.end)),
        "list": In("id", scans.ids),
        "complete": AlwaysTrue(),
    }
    table = catalog.load_table(identifier)

    def plan(row_filter):
        return lambda: sum(1 for _ in table.scan(row_filter=row_filter).plan_files())

    return {name: plan(row_filter) for name, row_filter in filters.items()}


def java_plans(jvm, catalog, identifier, scans):
    namespace, name = identifier
    table = catalog.loadTable(jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{namespace}.{name}"))
    expressions = jvm.org.apache.iceberg.expressions.Expressions
    ids = jvm.java.util.ArrayList()
    for value in scans.ids:
        ids.add(value)
    filters = {
        "partition": expressions.equal("day", scans.day),
        "range": getattr(expressions, "and")(
            expressions.greaterThanOrEqual("id", scans.first), expressions.lessThan("id", scans.end)
        ),
        "list": getattr(expressions, "in")("id", ids),
        "complete": expressions.alwaysTrue(),
    }

    def plan(row_filter):
        def count():
            tasks = table.newScan().filter(row_filter).planFiles()
            try:
                return jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
            finally:
                tasks.close()

        return count

    return {name: plan(row_filter) for name, row_filter in filters.items()}


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


def show(row, path):
    line = json.dumps(row)
    print(line, flush=True)
    if path:
        with open(path, "a") as out:
            out.write(line + "\n")


def main():
    asked = arguments()
    catalog = RestCatalog("bench", uri=asked.uri)
    namespaces = [found for found in catalog.list_namespaces() if found[0].endswith("_scans")]
    named = {
        int(name.removeprefix("files_")): (namespace, name)
        for (namespace,) in namespaces
        for _, name in catalog.list_tables(namespace)
        if name.startswith("files_")
    }
    tables = [(identifier, Scans(files)) for files, identifier in sorted(named.items())]

    def measure_tables(client, plans):
        too_slow = set()
        for identifier, scans in tables:
            row = measure(client, scans, asked.repeats, plans(identifier, scans), too_slow)
            show(row, asked.json)

    if asked.jar:
        jvm, java_catalog = java(asked.uri, asked.jar)
        identifier, scans = tables[0]
        measure("Java, local", scans, asked.repeats, java_plans(jvm, java_catalog, identifier, scans), set())
        measure_tables("Java, local", lambda *table: java_plans(jvm, java_catalog, *table))
    measure_tables("PyIceberg, local", lambda *table: pyiceberg_plans(catalog, *table))


if __name__ == "__main__":
    main()
