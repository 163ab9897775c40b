"""Maintenance procedures of engines, each with its own kind of commit."""

import pytest


@pytest.fixture
def call(sql):
    """Calls a procedure of the catalog with named arguments."""

    def run(procedure, **arguments):
        listed = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        return sql(f"CALL shop.system.{procedure}({listed})")

    return run


ORDERS = "'orders'"


def committed_at(sql, snapshot):
    ((when,),) = sql(
        f"SELECT date_format(committed_at, 'yyyy-MM-dd HH:mm:ss.SSS') FROM @orders.snapshots WHERE snapshot_id = {snapshot}"
    )
    return f"TIMESTAMP '{when}'"


def test_a_table_rolls_back_to_a_snapshot(call, ids, orders, snapshots):
    first, _, third = snapshots()
    assert call("rollback_to_snapshot", table=ORDERS, snapshot_id=first) == [(third, first)]
    assert ids() == [1]


def test_a_table_rolls_back_to_a_time(call, sql, ids, orders, snapshots):
    _, second, third = snapshots()
    assert call("rollback_to_timestamp", table=ORDERS, timestamp=committed_at(sql, third)) == [(third, second)]
    assert ids() == [1, 2]


def test_any_snapshot_becomes_the_current_one(call, sql, ids, orders, snapshots):
    first, _, third = snapshots()
    sql(f"ALTER TABLE orders CREATE TAG newest AS OF VERSION {third}")
    call("set_current_snapshot", table=ORDERS, snapshot_id=first)
    assert ids() == [1]
    call("set_current_snapshot", table=ORDERS, ref="'newest'")
    assert ids() == [1, 2, 3]
    assert [s for (s,) in sql("SELECT snapshot_id FROM @orders.history ORDER BY made_current_at")][-2:] == [first, third]


def test_a_snapshot_is_picked_from_the_side(call, spark, sql, ids, orders):
    sql("ALTER TABLE orders SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.id", "nightly-7")
    try:
        sql("INSERT INTO orders (id) VALUES (4)")
    finally:
        spark.conf.unset("spark.wap.id")
    assert ids() == [1, 2, 3]
    ((staged,),) = sql("SELECT snapshot_id FROM @orders.snapshots WHERE summary['wap.id'] = 'nightly-7'")

    call("cherrypick_snapshot", table=ORDERS, snapshot_id=staged)
    assert ids() == [1, 2, 3, 4]


def test_staged_changes_are_published(call, spark, sql, ids, orders):
    sql("ALTER TABLE orders SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.id", "nightly-8")
    try:
        sql("INSERT INTO orders (id) VALUES (4)")
    finally:
        spark.conf.unset("spark.wap.id")

    call("publish_changes", table=ORDERS, wap_id="'nightly-8'")
    assert ids() == [1, 2, 3, 4]


def test_a_branch_moves_forward_to_another(call, sql, ids, orders):
    sql("ALTER TABLE orders CREATE BRANCH audit")
    sql("INSERT INTO @orders.branch_audit (id) VALUES (4)")
    call("fast_forward", table=ORDERS, branch="'main'", to="'audit'")
    assert ids() == [1, 2, 3, 4]


def test_old_snapshots_expire_with_their_files(call, sql, ids, orders, snapshots):
    sql("DELETE FROM orders WHERE id = 1")
    first, *_, last = snapshots()
    sql(f"ALTER TABLE orders CREATE TAG keep AS OF VERSION {first}")

    counts = call(
        "expire_snapshots", table=ORDERS, older_than="TIMESTAMP '2100-01-01 00:00:00'", retain_last=1, clean_expired_metadata="true"
    )
    assert sum(counts[0]) > 0
    assert snapshots() == [first, last]
    assert ids() == [2, 3]
    assert ids("@orders.tag_keep") == [1]


def test_schemas_and_partitionings_out_of_use_expire_too(call, sql, ids, orders):
    sql("ALTER TABLE orders ADD PARTITION FIELD bucket(4, id)")
    sql("ALTER TABLE orders DROP PARTITION FIELD bucket(4, id)")
    sql("ALTER TABLE orders ADD COLUMN note STRING")
    sql("INSERT INTO orders (id) VALUES (4)")

    call("expire_snapshots", table=ORDERS, older_than="TIMESTAMP '2100-01-01 00:00:00'", clean_expired_metadata="true")
    assert ids() == [1, 2, 3, 4]


def test_named_snapshots_expire(call, orders, snapshots):
    first, second, third = snapshots()
    call("expire_snapshots", table=ORDERS, snapshot_ids=f"ARRAY({second})", older_than="TIMESTAMP '2000-01-01 00:00:00'")
    assert snapshots() == [first, third]


