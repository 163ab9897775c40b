"""Catalogs with other settings on the same server."""

import pytest


def test_a_catalog_that_loads_few_snapshots_finds_the_others_when_asked(sql, ids, namespace, orders, snapshots):
    first, *_ = snapshots()
    frugal = f"frugal.{namespace}.orders"

    assert ids(frugal) == [1, 2, 3]
    assert ids(f"{frugal} VERSION AS OF {first}") == [1]
    assert sql(f"SELECT count(*) FROM {frugal}.snapshots") == [(3,)]
    sql(f"INSERT INTO {frugal} (id) VALUES (4)")
    assert ids() == [1, 2, 3, 4]
    assert len(snapshots()) == 4


def test_a_catalog_that_pages_lists_everything_once(sql, namespace):
    for i in range(5):
        sql(f"CREATE TABLE t{i} (id BIGINT)")
        sql(f"CREATE NAMESPACE {namespace}.n{i}")
        sql(f"CREATE VIEW v{i} AS SELECT {i} AS id")

    assert sorted(name for _, name, _ in sql(f"SHOW TABLES IN frugal.{namespace}")) == [f"t{i}" for i in range(5)]
    assert sorted(name for _, name, _ in sql(f"SHOW VIEWS IN frugal.{namespace}")) == [f"v{i}" for i in range(5)]
    assert sorted(sql(f"SHOW NAMESPACES IN frugal.{namespace}")) == [(f"{namespace}.n{i}",) for i in range(5)]


def test_a_catalog_may_leave_purging_to_the_server(sql, namespace, orders):
    sql(f"DROP TABLE frugal.{namespace}.orders PURGE")
    assert sql("SHOW TABLES") == []


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("true", [1, 2, 3]),
        ("id = 2", [2]),
        ("amount > 10 AND customer = 'ada'", [2, 3]),
        ("id IN (1, 3)", [1, 3]),
        ("customer IS NULL", []),
        ("customer LIKE 'ad%' AND NOT id = 1", [2, 3]),
        ("placed_at < TIMESTAMP '2026-01-02 00:00:00'", [1]),
    ],
)
def test_scans_that_the_server_plans_find_the_same_rows(plans_scans, ids, namespace, orders, condition, found):
    assert ids(f"planned.{namespace}.orders WHERE {condition}") == found


@pytest.mark.parametrize("version", [2, 3])
def test_scans_that_the_server_plans_leave_deleted_rows_out(plans_scans, sql, ids, namespace, version):
    sql(
        f"""CREATE TABLE orders PARTITIONED BY (region) TBLPROPERTIES (
        'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')
        AS SELECT id, if(id < 5, 'north', 'south') AS region FROM range(0, 10, 1, 1)"""
    )
    sql("DELETE FROM orders WHERE id IN (2, 7)")

    planned = f"planned.{namespace}.orders"
    assert ids(planned) == [0, 1, 3, 4, 5, 6, 8, 9]
    assert ids(f"{planned} WHERE region = 'south'") == [5, 6, 8, 9]
