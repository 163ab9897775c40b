import pytest


@pytest.fixture
def refs(sql):
    return lambda: {name: (kind, snapshot) for name, kind, snapshot in sql("SELECT name, type, snapshot_id FROM @orders.refs")}


def test_branches_and_tags_are_made_replaced_and_dropped(sql, orders, snapshots, refs):
    first, second, third = snapshots()
    sql(f"ALTER TABLE orders CREATE TAG opening AS OF VERSION {first}")
    sql("ALTER TABLE orders CREATE BRANCH audit")
    assert refs() == {"main": ("BRANCH", third), "opening": ("TAG", first), "audit": ("BRANCH", third)}

    with pytest.raises(Exception, match="already exists"):
        sql("ALTER TABLE orders CREATE BRANCH audit")
    sql("ALTER TABLE orders CREATE BRANCH IF NOT EXISTS audit")
    sql(f"ALTER TABLE orders CREATE OR REPLACE BRANCH audit AS OF VERSION {second}")
    sql(f"ALTER TABLE orders REPLACE TAG opening AS OF VERSION {second}")
    assert refs() == {"main": ("BRANCH", third), "opening": ("TAG", second), "audit": ("BRANCH", second)}

    sql("ALTER TABLE orders DROP TAG opening")
    sql("ALTER TABLE orders DROP BRANCH audit")
    sql("ALTER TABLE orders DROP BRANCH IF EXISTS audit")
    assert refs() == {"main": ("BRANCH", third)}


def test_refs_keep_how_long_they_are_to_be_kept(sql, orders):
    sql("ALTER TABLE orders CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 5 SNAPSHOTS 2 DAYS")
    sql("ALTER TABLE orders CREATE TAG `end of 2026` RETAIN 365 DAYS")

    day = 24 * 60 * 60 * 1000
    assert sql(
        """SELECT name, max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms
        FROM @orders.refs WHERE name <> 'main' ORDER BY name"""
    ) == [("audit", 7 * day, 5, 2 * day), ("end of 2026", 365 * day, None, None)]


def test_a_table_without_rows_can_have_branches(sql, refs):
    sql("CREATE TABLE orders (id BIGINT)")
    sql("ALTER TABLE orders CREATE BRANCH audit")
    assert list(refs()) == ["audit"]


def test_what_is_written_to_a_branch_stays_there(sql, ids, orders):
    sql("ALTER TABLE orders CREATE BRANCH audit")
    sql("INSERT INTO @orders.branch_audit (id) VALUES (4)")
    sql("DELETE FROM @orders.branch_audit WHERE id = 1")
    sql("UPDATE @orders.branch_audit SET customer = 'grace' WHERE id = 2")
    sql("INSERT INTO orders (id) VALUES (9)")

    assert ids() == [1, 2, 3, 9]
    assert ids("@orders.branch_audit") == [2, 3, 4]
    assert sql("SELECT customer FROM orders VERSION AS OF 'audit' WHERE id = 2") == [("grace",)]


def test_a_session_writes_to_its_audit_branch(spark, sql, ids, orders):
    sql("ALTER TABLE orders SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    sql("ALTER TABLE orders CREATE BRANCH audit")
    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql("INSERT INTO orders (id) VALUES (4)")
        assert ids() == [1, 2, 3, 4]
    finally:
        spark.conf.unset("spark.wap.branch")
    assert ids() == [1, 2, 3]

    sql("CALL shop.system.fast_forward('orders', 'main', 'audit')")
    assert ids() == [1, 2, 3, 4]