def test_manifests_are_rewritten(call, sql, ids, orders):
    assert call("rewrite_manifests", table=ORDERS) == [(3, 1)]
    assert sql("SELECT count(*) FROM @orders.manifests") == [(1,)]
    assert ids() == [1, 2, 3]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_stay_the_same_after_the_server_has_rewritten_manifests(server, namespace, sql, ids, version):
    sql(f"CREATE TABLE orders (id BIGINT) PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('format-version' = '{version}')")
    for i in range(1, 6):
        sql(f"INSERT INTO orders VALUES ({i}), ({i + 10})")
    lineage = ", _row_id, _last_updated_sequence_number" if version == 3 else ""
    rows = f"SELECT id{lineage} FROM orders ORDER BY id"
    before = sql(rows)

    resource = f"table:default/{namespace}/orders"
    rewritten = server.manage("POST", "manifests/rewrite", {"resource": resource, "dry-run": False})
    sql("REFRESH TABLE orders")

    assert (rewritten["manifests-created"], rewritten["manifests-replaced"]) == (1, 5)
    assert sql("SELECT count(*) FROM @orders.manifests") == [(1,)]
    assert sql(rows) == before
    assert sql("SELECT id FROM orders WHERE id = 12") == [(12,)]
    sql("INSERT INTO orders VALUES (6)")
    sql("DELETE FROM orders WHERE id = 1")
    assert ids() == [2, 3, 4, 5, 6, 11, 12, 13, 14, 15]
    if version == 3:
        assert [row for row in sql(rows) if row[0] > 6] == [row for row in before if row[0] > 6]


@pytest.mark.parametrize("strategy", ["binpack", "sort"])
def test_data_files_are_rewritten(call, sql, ids, orders, strategy):
    order = {"sort_order": "'id DESC'"} if strategy == "sort" else {}
    ((rewritten, added, *_),) = call(
        "rewrite_data_files", table=ORDERS, strategy=f"'{strategy}'", options="map('min-input-files', '2')", **order
    )
    assert (rewritten, added) == (3, 1)
    assert sql("SELECT count(*) FROM @orders.files") == [(1,)]
    assert ids() == [1, 2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_position_deletes_are_rewritten(call, sql, ids, version):
    sql(
        f"""CREATE TABLE orders TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',
        'write.delete.granularity' = 'file') AS SELECT id FROM range(0, 10, 1, 1)"""
    )
    sql("DELETE FROM orders WHERE id = 2")
    sql("DELETE FROM orders WHERE id = 4")

    call("rewrite_position_delete_files", table=ORDERS, options="map('rewrite-all', 'true')")
    assert sql("SELECT count(*) FROM @orders.delete_files") == [(1,)]
    assert ids() == [0, 1, 3, 5, 6, 7, 8, 9]


def test_orphan_files_are_removed(call, spark, sql, ids, orders):
    ((location,),) = [row[1:2] for row in sql("DESCRIBE EXTENDED orders") if row[0] == "Location"]
    spark.range(1).coalesce(1).write.parquet(f"{location}/data/forgotten")
    (name,) = spark.read.parquet(f"{location}/data/forgotten").select("_metadata.file_name").first()
    forgotten = f"{location}/data/forgotten/{name}"

    # The procedure skips files of the last day. Therefore pass a file list with old times.
    in_use = "SELECT file_path FROM @orders.files UNION ALL SELECT file FROM @orders.metadata_log_entries"
    sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW listing AS SELECT file_path, TIMESTAMP '2020-01-01 00:00:00' AS last_modified
        FROM ({in_use} UNION ALL SELECT '{forgotten}')"""
    )
    try:
        removed = call("remove_orphan_files", table=ORDERS, file_list_view="'listing'")
    finally:
        spark.catalog.dropTempView("listing")
    assert removed == [(forgotten,)]
    assert ids() == [1, 2, 3]


def test_files_of_another_table_are_added(call, spark, sql, ids, tmp_path):
    spark.range(0, 4).coalesce(1).write.parquet(str(tmp_path / "plain"))
    sql("CREATE TABLE orders (id BIGINT)")
    call("add_files", table=ORDERS, source_table=f"'`parquet`.`{tmp_path}/plain`'")
    assert ids() == [0, 1, 2, 3]


def test_a_dropped_table_registers_again(call, sql, ids, orders):
    ((metadata,),) = sql("SELECT file FROM @orders.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    sql("DROP TABLE orders")
    call("register_table", table="'restored'", metadata_file=f"'{metadata}'")
    assert ids("restored") == [1, 2, 3]
    sql("INSERT INTO restored (id) VALUES (4)")
    assert ids("restored") == [1, 2, 3, 4]


def test_statistics_are_computed_and_attached(call, sql, orders):
    ((statistics,),) = call("compute_table_stats", table=ORDERS)
    assert statistics.endswith(".stats")


def test_partition_statistics_are_computed_and_attached(call, sql, orders):
    sql("ALTER TABLE orders ADD PARTITION FIELD bucket(4, id)")
    sql("INSERT INTO orders (id) VALUES (4)")
    ((statistics,),) = call("compute_partition_stats", table=ORDERS)
    assert "partition-stats" in statistics


def test_changes_between_snapshots_become_a_view(call, spark, sql, orders, snapshots):
    first, *_ = snapshots()
    sql("DELETE FROM orders WHERE id = 1")
    call("create_changelog_view", table=ORDERS, options=f"map('start-snapshot-id', '{first}')", changelog_view="'changes'")
    try:
        assert sql("SELECT id, _change_type FROM changes ORDER BY _change_ordinal") == [(2, "INSERT"), (3, "INSERT"), (1, "DELETE")]
    finally:
        spark.catalog.dropTempView("changes")


def test_ancestors_are_listed(call, orders, snapshots):
    assert [snapshot for snapshot, _ in call("ancestors_of", table=ORDERS)] == snapshots()[::-1]
