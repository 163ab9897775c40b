import pytest
from pyspark.errors import AnalysisException


def described(sql, name):
    return dict(sql(f"DESCRIBE NAMESPACE EXTENDED {name}"))


def test_a_namespace_is_created_with_properties_and_described(sql, namespace):
    sql(f"CREATE NAMESPACE {namespace}.north COMMENT 'the north' WITH PROPERTIES (team = 'ada', budget = '12')")

    description = described(sql, f"{namespace}.north")
    assert description["Comment"] == "the north"
    assert "(budget,12)" in description["Properties"]
    assert (f"{namespace}.north",) in sql(f"SHOW NAMESPACES IN {namespace}")
    assert (namespace,) in sql("SHOW NAMESPACES")


def test_a_namespace_is_created_once(sql, namespace):
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        sql(f"CREATE NAMESPACE {namespace}")
    sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")


def test_a_namespaces_properties_and_comment_change(sql, namespace):
    sql(f"ALTER NAMESPACE {namespace} SET PROPERTIES (team = 'ada', tier = 'gold')")
    sql(f"ALTER NAMESPACE {namespace} SET PROPERTIES (tier = 'silver')")
    sql(f"COMMENT ON NAMESPACE {namespace} IS 'all orders'")

    description = described(sql, namespace)
    assert description["Comment"] == "all orders"
    assert "(tier,silver)" in description["Properties"]

    sql(f"ALTER NAMESPACE {namespace} UNSET PROPERTIES (tier)")
    assert "tier" not in described(sql, namespace).get("Properties", "")


def test_namespaces_nest(sql, namespace):
    sql(f"CREATE NAMESPACE {namespace}.north")
    sql(f"CREATE NAMESPACE {namespace}.north.oslo")
    sql(f"CREATE TABLE {namespace}.north.oslo.orders AS SELECT 1 AS id")

    assert sql(f"SHOW NAMESPACES IN {namespace}") == [(f"{namespace}.north",)]
    assert sql(f"SHOW NAMESPACES IN {namespace}.north") == [(f"{namespace}.north.oslo",)]
    assert sql(f"SHOW TABLES IN {namespace}.north.oslo") == [(f"{namespace}.north.oslo", "orders", False)]
    assert sql(f"SELECT id FROM {namespace}.north.oslo.orders") == [(1,)]
    # The name of a metadata table can also be a table in a nested namespace. Spark requests that
    # first.
    assert sql(f"SELECT count(*) FROM {namespace}.north.oslo.orders.snapshots") == [(1,)]


def test_a_namespace_with_content_is_not_dropped(sql, namespace):
    sql("CREATE TABLE orders (id BIGINT)")
    with pytest.raises(Exception, match="is not empty|SCHEMA_NOT_EMPTY"):
        sql(f"DROP NAMESPACE {namespace}")
    assert (namespace,) in sql("SHOW NAMESPACES")


def test_a_dropped_namespace_is_gone(sql, namespace):
    sql(f"CREATE NAMESPACE {namespace}.north")
    sql(f"DROP NAMESPACE {namespace}.north")

    assert sql(f"SHOW NAMESPACES IN {namespace}") == []
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql(f"DROP NAMESPACE {namespace}.north")
    sql(f"DROP NAMESPACE IF EXISTS {namespace}.north")


@pytest.mark.parametrize("odd", ["two words", "a/b", "percent%20sign", "plus+plus", "question?mark", "straße 東京", "dotted.name"])
def test_names_may_be_odd(sql, namespace, odd):
    sql(f"CREATE NAMESPACE {namespace}.`{odd}`")
    sql(f"CREATE TABLE {namespace}.`{odd}`.`{odd}` (id BIGINT)")
    sql(f"ALTER TABLE {namespace}.`{odd}`.`{odd}` SET TBLPROPERTIES (team = 'ada')")

    assert [name for _, name, _ in sql(f"SHOW TABLES IN {namespace}.`{odd}`")] == [odd]
    assert ("team", "ada") in sql(f"SHOW TBLPROPERTIES {namespace}.`{odd}`.`{odd}`")
    sql(f"DROP TABLE {namespace}.`{odd}`.`{odd}`")
    sql(f"DROP NAMESPACE {namespace}.`{odd}`")
    assert sql(f"SHOW NAMESPACES IN {namespace}") == []
