import time

import pytest
from pyspark.sql.functions import col

KINDS = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]


@pytest.fixture(params=KINDS, ids=lambda kind: f"v{kind[0]}-{kind[1]}")
def kind(request):
    return request.param


@pytest.fixture
def table(sql, kind):
    """Ten orders in two files, for each format version and write mode."""
    version, mode = kind
    sql(
        f"""CREATE TABLE orders (id BIGINT, customer STRING, amount DOUBLE) TBLPROPERTIES (
        'format-version' = '{version}', 'write.delete.mode' = '{mode}',
        'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}')"""
    )
    for half in ("range(0, 5, 1, 1)", "range(5, 10, 1, 1)"):
        sql(f"INSERT INTO orders SELECT id, 'ada', 10.0 * id FROM {half}")
    return "orders"


def delete_files(sql):
    return {(file_format, count) for file_format, count in sql("SELECT file_format, count(*) FROM @orders.delete_files GROUP BY 1")}


EXPECTED_DELETES = {
    (2, "copy-on-write"): set(),
    (2, "merge-on-read"): {("PARQUET", 1)},
    (3, "copy-on-write"): set(),
    # Version 3 marks deleted rows in deletion vectors.
    (3, "merge-on-read"): {("PUFFIN", 1)},
}


def test_rows_are_deleted(sql, ids, table, kind):
    sql("DELETE FROM orders WHERE id = 2")

    assert ids() == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert delete_files(sql) == EXPECTED_DELETES[kind]
    sql("DELETE FROM orders WHERE id IN (3, 7)")
    assert ids() == [0, 1, 4, 5, 6, 8, 9]


def test_rows_are_updated(sql, ids, table, kind):
    sql("UPDATE orders SET amount = amount + 1, customer = 'grace' WHERE id = 3")

    assert sql("SELECT id, customer, amount FROM orders WHERE customer = 'grace'") == [(3, "grace", 31.0)]
    assert ids() == list(range(10))
    assert delete_files(sql) == EXPECTED_DELETES[kind]


def test_rows_are_merged(sql, table, kind):
    sql(
        """MERGE INTO orders AS o USING (SELECT id + 3 AS id, 'edith' AS customer, id % 2 AS odd FROM range(0, 8, 1, 1)) AS n ON o.id = n.id
        WHEN MATCHED AND n.odd = 1 THEN DELETE
        WHEN MATCHED THEN UPDATE SET customer = n.customer
        WHEN NOT MATCHED THEN INSERT (id, customer) VALUES (n.id, n.customer)
        WHEN NOT MATCHED BY SOURCE AND o.id = 0 THEN DELETE"""
    )

    assert sql("SELECT id, customer FROM orders ORDER BY id") == [
        (1, "ada"),
        (2, "ada"),
        (3, "edith"),
        (5, "edith"),
        (7, "edith"),
        (9, "edith"),
        (10, "edith"),
    ]


def test_whole_files_are_deleted_without_rewriting(sql, ids):
    sql("CREATE TABLE orders PARTITIONED BY (region) AS SELECT id, if(id < 3, 'north', 'south') AS region FROM range(5)")
    sql("DELETE FROM orders WHERE region = 'north'")

    assert ids() == [3, 4]
    assert sql("SELECT operation FROM @orders.snapshots ORDER BY committed_at") == [("append",), ("delete",)]


def test_overwriting_replaces_the_table_or_its_partitions(spark, sql, ids):
    sql("CREATE TABLE orders PARTITIONED BY (region) AS SELECT id, if(id < 3, 'north', 'south') AS region FROM range(5)")

    sql("INSERT OVERWRITE orders PARTITION (region = 'south') VALUES (9)")
    assert ids() == [0, 1, 2, 9]

    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql("INSERT OVERWRITE orders VALUES (7, 'north'), (8, 'west')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert ids() == [7, 8, 9]

    sql("INSERT OVERWRITE orders VALUES (1, 'east')")
    assert ids() == [1]


def test_rows_keep_their_ids_since_version_3(sql):
    sql("CREATE TABLE orders (id BIGINT, customer STRING) TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO orders SELECT id, 'ada' FROM range(0, 3, 1, 1)")
    sql("INSERT INTO orders SELECT id, 'ada' FROM range(3, 5, 1, 1)")
    before = sql("SELECT id, _row_id, _last_updated_sequence_number FROM orders ORDER BY id")
    assert before == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 2)]

    sql("UPDATE orders SET customer = 'grace' WHERE id = 1")
    after = sql("SELECT id, _row_id, _last_updated_sequence_number FROM orders ORDER BY id")
    assert after == [(0, 0, 1), (1, 1, 3), (2, 2, 1), (3, 3, 2), (4, 4, 2)]

    sql("INSERT INTO orders SELECT 5, 'ada'")
    row_ids = [row for (row,) in sql("SELECT _row_id FROM orders")]
    assert len(set(row_ids)) == 6


