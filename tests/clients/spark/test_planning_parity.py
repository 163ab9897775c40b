"""Server-side scan planning finds the same files, delete files and rows as the client's own planning.

The filters are generated with a fixed seed.
"""

import json
import os
import random
import subprocess
from pathlib import Path

import pyarrow as pa
import pyiceberg.expressions as pyice
import pytest
from conftest import drop_with_contents
from py4j.protocol import Py4JJavaError
from pydantic import ValidationError
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import FixedType, NestedField
from typed_tables import TYPED_TABLES, create_table_with_column, create_typed_table, typed_values
from typed_tables import VALUES as TYPED_VALUES

SEED = 20261126
FILTERS_PER_TABLE = 60
# PyIceberg also reads the rows, which takes longer than planning.
FILTERS_READ_PER_TABLE = 15
FILTERS_READ_BY_SPARK = 8

ROW = """SELECT CAST(id AS INT) AS i, CAST(id * 1000000007 AS BIGINT) AS l, CAST(id / 4 AS FLOAT) AS f,
    CASE WHEN id % 7 = 0 THEN double('NaN') WHEN id % 5 = 0 THEN NULL ELSE id / 3 END AS d,
    CAST(id * 1.25 AS DECIMAL(9, 2)) AS n, CASE WHEN id % 6 = 0 THEN NULL ELSE concat('name', id % 4, '-', id) END AS s,
    id % 2 = 0 AS b, date_add(DATE '2026-01-01', CAST(id * 9 AS INT)) AS day,
    TIMESTAMP '2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, CAST(id * 13 AS INT)) AS at,
    TIMESTAMP_NTZ '2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, CAST(id * 13 AS INT)) AS ntz
    FROM range({first}, {end}, 1, {files})"""

# Values of each column in the JSON form of the table specification: inside, at and outside of the
# range of the rows.
VALUES = {
    "i": [-1, 0, 3, 7, 12, 19, 20, 31, 40, 100],
    "l": [-1, 0, 3000000021, 12000000084, 19000000133, 99000000000],
    "f": [-1.5, 0.0, 0.75, 2.5, 4.75, 10.0, 100.5],
    "d": [-1.5, 0.0, 1.0, 2.5, 4.75, 100.5],
    "n": ["-1.00", "0.00", "3.75", "15.00", "24.99", "50.00", "900.00"],
    "s": ["", "name", "name0-4", "name1", "name3-19", "name3-7", "zebra"],
    "b": [True, False],
    "day": ["2025-12-31", "2026-01-01", "2026-01-28", "2026-03-01", "2026-06-30", "2027-01-01"],
    "at": ["2025-12-31T23:00:00+00:00", "2026-01-01T00:00:00+00:00", "2026-01-03T04:00:00+00:00", "2026-01-12T00:00:00+00:00"],
    "ntz": ["2025-12-31T23:00:00", "2026-01-01T00:00:00", "2026-01-03T04:00:00", "2026-01-12T00:00:00"],
}

# Each table with the partition spec and properties, and the statements after two inserts.
TABLES = {
    "plain": ("", 2, []),
    "v1": ("PARTITIONED BY (b)", 1, []),
    # In version 1, a removed partition field stays in the spec with the transform `void`.
    "removed_fields": (
        "PARTITIONED BY (b, truncate(10, i))",
        1,
        [
            "ALTER TABLE @ DROP PARTITION FIELD b",
            "INSERT",
            "ALTER TABLE @ ADD PARTITION FIELD bucket(3, l)",
            "ALTER TABLE @ DROP PARTITION FIELD truncate(10, i)",
            "INSERT",
        ],
    ),
    "buckets": ("PARTITIONED BY (bucket(4, l), truncate(5, s))", 2, []),
    "times": ("PARTITIONED BY (months(day), days(at), hours(ntz))", 2, []),
    "truncated": ("PARTITIONED BY (truncate(10, i), years(day), truncate(5, n))", 2, []),
    "respecified": (
        "PARTITIONED BY (b)",
        2,
        ["ALTER TABLE @ ADD PARTITION FIELD bucket(3, i)", "INSERT", "ALTER TABLE @ DROP PARTITION FIELD b", "INSERT"],
    ),
    "reshaped": (
        "PARTITIONED BY (truncate(5, s))",
        2,
        [
            "ALTER TABLE @ ALTER COLUMN i TYPE BIGINT",
            "ALTER TABLE @ ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE @ ALTER COLUMN n TYPE DECIMAL(18, 2)",
            "ALTER TABLE @ RENAME COLUMN l TO other",
            "ALTER TABLE @ ADD COLUMN l BIGINT",
            "INSERT",
        ],
    ),
    "position_deletes": ("PARTITIONED BY (b)", 2, ["DELETE FROM @ WHERE i % 3 = 0", "INSERT", "DELETE FROM @ WHERE i = 4"]),
    "vectors": ("PARTITIONED BY (b)", 3, ["DELETE FROM @ WHERE i % 3 = 0", "INSERT", "DELETE FROM @ WHERE i = 4"]),
    "equality_deletes": ("", 2, ["EQUALITY DELETE 3, 12", "INSERT", "EQUALITY DELETE 19", "DELETE FROM @ WHERE i = 4"]),
    "imported": ("PARTITIONED BY (b)", 2, ["ADD FILES", "INSERT"]),
    "nested": (
        "",
        2,
        [
            "ALTER TABLE @ ADD COLUMN place STRUCT<x: INT, name: STRING>",
            "ALTER TABLE @ ADD COLUMN raw BINARY",
            "INSERT NESTED",
        ],
    ),
}


