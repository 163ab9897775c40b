import pytest
from pyspark.errors import AnalysisException


@pytest.fixture
def big_orders(sql, orders):
    sql(
        """CREATE VIEW big_orders (number COMMENT 'of the order', spent) COMMENT 'from 20 up' TBLPROPERTIES (team = 'ada')
        AS SELECT id, amount FROM orders WHERE amount >= 20"""
    )
    return "big_orders"


def test_a_view_is_queried_shown_and_described(sql, namespace, big_orders):
    assert sql("SELECT number, spent FROM big_orders ORDER BY 1") == [(2, 20.0), (3, 30.0)]
    assert sql("SHOW VIEWS") == [(namespace, "big_orders", False)]
    assert [(name, kind) for name, kind, _ in sql("DESCRIBE big_orders")][:2] == [("number", "bigint"), ("spent", "double")]
    description = {name.strip(): value for name, value, _ in sql("DESCRIBE EXTENDED big_orders")}
    assert description["Comment"] == "from 20 up"
    assert "amount >= 20" in sql("SHOW CREATE TABLE big_orders")[0][0]
    assert dict(sql("SHOW TBLPROPERTIES big_orders"))["team"] == "ada"


def test_a_view_follows_its_table(sql, big_orders):
    sql("INSERT INTO orders (id, amount) VALUES (9, 99)")
    assert sql("SELECT number FROM big_orders ORDER BY 1") == [(2,), (3,), (9,)]


def test_a_view_remembers_the_namespace_it_was_made_in(sql, namespace, big_orders):
    sql(f"CREATE NAMESPACE {namespace}.elsewhere")
    sql(f"USE {namespace}.elsewhere")
    assert sql(f"SELECT count(*) FROM {namespace}.big_orders") == [(2,)]


def test_a_view_is_replaced(sql, big_orders):
    sql("CREATE OR REPLACE VIEW big_orders AS SELECT id FROM orders WHERE amount >= 30")
    assert sql("SELECT * FROM big_orders") == [(3,)]
    sql("CREATE OR REPLACE VIEW big_orders AS SELECT customer FROM orders WHERE amount >= 30")
    assert sql("SELECT * FROM big_orders") == [("ada",)]


def test_a_views_properties_change(sql, big_orders):
    sql("ALTER VIEW big_orders SET TBLPROPERTIES (tier = 'gold', team = 'grace')")
    sql("ALTER VIEW big_orders UNSET TBLPROPERTIES (tier)")
    found = dict(sql("SHOW TBLPROPERTIES big_orders"))
    assert found["team"] == "grace"
    assert "tier" not in found


def test_a_view_is_renamed_and_dropped(sql, namespace, big_orders):
    sql("ALTER VIEW big_orders RENAME TO large_orders")
    assert sql("SELECT count(*) FROM large_orders") == [(2,)]
    assert sql("SHOW VIEWS") == [(namespace, "large_orders", False)]

    sql("DROP VIEW large_orders")
    assert sql("SHOW VIEWS") == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM large_orders")
    sql("DROP VIEW IF EXISTS large_orders")


def test_views_and_tables_share_one_set_of_names(sql, big_orders):
    with pytest.raises(AnalysisException, match="already exists|ALREADY_EXISTS"):
        sql("CREATE VIEW orders AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="already exists|ALREADY_EXISTS"):
        sql("CREATE TABLE big_orders (id BIGINT)")
    with pytest.raises(AnalysisException, match="already exists|ALREADY_EXISTS"):
        sql("CREATE VIEW big_orders AS SELECT 1 AS id")
    sql("CREATE VIEW IF NOT EXISTS big_orders AS SELECT 1 AS id")
    assert sql("SELECT count(*) FROM big_orders") == [(2,)]


def test_views_stand_on_views(sql, big_orders):
    sql("CREATE VIEW biggest AS SELECT max(spent) AS most FROM big_orders")
    assert sql("SELECT most FROM biggest") == [(30.0,)]
    sql("DROP VIEW big_orders")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT most FROM biggest")


def test_common_table_expressions_and_joins_live_in_views(sql, orders):
    sql(
        """CREATE VIEW totals AS WITH paid AS (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer)
        SELECT p.customer, p.total, o.id FROM paid p JOIN orders o ON o.customer = p.customer"""
    )
    assert sql("SELECT customer, total, count(*) FROM totals GROUP BY 1, 2") == [("ada", 60.0, 3)]
