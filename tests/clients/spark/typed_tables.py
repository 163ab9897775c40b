"""Tables with all primitive types and partition transforms, for test_planning_parity.py.

Spark has no columns of some of these types, so Iceberg's Java library writes the rows.
"""

import json

# Twelve values of each type in ascending order, in the JSON form of the table specification. They
# include signs, the epoch, extremes, and values that are longer than the bounds in manifests.
VALUES = {
    "boolean": [False] * 6 + [True] * 6,
    "int": [-(2**31), -101, -10, -1, 0, 1, 9, 10, 11, 100, 20000, 2**31 - 1],
    "long": [
        -(2**63), -3000000000, -101, -1, 0, 1,
        10, 99, 3000000000, 12000000084, 19000000133, 2**63 - 1,
    ],
    # Clients disagree whether -0.0 equals 0.0, so the server does not prune by it.
    "float": [
        "-Infinity", -100.5, -1.5, -0.25, 0.0, 0.75, 2.5, 4.75, 10.0, 100.5, "Infinity", "NaN",
    ],
    "double": [
        "-Infinity", -1e300, -1.5, -1e-300, 0.0, 1e-300, 2.5, 4.75, 100.5, 1e300, "Infinity", "NaN",
    ],
    "decimal(9, 2)": [
        "-9999999.90", "-25.01", "-25.00", "-1.00", "-0.01", "0.00",
        "0.01", "3.75", "24.99", "25.00", "900.00", "9999999.99",
    ],
    "decimal(18, 4)": [
        f"{whole}.{'5000' if i % 2 else '0001'}"
        for i, whole in enumerate([-(10**13), -700, -25, -1, 0, 1, 3, 24, 25, 900, 10**9, 10**13])
    ],
    "decimal(38, 10)": [
        f"{whole}.{'5000000000' if i % 2 else '0000000001'}"
        for i, whole in enumerate(
            [-(10**27), -(10**18), -25, -1, 0, 1, 3, 24, 25, 10**9, 10**18, 10**27]
        )
    ],
    "date": [
        "1582-10-14", "1899-12-31", "1969-11-30", "1969-12-31", "1970-01-01", "1970-01-02",
        "2000-02-29", "2025-12-31", "2026-01-01", "2026-03-01", "2026-12-31", "9999-12-31",
    ],
    "time": [
        "00:00:00", "00:00:00.000001", "00:59:59.999999", "01:00:00", "03:30:00", "06:45:12.5",
        "11:59:59.999999", "12:00:00", "12:00:00.001", "18:00:00", "23:00:00", "23:59:59.999999",
    ],
    "timestamp": [
        "1899-12-31T23:59:59.999999", "1969-11-30T23:00:00", "1969-12-31T22:59:59.999999",
        "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "1970-01-01T00:00:00.000001",
        "1970-01-01T01:00:00", "2000-02-29T12:00:00", "2025-12-31T23:59:59.999999",
        "2026-01-01T00:00:00", "2026-06-30T12:30:00.123456", "9999-12-31T23:59:59.999999",
    ],
    "timestamp_ns": [
        "1899-12-31T23:59:59.999999999", "1969-11-30T23:00:00", "1969-12-31T22:59:59.999999999",
        "1969-12-31T23:59:59.999999999", "1970-01-01T00:00:00", "1970-01-01T00:00:00.000000001",
        "1970-01-01T01:00:00", "2000-02-29T12:00:00", "2025-12-31T23:59:59.999999999",
        "2026-01-01T00:00:00", "2026-06-30T12:30:00.123456789", "2261-12-31T23:59:59.999999999",
    ],
    "string": [
        "", "A", "a", "ab", "abcdefghijklmnopqrst", "abcdefghijklmnopqrsu",
        "name1", "name3-19", "zebra", "é", "日本語" * 6, "😀" * 18,
    ],
    # Java 1.12 compares the halves of a UUID as signed numbers. These UUIDs have the same order.
    "uuid": [
        f"{start}-677c-4bbd-a479-3f349cb785e{end}"
        for start in ("00000000", "0fffffff", "10000000", "406caec7", "7f9c3e09", "7fffffff")
        for end in "0f"
    ],
    "fixed[4]": [
        "00000000", "00000001", "0000FF00", "10000000", "41424344", "7FFFFFFF",
        "80000000", "8000FFFF", "C0FFEE00", "DEADBEEF", "FFFFFFFE", "FFFFFFFF",
    ],
    "fixed[20]": [
        f"{byte:02X}" * 19 + last for byte in (0, 65, 127, 128, 200, 255) for last in ("00", "FF")
    ],
    "binary": [
        "", "00", "00" * 20, "01", "3230", "3230" * 10,
        "7F", "80", "C0FFEE", "FF", "FF" * 16, "FF" * 20,
    ],
}  # fmt: skip
VALUES["timestamptz"] = [value + "+00:00" for value in VALUES["timestamp"]]
VALUES["timestamptz_ns"] = [value + "+00:00" for value in VALUES["timestamp_ns"]]

