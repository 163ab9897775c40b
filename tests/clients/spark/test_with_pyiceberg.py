"""Two clients of one catalog: PyIceberg reads the rows of Spark, and vice versa."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion


@pytest.fixture(scope="module")
def catalog(server):
    with load_catalog("slateberg", type="rest", uri=server.uri) as catalog:
        yield catalog


@pytest.mark.parametrize(
    ("version", "mode"),
    [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")],
)
def test_pyiceberg_reads_what_spark_wrote(sql, namespace, catalog, version, mode):
    sql(
        f"""CREATE TABLE orders PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = '{mode}')
        AS SELECT id, if(id < 5, 'north', 'south') AS region FROM range(0, 10, 1, 1)"""
    )
    sql("DELETE FROM orders WHERE id IN (2, 7)")
    sql("ALTER TABLE orders ADD COLUMN note STRING")
    sql("INSERT INTO orders VALUES (10, 'west', 'late')")

    table = catalog.load_table((namespace, "orders"))
    assert table.format_version == version
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 3, 4, 5, 6, 8, 9, 10]
    assert table.scan(row_filter="region = 'west'").to_arrow()["note"].to_pylist() == ["late"]
    first = table.snapshots()[0].snapshot_id
    assert table.scan(snapshot_id=first).count() == 10


def test_spark_reads_what_pyiceberg_wrote(sql, namespace, catalog):
    table = catalog.create_table((namespace, "orders"), Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "opening").commit()

    assert sql("SELECT id FROM orders ORDER BY id") == [(1,), (3,)]
    assert sql("SELECT count(*) FROM orders VERSION AS OF 'opening'") == [(3,)]

    sql("INSERT INTO orders VALUES (4)")
    sql("ALTER TABLE orders ADD COLUMN note STRING")
    table.refresh().append(pa.table({"id": [5], "note": ["both"]}))
    assert sql("SELECT id, note FROM orders ORDER BY id") == [(1, None), (3, None), (4, None), (5, "both")]


def test_spark_queries_a_view_that_pyiceberg_made(sql, namespace, catalog, orders):
    catalog.create_view(
        (namespace, "big_orders"),
        Schema(NestedField(1, "id", LongType()), schema_id=0),
        ViewVersion(
            version_id=1,
            schema_id=0,
            representations=[SQLViewRepresentation(type="sql", sql="SELECT id FROM orders WHERE amount >= 20", dialect="spark")],
            default_namespace=(namespace,),
        ),
    )
    assert sql("SELECT id FROM big_orders ORDER BY id") == [(2,), (3,)]


def test_pyiceberg_loads_a_view_that_spark_made(sql, namespace, catalog, orders):
    sql("CREATE VIEW big_orders AS SELECT id FROM orders WHERE amount >= 20")
    sql("CREATE OR REPLACE VIEW big_orders AS SELECT id FROM orders WHERE amount >= 30")

    view = catalog.load_view((namespace, "big_orders"))
    assert view.sql_for("spark").sql == "SELECT id FROM orders WHERE amount >= 30"
    assert len(view.versions) == 2
    assert view.current_version().default_namespace == (namespace,)


def test_namespace_properties_are_shared(sql, namespace, catalog):
    sql(f"ALTER NAMESPACE {namespace} SET PROPERTIES (team = 'ada')")
    assert catalog.load_namespace_properties(namespace)["team"] == "ada"
    catalog.update_namespace_properties(namespace, updates={"team": "grace"})
    assert "(team,grace)" in dict(sql(f"DESCRIBE NAMESPACE EXTENDED {namespace}"))["Properties"]