def test_data_frames_are_written_through_the_second_api(spark, sql, ids, namespace):
    table = f"shop.{namespace}.orders"
    spark.range(0, 3).writeTo(table).tableProperty("team", "ada").create()
    spark.range(3, 5).writeTo(table).append()
    assert ids() == [0, 1, 2, 3, 4]
    assert ("team", "ada") in sql("SHOW TBLPROPERTIES orders")

    spark.range(9, 10).writeTo(table).overwrite(col("id") < 3)
    assert ids() == [3, 4, 9]
    spark.range(1).writeTo(table).createOrReplace()
    assert ids() == [0]


def test_earlier_versions_stay_readable(spark, sql, ids, orders, snapshots):
    first, second, third = snapshots()
    times = [
        t
        for (t,) in sql("SELECT date_format(committed_at, 'yyyy-MM-dd HH:mm:ss.SSS') FROM @orders.snapshots ORDER BY committed_at")
    ]
    sql("ALTER TABLE orders CREATE TAG opening AS OF VERSION " + str(first))
    sql("ALTER TABLE orders CREATE BRANCH audit AS OF VERSION " + str(second))

    assert ids(f"orders VERSION AS OF {first}") == [1]
    assert ids("orders VERSION AS OF 'opening'") == [1]
    assert ids("orders VERSION AS OF 'audit'") == [1, 2]
    assert ids(f"orders TIMESTAMP AS OF '{times[1]}'") == [1, 2]
    assert ids(f"orders FOR SYSTEM_TIME AS OF '{times[2]}'") == [1, 2, 3]
    assert ids(f"@orders.snapshot_id_{second}") == [1, 2]
    assert ids("@orders.tag_opening") == [1]
    assert ids("@orders.branch_audit") == [1, 2]

    added = spark.read.option("start-snapshot-id", first).option("end-snapshot-id", third).table("orders")
    assert sorted(row.id for row in added.collect()) == [2, 3]


def test_metadata_tables_describe_the_table(sql, orders, snapshots):
    first, second, third = snapshots()
    counts = {
        name: sql(f"SELECT count(*) FROM @orders.{name}")[0][0]
        for name in (
            "snapshots", "history", "refs", "files", "data_files", "delete_files", "entries", "manifests", "partitions",
            "all_data_files", "all_files", "all_manifests", "all_entries", "metadata_log_entries", "position_deletes",
        )
    }  # fmt: skip
    assert counts == {
        "snapshots": 3, "history": 3, "refs": 1, "files": 3, "data_files": 3, "delete_files": 0, "entries": 3, "manifests": 3,
        "partitions": 1, "all_data_files": 3, "all_files": 3, "all_manifests": 6, "all_entries": 3, "metadata_log_entries": 4,
        "position_deletes": 0,
    }  # fmt: skip

    assert sql("SELECT snapshot_id, parent_id, is_current_ancestor FROM @orders.history ORDER BY made_current_at") == [
        (first, None, True),
        (second, first, True),
        (third, second, True),
    ]
    assert sql("SELECT name, type, snapshot_id FROM @orders.refs") == [("main", "BRANCH", third)]
    assert sql("SELECT summary['total-records'] FROM @orders.snapshots ORDER BY committed_at") == [("1",), ("2",), ("3",)]
    assert sql("SELECT latest_snapshot_id FROM @orders.metadata_log_entries ORDER BY timestamp, file") == [
        (None,),
        (first,),
        (second,),
        (third,),
    ]


@pytest.mark.parametrize("created_with", [3, 4])
def test_rows_of_version_4_are_written_deleted_and_read(sql, ids, properties, created_with):
    sql(f"CREATE TABLE orders (id BIGINT, customer STRING) TBLPROPERTIES ('format-version' = '{created_with}')")
    sql("INSERT INTO orders SELECT id, 'ada' FROM range(0, 3, 1, 1)")
    if created_with == 3:
        sql("ALTER TABLE orders SET TBLPROPERTIES ('format-version' = '4')")
    sql("INSERT INTO orders SELECT id, 'grace' FROM range(3, 5, 1, 1)")
    sql("DELETE FROM orders WHERE id = 1")

    assert properties()["format-version"] == "4"
    assert ids() == [0, 2, 3, 4]
    assert sql("SELECT _row_id FROM orders WHERE customer = 'grace' ORDER BY id") == [(3,), (4,)]


def test_purge_of_version_4_reports_that_files_of_parquet_manifests_remain(sql, exists, namespace, server):
    sql("CREATE TABLE orders TBLPROPERTIES ('format-version' = '4') AS SELECT id FROM range(3)")
    files = [file for (file,) in sql("SELECT file_path FROM @orders.files")]
    manifests = [path for (path,) in sql("SELECT path FROM @orders.manifests")]
    assert all(exists(file) for file in files + manifests)

    server.send("DELETE", f"v1/namespaces/{namespace}/tables/orders?purgeRequested=true")

    job = ended_purge(server, f"table:default/{namespace}/orders")
    assert job["state"] == "done"
    assert "is a Parquet file" in job["warning"]
    assert job["files"]["kept"] == len(files)
    assert all(exists(file) for file in files)
    assert not any(exists(manifest) for manifest in manifests)


def ended_purge(server, resource):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for job in server.manage("GET", "jobs")["jobs"]:
            if job["resource"] == resource and job["ended-at-ms"]:
                return job
        time.sleep(0.1)
    raise AssertionError(f"the purge of {resource} did not end")