ALL_TABLES = [*TABLES, *TYPED_TABLES]

# Further values for the table with nested columns.
NESTED_VALUES = {
    "place.x": [-1, 0, 5, 20, 31, 100],
    "place.name": ["", "at20", "at31", "zebra"],
    "raw": ["", "3230", "3331", "FF"],
}

STATISTICS = [
    *("column-sizes", "value-counts", "null-value-counts", "nan-value-counts"),
    *("lower-bounds", "upper-bounds"),
]
# A table with null partition values, and one whose partition fields have nanoseconds as sources.
NULLS = "types_nulls"
NANOSECONDS = "nanos_partitions"
# Java 1.12 keeps predicates in the residual filter, or fails, if a partition value is null or the
# first unit of time after 1970.
ROUGH_RESIDUALS = ["buckets", "reshaped", "types_calendar", NANOSECONDS, NULLS]

FLOATS = ["f", "d", "float", "double"]
STRINGS = ["s", "place.name", "string"]
BYTES = ["raw", "fixed4", "fixed20", "binary"]


def generate_filters(seed, count, all_values=VALUES):
    """Random filters in the JSON form of Iceberg's Java library."""
    draw = random.Random(seed)

    def leaf():
        column = draw.choice(list(all_values))
        values = all_values[column]
        kinds = ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq", "in", "not-in", "is-null", "not-null"]
        kinds += ["is-nan", "not-nan"] * (column in FLOATS)
        kinds += ["starts-with", "not-starts-with"] * (column in STRINGS)
        kind = draw.choice(kinds)
        if kind in ("in", "not-in"):
            return {"type": kind, "term": column, "values": draw.sample(values, draw.randint(1, min(4, len(values))))}
        if kind.endswith(("null", "nan")):
            return {"type": kind, "term": column}
        return {"type": kind, "term": column, "value": draw.choice(values)}

    def tree(depth):
        kind = draw.choice(["leaf", "and", "or", "not"]) if depth else "leaf"
        if kind == "leaf":
            return leaf()
        if kind == "not":
            return {"type": "not", "child": tree(depth - 1)}
        return {"type": kind, "left": tree(depth - 1), "right": tree(depth - 1)}

    return [tree(draw.randint(0, 3)) for _ in range(count)]


LEAVES = {
    "eq": pyice.EqualTo, "not-eq": pyice.NotEqualTo, "lt": pyice.LessThan, "lt-eq": pyice.LessThanOrEqual,
    "gt": pyice.GreaterThan, "gt-eq": pyice.GreaterThanOrEqual, "in": pyice.In, "not-in": pyice.NotIn,
    "is-null": pyice.IsNull, "not-null": pyice.NotNull, "is-nan": pyice.IsNaN, "not-nan": pyice.NotNaN,
    "starts-with": pyice.StartsWith, "not-starts-with": pyice.NotStartsWith,
}  # fmt: skip


