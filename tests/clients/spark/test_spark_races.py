"""Concurrent statements: the Java client retries where possible, and reports other conflicts."""

from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def at_once(spark):
    """Runs the statements concurrently. Returns the exception of each, or None."""

    def outcome(statement):
        try:
            spark.sql(statement).collect()
        except Exception as error:
            return error
        return None

    def run(statements):
        with ThreadPoolExecutor(len(statements)) as pool:
            return list(pool.map(outcome, statements))

    return run


def test_inserts_all_arrive(sql, ids, at_once):
    sql("CREATE TABLE orders (id BIGINT) TBLPROPERTIES ('commit.retry.num-retries' = '20', 'commit.retry.min-wait-ms' = '20')")
    assert at_once([f"INSERT INTO orders VALUES ({i})" for i in range(6)]) == [None] * 6
    assert ids() == list(range(6))
    assert sql("SELECT count(*), count(DISTINCT parent_id) FROM @orders.snapshots") == [(6, 5)]


@pytest.mark.parametrize("version", [2, 3])
def test_inserts_succeed_without_retries_if_the_table_rebases_them(sql, ids, at_once, version):
    sql(
        f"CREATE TABLE orders (id BIGINT) TBLPROPERTIES ('format-version' = '{version}', "
        "'commit.retry.num-retries' = '0', 'slateberg.append-rebase' = 'all')"
    )
    assert at_once([f"INSERT INTO orders VALUES ({i})" for i in range(8)]) == [None] * 8
    assert ids() == list(range(8))
    assert sql("SELECT count(*), count(DISTINCT parent_id) FROM @orders.snapshots") == [(8, 7)]
    assert sql("SELECT count(DISTINCT path) FROM @orders.manifests") == [(8,)]
    if version == 3:
        # Row ids are unique, and each row has the sequence number of its commit.
        assert sql("SELECT _row_id FROM orders ORDER BY _row_id") == [(i,) for i in range(8)]
        numbers = sql("SELECT _last_updated_sequence_number FROM orders ORDER BY 1")
        assert numbers == [(i,) for i in range(1, 9)]


@pytest.mark.parametrize("version", [2, 3])
def test_inserts_that_merge_manifests_succeed_without_retries(sql, ids, at_once, version):
    sql(
        f"CREATE TABLE orders (id BIGINT) TBLPROPERTIES ('format-version' = '{version}', "
        "'commit.retry.num-retries' = '0', 'slateberg.append-rebase' = 'all', "
        "'commit.manifest.min-count-to-merge' = '3')"
    )
    for first in (0, 8, 16):
        assert at_once([f"INSERT INTO orders VALUES ({i})" for i in range(first, first + 8)]) == [None] * 8
    assert ids() == list(range(24))
    assert sql("SELECT count(*), count(DISTINCT parent_id) FROM @orders.snapshots") == [(24, 23)]
    ((manifests,),) = sql("SELECT count(*) FROM @orders.manifests")
    assert manifests < 24
    if version == 3:
        assert sql("SELECT count(DISTINCT _row_id) FROM orders") == [(24,)]
        numbers = sql("SELECT _last_updated_sequence_number FROM orders ORDER BY 1")
        assert numbers == [(i,) for i in range(1, 25)]


@pytest.mark.parametrize("version", [2, 3])
def test_compaction_succeeds_without_retries_while_others_insert(sql, ids, at_once, namespace, version):
    sql(
        f"CREATE TABLE orders (id BIGINT) TBLPROPERTIES ('format-version' = '{version}', "
        "'commit.retry.num-retries' = '0', 'slateberg.append-rebase' = 'all')"
    )
    for i in range(6):
        sql(f"INSERT INTO orders VALUES ({i})")
    compact = (
        f"CALL shop.system.rewrite_data_files(table => '{namespace}.orders', options => map('min-input-files', '2'))"
    )
    inserts = [f"INSERT INTO orders VALUES ({i})" for i in range(6, 14)]
    assert at_once([*inserts, compact]) == [None] * 9
    assert ids() == list(range(14))
    operations = "SELECT count(*) FROM @orders.snapshots WHERE operation = 'replace'"
    assert sql(operations) == [(1,)]
    if version == 3:
        assert sql("SELECT count(DISTINCT _row_id) FROM orders") == [(14,)]


def test_compaction_that_applies_deletion_vectors_succeeds_without_retries(sql, ids, at_once, namespace):
    sql(
        "CREATE TABLE orders (id BIGINT) TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
        "'commit.retry.num-retries' = '0', 'slateberg.append-rebase' = 'all')"
    )
    for first in (0, 10):
        sql(f"INSERT INTO orders SELECT /*+ COALESCE(1) */ id FROM range({first}, {first + 10})")
    sql("DELETE FROM orders WHERE id IN (3, 13)")
    assert sql("SELECT count(*) FROM @orders.delete_files") == [(2,)]
    compact = (
        f"CALL shop.system.rewrite_data_files(table => '{namespace}.orders', options => map('min-input-files', '2'))"
    )
    inserts = [f"INSERT INTO orders VALUES ({i})" for i in range(20, 26)]
    assert at_once([*inserts, compact]) == [None] * 7
    assert ids() == [i for i in range(26) if i not in (3, 13)]
    assert sql("SELECT count(*) FROM @orders.delete_files") == [(0,)]
    assert sql("SELECT count(DISTINCT _row_id) FROM orders") == [(24,)]


def test_of_overlapping_updates_none_is_lost(sql, at_once):
    sql("CREATE TABLE counters TBLPROPERTIES ('commit.retry.num-retries' = '20') AS SELECT 0 AS n")
    outcomes = at_once(["UPDATE counters SET n = n + 1"] * 3)

    ((n,),) = sql("SELECT n FROM counters")
    assert n == outcomes.count(None) >= 1
    assert all("conflicting" in str(error) or "missing" in str(error).lower() for error in outcomes if error)


def test_of_many_creating_one_table_one_does(sql, at_once):
    outcomes = at_once([f"CREATE TABLE orders AS SELECT {i} AS id" for i in range(3)])
    assert outcomes.count(None) == 1
    assert sql("SELECT id FROM orders") == [(outcomes.index(None),)]


def test_columns_and_rows_are_added_together(sql, at_once):
    sql("CREATE TABLE orders (id BIGINT)")
    assert at_once(["INSERT INTO orders VALUES (1)", "ALTER TABLE orders SET TBLPROPERTIES (team = 'ada')"]) == [None, None]
    assert sql("SELECT id FROM orders") == [(1,)]
    assert ("team", "ada") in sql("SHOW TBLPROPERTIES orders")
