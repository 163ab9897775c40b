"""A shop's orders: the rows of most tests, with helpers to write and read them."""

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

ORDERS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "customer", StringType()),
    NestedField(3, "region", StringType()),
    NestedField(4, "amount", DoubleType()),
    NestedField(5, "placed_on", DateType()),
    schema_id=0,
    identifier_field_ids=[1],
)

ORDERS_ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("region", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("placed_on", pa.date32()),
    ]
)


def orders(*ids, customer="ada", region="north", amount=None):
    """One order per id. The amount defaults to ten times the id, the day to the id in days after
    1970-01-01."""
    return pa.table(
        {
            "id": list(ids),
            "customer": [customer] * len(ids),
            "region": [region] * len(ids),
            "amount": [float(amount if amount is not None else 10 * i) for i in ids],
            "placed_on": pa.array(ids, pa.int32()).cast(pa.date32()),
        },
        schema=ORDERS_ARROW,
    )


def ids(scannable):
    """The sorted order ids in a table or scan."""
    scan = scannable.scan() if hasattr(scannable, "scan") else scannable
    return sorted(scan.to_arrow()["id"].to_pylist())


BIG_ORDERS = Schema(
    NestedField(1, "id", LongType(), doc="the order"),
    NestedField(2, "customer", StringType()),
    schema_id=0,
)


def big_orders_query(namespace, **dialects):
    """The first version of a view of big orders, in Spark's dialect and any others."""
    queries = {"spark": "SELECT id, customer FROM orders WHERE amount >= 1000", **dialects}
    return ViewVersion(
        version_id=1,
        schema_id=0,
        summary={"engine-name": "pyiceberg"},
        representations=[SQLViewRepresentation(type="sql", sql=sql, dialect=dialect) for dialect, sql in queries.items()],
        default_namespace=(namespace,),
    )