OPERATORS = {"eq": "=", "not-eq": "<>", "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}
LITERALS = {"day": "DATE '{}'", "at": "TIMESTAMP '{}'", "ntz": "TIMESTAMP_NTZ '{}'", "raw": "X'{}'"}


def for_spark(tree):
    """The condition in SQL."""
    kind, term = tree["type"], tree.get("term")

    def literal(value):
        if isinstance(value, bool) or not isinstance(value, str):
            return str(value)
        return LITERALS.get(term, "{}" if term == "n" else "'{}'").format(value)

    if kind == "not":
        return f"NOT ({for_spark(tree['child'])})"
    if kind in ("and", "or"):
        return f"({for_spark(tree['left'])}) {kind} ({for_spark(tree['right'])})"
    if kind in ("in", "not-in"):
        return f"{term} {kind.replace('-', ' ')} ({', '.join(map(literal, tree['values']))})"
    if kind.endswith("starts-with"):
        return f"{'NOT ' * kind.startswith('not')}startswith({term}, {literal(tree['value'])})"
    if kind.endswith("null"):
        return f"{term} IS {'NOT ' * kind.startswith('not')}NULL"
    if kind.endswith("nan"):
        return f"{'NOT ' * kind.startswith('not')}isnan({term})"
    return f"{term} {OPERATORS[kind]} {literal(tree['value'])}"


def for_pyiceberg(tree):
    kind = tree["type"]
    if kind == "not":
        return pyice.Not(for_pyiceberg(tree["child"]))
    if kind in ("and", "or"):
        combine = pyice.And if kind == "and" else pyice.Or
        return combine(for_pyiceberg(tree["left"]), for_pyiceberg(tree["right"]))
    term = tree["term"]
    convert = bytes.fromhex if term in BYTES else lambda value: value
    if "values" in tree:
        return LEAVES[kind](term, [convert(value) for value in tree["values"]])
    return LEAVES[kind](term, *(convert(tree[key]) for key in ("value",) if key in tree))


def filters_for(table, count, without=()):
    if table in TYPED_TABLES:
        values = typed_values(table)
    else:
        values = {**VALUES, **NESTED_VALUES} if table == "nested" else VALUES
    values = {column: values[column] for column in values if column not in without}
    return generate_filters(f"{SEED}-{table}", count, values)


def has_set(tree, columns=None):
    """Whether a filter has a set of values, of these columns if they are given."""
    if tree["type"] in ("in", "not-in"):
        return columns is None or tree["term"] in columns
    return any(has_set(tree[key], columns) for key in ("child", "left", "right") if key in tree)


def filters_for_java(table, count):
    if table != NANOSECONDS:
        return filters_for(table, count)
    # Java 1.12 fails to project sets of nanoseconds to partitions.
    without_sets = [each for each in filters_for(table, 3 * count) if not has_set(each)]
    return without_sets[:count]


def delete_by_equality(spark, full, ids):
    """Commits an equality delete file with these values of the column `i`, as Flink does."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, full)
    columns = table.schema().select(["i"])
    field_ids = gateway.new_array(gateway.jvm.int, 1)
    field_ids[0] = table.schema().findField("i").fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = builder.equalityFieldIds(field_ids).equalityDeleteRowSchema(columns).build()
    name = "-".join(map(str, ["equality", *ids, random.SystemRandom().randrange(10**9)]))
    location = table.locationProvider().newDataLocation(f"{name}.parquet")
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(location))
    writer = factory.newEqualityDeleteWriter(output, table.spec(), None)
    for value in ids:
        record = iceberg.data.GenericRecord.create(columns)
        record.setField("i", value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def change_table(spark, full, change, directory):
    """Runs a statement of TABLES."""
    columns = "i, l, f, d, n, s, b, day, at, ntz"
    rows = ROW.format(first=20, end=32, files=1)
    kind, _, ids = change.partition("EQUALITY DELETE ")
    if ids:
        delete_by_equality(spark, full, [int(value) for value in ids.split(", ")])
    elif change == "INSERT":
        spark.sql(f"INSERT INTO {full} ({columns}) {rows}")
    elif change == "INSERT NESTED":
        place = "named_struct('x', i, 'name', concat('at', i)), CAST(CAST(i AS STRING) AS BINARY)"
        spark.sql(f"INSERT INTO {full} ({columns}, place, raw) SELECT *, {place} FROM ({rows})")
    elif change == "ADD FILES":
        # Files that another program has written in Hive's layout, outside of the table's location.
        spark.sql(rows).write.partitionBy("b").parquet(f"{directory}/imported")
        catalog, name = full.split(".", 1)
        source = f"`parquet`.`file://{directory}/imported`"
        spark.sql(f"CALL {catalog}.system.add_files(table => '{name}', source_table => '{source}')")
    else:
        spark.sql(change.replace("@", full))


@pytest.fixture(scope="module")
def scans(spark):
    """The class of Scans.java, compiled by the compiler that is part of Spark."""
    jvm = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cookFile(str(Path(__file__).with_name("Scans.java")))
    return compiler.getClassLoader().loadClass("Scans").newInstance()


@pytest.fixture(scope="module")
def java_tables(spark, zoo):
    """Loads a table by two catalogs of Java: one plans by itself, and one lets the server plan."""
    java_catalogs = [java_catalog(spark, name) for name in ("shop", "planned")]

    def load(name):
        identifier = java_identifier(spark._jvm, zoo, name)
        return [catalog.loadTable(identifier) for catalog in java_catalogs]

    return load


def java_catalog(spark, name):
    return spark._jsparkSession.sessionState().catalogManager().catalog(name).icebergCatalog()


def java_identifier(jvm, namespace, name):
    return jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{namespace}.{name}")


@pytest.fixture(scope="module")
def zoo(plans_scans, server, spark, scans, tmp_path_factory):
    """A namespace with all tables of the suite. They are only read."""
    directory = tmp_path_factory.mktemp("zoo")
    name = f"planning_{random.SystemRandom().randrange(10**9)}"
    spark.sql(f"CREATE NAMESPACE shop.{name}")
    for table, (partitioning, version, changes) in TABLES.items():
        full = f"shop.{name}.{table}"
        properties = f"'format-version'='{version}'"
        if version > 1:
            properties += ", 'write.delete.mode'='merge-on-read'"
        rows = ROW.format(first=0, end=20, files=2)
        spark.sql(f"CREATE TABLE {full} USING iceberg {partitioning} TBLPROPERTIES ({properties}) AS {rows}")
        for change in ["INSERT", *changes]:
            change_table(spark, full, change, directory)
    catalog = java_catalog(spark, "shop")
    for table in TYPED_TABLES:
        create_typed_table(spark._jvm, scans, catalog, java_identifier(spark._jvm, name, table))
    # PyIceberg writes other statistics than Java.
    with load_catalog("writer", type="rest", uri=server.uri) as writer:
        table = writer.load_table((name, "types_statistics"))
        table.append(table.scan().to_arrow())
    yield name
    drop_with_contents(spark, f"shop.{name}")


def java_plan(scans, table, condition, at=lambda scan: scan):
    """The tasks of a scan, each with its file, its delete files and the conjuncts of its residual filter."""
    tasks = json.loads(scans.plan(at(table.newScan()), json.dumps(condition)))
    for task in tasks:
        for file in task["deletes"]:
            # Plans of the server have no statistics of delete files.
            for member in STATISTICS:
                file.pop(member, None)
        task["deletes"].sort(key=lambda file: file["file-path"])
    return sorted(tasks, key=lambda task: task["file"]["file-path"])


def java_tasks(scans, local, remote, condition, at=lambda scan: scan):
    """The tasks that the server plans, and those that Java plans.

    The residual filters of Java depend only on the partition of a file. Those of the server also
    depend on its statistics, so the tasks of Java get such residual filters here.
    """
    expected = java_plan(scans, local, condition, at)
    planned = java_plan(scans, remote, condition, at)
    residuals = json.loads(scans.residuals(at(local.newScan()), json.dumps(condition)))
    # The server evaluates the residual filter of a file on its statistics, Java only the whole filter.
    expected = [task for task in expected if residuals[task["file"]["file-path"]]["matches"]]
    for task in expected:
        task["residual"] = residuals[task["file"]["file-path"]]["residual"]
    for task in planned:
        unknown = residuals.get(task["file"]["file-path"], {}).get("unknown", [])
        task["residual"] = [each for each in task["residual"] if each not in unknown]
    return planned, expected


def matches_only_null(task):
    residual = task.get("residual", [])
    return len(residual) == 1 and residual[0].endswith('notStartsWith """"')


def assert_same_tasks(name, planned, expected, condition):
    if name in ROUGH_RESIDUALS:
        for task in planned + expected:
            del task["residual"]
    if name == NULLS:
        # Java 1.12 regards null as less than all partition values, so it keeps more files.
        extra = [task for task in expected if task not in planned]
        assert all(None in task["file"]["partition"] for task in extra), condition
        expected = [task for task in expected if task not in extra]
    # Without nulls, no row matches `not-starts-with ''`. The server proves this without bounds.
    omitted = [task for task in expected if task not in planned]
    if all(matches_only_null(task) for task in omitted):
        expected = [task for task in expected if task not in omitted]
    assert planned == expected, condition


def pyiceberg_plan(table, condition):
    tasks = table.scan(row_filter=for_pyiceberg(condition)).plan_files()
    return sorted((task.file.file_path, sorted(file.file_path for file in task.delete_files)) for task in tasks)


# PyIceberg and iceberg-go plan these tables exactly like the server. They prune fewer files of the
# other tables, for example with `not-eq`.
EXACT = ["plain", "position_deletes", "equality_deletes", "nested", "nanos_statistics"]
EXACT += ["types_statistics", "types_identity", "types_bucket", "types_truncate"]
# Old writers rounded times before 1970 up. The server and Java keep the partitions that may have
# such rows, while PyIceberg and iceberg-go prune them.
EARLY = ["types_calendar", NANOSECONDS]


def assert_contains(name, local, remote, condition):
    if name in EXACT:
        assert local == remote, condition
    more, less = (remote, local) if name in EARLY else (local, remote)
    assert less.keys() <= more.keys(), condition
    for file, deletes in less.items():
        assert set(deletes) <= set(more[file]), condition


def pyiceberg_rows(table, condition):
    return sorted(map(repr, table.scan(row_filter=for_pyiceberg(condition)).to_arrow().to_pylist()))


@pytest.mark.parametrize("name", ALL_TABLES)
def test_java_gets_the_same_files_from_the_server_as_from_its_own_planning(
    scans, java_tables, name
):
    local, remote = java_tables(name)
    assert remote.newScan().getClass().getSimpleName() == "RESTTableScan"
    sizes = set()
    for condition in filters_for_java(name, FILTERS_PER_TABLE):
        planned, expected = java_tasks(scans, local, remote, condition)
        assert_same_tasks(name, planned, expected, condition)
        sizes.add(len(expected))
    assert len(sizes) > 1, "the filters prune nothing, so the comparison shows nothing"


@pytest.mark.parametrize("name", [name for name in TYPED_TABLES if name != NULLS])
def test_java_reads_the_same_rows_with_plans_of_the_server(scans, java_tables, name):
    tables = java_tables(name)
    for condition in filters_for_java(name, FILTERS_READ_PER_TABLE):
        rows = [sorted(scans.rows(table, json.dumps(condition)).splitlines()) for table in tables]
        assert rows[0] == rows[1], condition


@pytest.mark.parametrize("name", ALL_TABLES)
def test_java_gets_the_same_files_of_earlier_snapshots_branches_and_tags(
    spark, scans, java_tables, zoo, name
):
    table, _ = java_tables(name)
    snapshots = list(table.snapshots())
    middle = snapshots[len(snapshots) // 2].snapshotId()
    refs = table.manageSnapshots().createTag("middle", middle).createBranch("side", snapshots[0].snapshotId())
    refs.commit()
    if name in TABLES:
        row = "VALUES (7, true, DATE '2026-01-28')"
        spark.sql(f"INSERT INTO shop.{zoo}.{name}.branch_side (i, b, day) {row}")
    local, remote = java_tables(name)
    at = [lambda scan, ref=ref: scan.useRef(ref) for ref in ("middle", "side")]
    at += [lambda scan, id=snapshot.snapshotId(): scan.useSnapshot(id) for snapshot in snapshots]
    conditions = filters_for_java(name, FILTERS_PER_TABLE)[:12]
    for choose in at:
        for condition in conditions:
            try:
                planned, expected = java_tasks(scans, local, remote, condition, choose)
            except Py4JJavaError as error:
                # The filter names a column that the schema of the snapshot does not have.
                assert "ValidationException" in str(error)
                continue
            assert_same_tasks(name, planned, expected, condition)


@pytest.fixture
def table_of_values(spark, scans, java_tables, zoo):
    """Creates a table with the column `value`, and loads it by two catalogs of Java."""
    catalog = java_catalog(spark, "shop")

    def create(name, *args):
        identifier = java_identifier(spark._jvm, zoo, name)
        create_table_with_column(spark._jvm, scans, catalog, identifier, *args)
        return java_tables(name)

    return create


def test_server_plans_fixed_partition_values_of_java(scans, table_of_values):
    """Java 1.12 writes these values with a length, which Avro does not permit."""
    values = ["41424344", "DEADBEEF", None]
    local, remote = table_of_values("fixed_partitions", "fixed[4]", "value", values)
    for value in values[:2]:
        condition = {"type": "eq", "term": "value", "value": value}
        expected, planned = (java_plan(scans, table, condition) for table in (local, remote))
        assert [task["file"]["file-path"] for task in planned] == [
            task["file"]["file-path"] for task in expected
        ]
        assert [task["file"]["partition"] for task in planned] == [[value]]
    assert len(java_plan(scans, remote, {"type": "is-null", "term": "value"})) == 1


def test_java_still_rejects_partition_values_that_are_not_finite(scans, table_of_values):
    """If this fails, Java reads what it writes itself, and `FINITE` is not needed."""
    values = ["NaN", "Infinity", 1.5]
    local, remote = table_of_values("infinite_partitions", "double", "value", values)
    condition = {"type": "not-null", "term": "value"}
    assert len(java_plan(scans, local, condition)) == 3
    with pytest.raises(Exception, match="Cannot parse default as a double value"):
        java_plan(scans, remote, condition)


def test_java_still_compares_uuids_as_signed_numbers(scans, table_of_values):
    """If this fails, Java finds this row, and `VALUES` may have UUIDs of both signs."""
    low, high = "00000000-0000-4000-8000-000000000000", "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    local, remote = table_of_values("signed_uuids", "uuid", None, [low, high])
    condition = {"type": "gt", "term": "value", "value": low}
    assert java_plan(scans, local, condition) == []
    assert len(java_plan(scans, remote, condition)) == 1


def test_java_still_fails_to_plan_sets_of_nanoseconds(scans, java_tables):
    """If this fails, `filters_for_java` may generate sets for this table."""
    local, remote = java_tables(NANOSECONDS)
    values = ["2026-01-01T00:00:00", "2000-02-29T12:00:00"]
    condition = {"type": "in", "term": "timestamp_ns", "values": values}
    with pytest.raises(Exception, match="long overflow"):
        java_plan(scans, local, condition)
    assert java_plan(scans, remote, condition)


def test_java_still_keeps_null_partition_values_that_are_compared(scans, java_tables):
    """If this fails, `assert_same_tasks` may compare all tasks of this table."""
    local, remote = java_tables(NULLS)
    condition = {"type": "lt", "term": "int", "value": -200}
    expected, planned = (java_plan(scans, table, condition) for table in (local, remote))
    assert len(expected) > len(planned) > 0


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_the_same_rows_with_plans_of_the_server(spark, zoo, name):
    for condition in filters_for(name, FILTERS_PER_TABLE)[:FILTERS_READ_BY_SPARK]:
        rows = [
            sorted(map(repr, spark.sql(f"SELECT * FROM {catalog}.{zoo}.{name} WHERE {for_spark(condition)}").collect()))
            for catalog in ("shop", "planned")
        ]
        assert rows[0] == rows[1], condition


@pytest.mark.parametrize("name", ALL_TABLES)
def test_go_accepts_all_plans_of_the_server(server, zoo, name):
    """iceberg-go checks responses more strictly than the other clients."""
    conditions = filters_for(name, FILTERS_PER_TABLE)
    lines = "\n".join(json.dumps({"table": name, "filter": condition}) for condition in conditions)
    command = [os.environ["SLATEBERG_GO_PLANS"], server.uri, zoo]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    plans = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(plans) == len(conditions)
    for condition, plan in zip(conditions, plans, strict=True):
        local, remote = plan["local"], plan["remote"]
        assert "error" not in remote, (condition, remote)
        # iceberg-go 0.7 cannot read the bounds of columns whose type was promoted.
        if name == "reshaped" and "error" in local:
            continue
        assert_contains(name, local["files"], remote["files"], condition)


# PyIceberg 0.12 rejects responses with a null partition value.
NULL_PARTITIONS = ["buckets", "reshaped", "removed_fields", NULLS]
# PyIceberg 0.12 reads no equality delete files, and has no literals of nanoseconds.
UNKNOWN_TO_PYICEBERG = ["equality_deletes", "nanos_statistics", NANOSECONDS]
# PyIceberg 0.12 compares partition values of these types wrongly.
WRONG_IN_PYICEBERG = {"types_identity": ["uuid", "double"]}
FOR_PYICEBERG = [name for name in ALL_TABLES if name not in NULL_PARTITIONS + UNKNOWN_TO_PYICEBERG]


def filters_for_pyiceberg(name, count):
    return filters_for(name, count, WRONG_IN_PYICEBERG.get(name, []))


@pytest.mark.parametrize("name", FOR_PYICEBERG)
def test_pyiceberg_gets_the_same_files_from_the_server_as_from_its_own_planning(
    catalogs, zoo, name
):
    tables = [catalog.load_table((zoo, name)) for catalog in catalogs]
    for condition in filters_for_pyiceberg(name, FILTERS_PER_TABLE):
        local, remote = (dict(pyiceberg_plan(table, condition)) for table in tables)
        assert_contains(name, local, remote, condition)


# PyIceberg 0.12 cannot filter rows by columns of a struct.
@pytest.mark.parametrize("name", [name for name in FOR_PYICEBERG if name != "nested"])
def test_pyiceberg_gets_the_same_rows_from_the_server_as_from_its_own_planning(catalogs, zoo, name):
    local, remote = (catalog.load_table((zoo, name)) for catalog in catalogs)
    for condition in filters_for_pyiceberg(name, FILTERS_READ_PER_TABLE):
        # PyArrow 26 cannot filter rows by a set of UUIDs.
        if has_set(condition, ["uuid"]):
            continue
        assert pyiceberg_rows(remote, condition) == pyiceberg_rows(local, condition), condition


def test_pyiceberg_gets_the_same_files_of_a_table_with_fixed_partition_values(catalogs, zoo):
    local, remote = catalogs
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "fixed4"))
    schema = Schema(NestedField(1, "fixed4", FixedType(4), required=False))
    table = local.create_table((zoo, "fixed_by_pyiceberg"), schema, partition_spec=spec)
    values = [bytes.fromhex(value) for value in TYPED_VALUES["fixed[4]"]]
    table.append(pa.table({"fixed4": pa.array(values, pa.binary(4))}))
    remote = remote.load_table((zoo, "fixed_by_pyiceberg"))
    for i, value in enumerate(values):
        for kind, count in (("eq", 1), ("lt", i), ("gt-eq", len(values) - i)):
            condition = {"type": kind, "term": "fixed4", "value": value.hex()}
            plans = [pyiceberg_plan(each, condition) for each in (table, remote)]
            assert plans[0] == plans[1], condition
            assert len(plans[1]) == count, condition


