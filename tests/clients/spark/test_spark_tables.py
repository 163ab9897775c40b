import pytest
from pyspark.errors import AnalysisException


def columns(sql, table="orders"):
    return [(name, kind) for name, kind, _ in sql(f"DESCRIBE {table}") if name and not name.startswith("#")]


def described(sql, table="orders"):
    return {name: kind for name, kind, _ in sql(f"DESCRIBE EXTENDED {table}")}


def test_a_table_is_made_described_and_dropped(sql, namespace):
    sql(
        """CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'its number', customer STRING, placed_at TIMESTAMP)
        USING iceberg PARTITIONED BY (days(placed_at), bucket(4, id)) COMMENT 'all of them'
        TBLPROPERTIES ('write.format.default' = 'orc', team = 'ada')"""
    )

    assert columns(sql)[:3] == [("id", "bigint"), ("customer", "string"), ("placed_at", "timestamp")]
    description = described(sql)
    assert (description["Part 0"], description["Part 1"]) == ("days(placed_at)", "bucket(4, id)")
    assert description["Comment"] == "all of them"
    assert "team=ada" in description["Table Properties"]
    assert "format=iceberg/orc" in description["Table Properties"]
    assert "CREATE TABLE" in sql("SHOW CREATE TABLE orders")[0][0]
    assert sql("SHOW TABLES") == [(namespace, "orders", False)]

    sql("DROP TABLE orders")
    assert sql("SHOW TABLES") == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM orders")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("DROP TABLE orders")
    sql("DROP TABLE IF EXISTS orders")