NANOS = ["timestamp_ns", "timestamptz_ns"]
V2_TYPES = [kind for kind in VALUES if kind not in NANOS]
BUCKETED = [kind for kind in V2_TYPES if kind not in ("boolean", "float", "double")]
# Java 1.12 writes partition values of the type fixed[n] with a length, which Avro does not permit.
# The server reads them, but PyIceberg and iceberg-go do not.
IDENTICAL = [kind for kind in V2_TYPES if not kind.startswith("fixed")]
TRUNCATED = [kind for kind in V2_TYPES if kind in ("int", "long", "string", "binary")]
TRUNCATED += [kind for kind in V2_TYPES if kind.startswith("decimal")]

UNITS = ["year", "month", "day", "hour"]

# Each table with the format version, the types of its columns, whether they have nulls, and the
# partition specs, which are lists of transforms and types. Rows are appended to each spec.
TYPED_TABLES = {
    "types_statistics": (2, V2_TYPES, True, [[]]),
    "types_identity": (1, V2_TYPES, False, [[("identity", kind) for kind in IDENTICAL]]),
    "types_bucket": (2, V2_TYPES, False, [[("bucket[5]", kind) for kind in BUCKETED]]),
    "types_truncate": (
        2,
        V2_TYPES,
        False,
        [[(f"truncate[{width}]", kind) for kind in TRUNCATED] for width in (10, 2)],
    ),
    "types_nulls": (
        2,
        V2_TYPES,
        True,
        [
            [("identity", kind) for kind in IDENTICAL] + [("void", "fixed[4]")],
            [("bucket[5]", "uuid"), ("day", "timestamp")]
            + [("truncate[10]", kind) for kind in TRUNCATED],
        ],
    ),
    "types_calendar": (
        2,
        V2_TYPES,
        False,
        [
            [("year", "date"), ("month", "timestamp"), ("day", "timestamptz")],
            [("month", "date"), ("day", "timestamp"), ("hour", "timestamptz")],
            [("day", "date"), ("hour", "timestamp"), ("year", "timestamptz")],
            [("year", "timestamp"), ("month", "timestamptz")],
        ],
    ),
    "nanos_statistics": (3, NANOS, True, [[]]),
    "nanos_partitions": (
        3,
        NANOS,
        False,
        [
            [("identity", "timestamp_ns"), ("bucket[5]", "timestamptz_ns")],
            [("bucket[5]", "timestamp_ns"), ("identity", "timestamptz_ns")],
            *(
                [(UNITS[i], "timestamp_ns"), (UNITS[(i + 1) % 4], "timestamptz_ns")]
                for i in range(4)
            ),
        ],
    ),
}


# Java 1.12 rejects partition values that are not finite. These replace them.
FINITE = {"-Infinity": -1e30, "Infinity": 1e30, "NaN": 2e30}


def column(kind):
    """The name of the column with this type, or the part of a name for a transform."""
    return kind.translate(str.maketrans("", "", "([ ])")).replace(",", "_")


def typed_values(table):
    """Values of each column for filters. JSON has no numbers that are not finite."""
    return {
        column(kind): [value for value in VALUES[kind] if value not in FINITE]
        for kind in TYPED_TABLES[table][1]
    }


def parse_schema(iceberg, fields):
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return iceberg.SchemaParser.fromJson(json.dumps(schema))


def create_typed_table(jvm, scans, catalog, identifier):
    version, kinds, has_nulls, specs = TYPED_TABLES[identifier.name()]
    iceberg = jvm.org.apache.iceberg
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    for i, kind in enumerate(kinds, 2):
        fields.append({"id": i, "name": column(kind), "required": False, "type": kind})
    builder = catalog.buildTable(identifier, parse_schema(iceberg, fields))
    builder.withProperty("format-version", str(version))
    if specs[0]:
        # Without statistics of columns, only the partition of a file shows whether it has rows.
        builder.withProperty("write.metadata.metrics.default", "none")
    table = builder.create()

    def value(kind, i, k):
        chosen = VALUES[kind][k]
        if has_nulls and (k + i) % 6 == 5:
            return None
        return FINITE.get(chosen, chosen) if specs[0] else chosen

    rows = []
    for k in range(12):
        rows.append({"id": k, **{column(kind): value(kind, i, k) for i, kind in enumerate(kinds)}})
    for spec in specs:
        change = table.updateSpec()
        for field in table.spec().fields():
            change.removeField(field.name())
        for transform, kind in spec:
            source = column(kind)
            parsed = iceberg.transforms.Transforms.fromString(transform)
            term = iceberg.expressions.Expressions.transform(source, parsed)
            change.addField(f"{source}_{column(transform)}", term)
        change.commit()
        table.refresh()
        scans.append(table, json.dumps(rows), 3)


def create_table_with_column(jvm, scans, catalog, identifier, kind, partition, values):
    """Creates a table with the column `value`. Each value is in its own file."""
    fields = [{"id": 1, "name": "value", "required": False, "type": kind}]
    table = catalog.buildTable(identifier, parse_schema(jvm.org.apache.iceberg, fields)).create()
    if partition:
        table.updateSpec().addField(partition).commit()
    scans.append(table, json.dumps([{"value": value} for value in values]), 1)