@pytest.mark.parametrize("name", NULL_PARTITIONS)
def test_pyiceberg_still_rejects_null_partition_values(catalogs, zoo, name):
    """If this fails, PyIceberg accepts them, and these tables belong to the tests above."""
    _, remote = catalogs
    condition = {"type": "not-null", "term": "i" if name in TABLES else "id"}
    with pytest.raises(ValidationError):
        pyiceberg_plan(remote.load_table((zoo, name)), condition)


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "eq", "term": "uuid", "value": TYPED_VALUES["uuid"][0]},
        {"type": "in", "term": "double", "values": [-1e300, 1e300]},
    ],
)
def test_pyiceberg_still_compares_partition_values_wrongly(catalogs, zoo, condition):
    """If this fails, PyIceberg finds these files, and `WRONG_IN_PYICEBERG` has one entry less."""
    local, remote = (catalog.load_table((zoo, "types_identity")) for catalog in catalogs)
    assert pyiceberg_plan(local, condition) == []
    assert pyiceberg_plan(remote, condition) != []


@pytest.mark.parametrize("name", ["nanos_statistics", NANOSECONDS])
def test_pyiceberg_still_has_no_literals_of_nanoseconds(catalogs, zoo, name):
    """If this fails, these tables belong to the tests above."""
    local, _ = (catalog.load_table((zoo, name)) for catalog in catalogs)
    condition = {"type": "eq", "term": "timestamp_ns", "value": "2026-01-01T00:00:00"}
    with pytest.raises(TypeError, match="Cannot convert StringLiteral into timestamp_ns"):
        pyiceberg_plan(local, condition)


@pytest.fixture
def catalogs(server):
    """Two catalogs of PyIceberg: one plans by itself, and one lets the server plan."""
    with (
        load_catalog("local", type="rest", uri=server.uri) as local,
        load_catalog("remote", type="rest", uri=server.uri, **{"scan-planning-mode": "server"}) as remote,
    ):
        yield local, remote