def test_a_table_is_made_once(sql):
    sql("CREATE TABLE orders (id BIGINT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("CREATE TABLE orders (id BIGINT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("CREATE TABLE orders AS SELECT 1 AS id")
    sql("CREATE TABLE IF NOT EXISTS orders (other STRING)")
    assert columns(sql) == [("id", "bigint")]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_format_version_is_made_from_a_query(sql, ids, properties, version):
    sql(
        f"""CREATE TABLE orders PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '{version}')
        AS SELECT id, if(id < 3, 'north', 'south') AS region FROM range(5)"""
    )

    assert ids() == [0, 1, 2, 3, 4]
    assert sql("SELECT partition.region, record_count FROM @orders.partitions ORDER BY 1") == [("north", 3), ("south", 2)]
    assert properties()["format-version"] == str(version)


def test_a_table_moves_up_through_the_format_versions(sql, ids, properties):
    sql("CREATE TABLE orders TBLPROPERTIES ('format-version' = '1') AS SELECT id FROM range(1)")
    for version in (2, 3):
        sql(f"ALTER TABLE orders SET TBLPROPERTIES ('format-version' = '{version}')")
        sql(f"INSERT INTO orders VALUES ({version})")
        assert properties()["format-version"] == str(version)
    assert ids() == [0, 2, 3]
    with pytest.raises(Exception, match="Cannot downgrade v3 table to v2"):
        sql("ALTER TABLE orders SET TBLPROPERTIES ('format-version' = '2')")


def test_a_query_that_fails_leaves_no_table(sql):
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql("CREATE TABLE orders AS SELECT 1 / id AS share FROM range(2)")
    assert sql("SHOW TABLES") == []


def test_a_replaced_table_keeps_its_history(sql, ids, orders, snapshots):
    before = snapshots()

    sql("REPLACE TABLE orders PARTITIONED BY (region) AS SELECT id, 'north' AS region FROM range(2)")

    assert ids() == [0, 1]
    assert columns(sql)[:2] == [("id", "bigint"), ("region", "string")]
    assert snapshots()[:3] == before
    assert ids(f"orders VERSION AS OF {before[-1]}") == [1, 2, 3]

    sql("CREATE OR REPLACE TABLE orders (only INT)")
    assert columns(sql) == [("only", "int")]
    assert sql("SELECT * FROM orders") == []
    assert len(snapshots()) == 4


def test_a_table_is_made_or_replaced(sql, ids):
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND|not found"):
        sql("REPLACE TABLE orders AS SELECT id FROM range(2)")
    for count in (2, 3):
        sql(f"CREATE OR REPLACE TABLE orders AS SELECT id FROM range({count})")
        assert ids() == list(range(count))


def test_a_renamed_table_keeps_its_rows(sql, ids, namespace, orders):
    sql(f"CREATE NAMESPACE {namespace}.archive")
    sql("ALTER TABLE orders RENAME TO old_orders")
    assert ids("old_orders") == [1, 2, 3]

    sql(f"ALTER TABLE old_orders RENAME TO {namespace}.archive.orders")
    assert ids(f"{namespace}.archive.orders") == [1, 2, 3]
    assert sql("SHOW TABLES") == []

    sql("CREATE TABLE taken (id BIGINT)")
    sql("CREATE TABLE other (id BIGINT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS|already exists"):
        sql("ALTER TABLE other RENAME TO taken")


def test_properties_are_set_and_unset(sql, properties, orders):
    sql("ALTER TABLE orders SET TBLPROPERTIES (team = 'ada', 'commit.retry.num-retries' = '7')")
    sql("COMMENT ON TABLE orders IS 'all of them'")
    assert (properties()["team"], properties()["commit.retry.num-retries"]) == ("ada", "7")
    assert described(sql)["Comment"] == "all of them"

    sql("ALTER TABLE orders UNSET TBLPROPERTIES (team, 'never-set')")
    assert "team" not in properties()
    assert properties()["commit.retry.num-retries"] == "7"


def test_a_table_has_a_location_and_moves_to_another(sql, server, ids, unique):
    sql("CREATE TABLE first (id BIGINT)")
    chosen = server.beside(described(sql, "first")["Location"], unique("chosen"))
    sql(f"CREATE TABLE orders (id BIGINT) LOCATION '{chosen}'")
    sql("INSERT INTO orders VALUES (1)")
    assert path(described(sql)["Location"]) == path(chosen)

    sql(f"ALTER TABLE orders SET LOCATION '{chosen}-moved'")
    sql("INSERT INTO orders VALUES (2)")
    assert path(described(sql)["Location"]) == path(f"{chosen}-moved")
    assert {path(file).rpartition("/data/")[0] for (file,) in sql("SELECT file_path FROM @orders.files")} == {
        path(chosen),
        path(f"{chosen}-moved"),
    }
    assert ids() == [1, 2]


def path(location):
    """Normalizes Spark's `file:/x` and the usual `file:///x` to `/x`."""
    return "/" + location.removeprefix("file:").lstrip("/")


def test_a_purged_tables_files_are_deleted_by_spark(sql, ids, exists, orders):
    files = [file for (file,) in sql("SELECT file_path FROM @orders.files")]
    assert all(exists(file) for file in files)

    # Spark drops the table first and then reads from the metadata file which files to delete. The
    # metadata file must therefore outlive the table.
    sql("DROP TABLE orders PURGE")

    assert sql("SHOW TABLES") == []
    assert not any(exists(file) for file in files)
    sql("CREATE TABLE orders AS SELECT id FROM range(1)")
    assert ids() == [0]


def test_a_truncated_table_is_empty(sql, ids, orders, snapshots):
    sql("TRUNCATE TABLE orders")
    assert ids() == []
    assert len(snapshots()) == 4


def test_version_3_holds_what_version_2_cannot(sql):
    sql(
        """CREATE TABLE events (id BIGINT, payload VARIANT, flags ARRAY<VARIANT>)
        TBLPROPERTIES ('format-version' = '3')"""
    )
    sql("""INSERT INTO events SELECT 1, parse_json('{"cart": {"items": [3, 4]}}'), array(parse_json('7'))""")
    sql("""INSERT INTO events SELECT 2, parse_json('[true]'), NULL""")

    assert sql("SELECT id, variant_get(payload, '$.cart.items[1]', 'int'), flags[0]::INT FROM events ORDER BY id") == [
        (1, 4, 7),
        (2, None, None),
    ]
    assert ("payload", "variant") in columns(sql, "events")

    with pytest.raises(Exception, match="Invalid type for payload: variant is not supported until v3"):
        sql("CREATE TABLE too_early (payload VARIANT) TBLPROPERTIES ('format-version' = '2')")
