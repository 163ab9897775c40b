"""Trino, configured with only slateberg's URI and the id and secret of an API key."""

import pytest
from processes import Slateberg
from trino import RefusedStatement, Trino
from web import request

# Tokens expire during the tests, so Trino must renew them.
SETTINGS = """
[authn]
own_token_lifetime_seconds = 5
"""


def api_key(slateberg, name, role):
    body = {"name": name, "roles": [role]}
    answer = request(
        "POST", f"{slateberg.uri}/management/v1/api-keys", token=slateberg.admin_key, json_body=body
    )
    return answer.expect(201)


def catalog(slateberg, key):
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": slateberg.uri,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.credential": f"{key['id']}:{key['key']}",
        "fs.hadoop.enabled": "true",
    }


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Trino with two catalogs on the same warehouse: `lake` can write, `window` can only read."""
    directory = tmp_path_factory.mktemp("trino")
    slateberg = Slateberg(directory, SETTINGS)
    keys = {name: api_key(slateberg, name, role) for name, role in [("lake", "writer"), ("window", "reader")]}
    trino = Trino(directory, {name: catalog(slateberg, key) for name, key in keys.items()})
    yield trino
    trino.stop()
    slateberg.stop()


def test_trino_creates_writes_changes_and_reads_tables(scene):
    scene.run("CREATE SCHEMA lake.sales")
    scene.run("CREATE TABLE lake.sales.orders (id bigint, region varchar) WITH (partitioning = ARRAY['region'])")
    scene.run("INSERT INTO lake.sales.orders VALUES (1, 'eu'), (2, 'us'), (3, 'eu')")
    scene.run("UPDATE lake.sales.orders SET region = 'ch' WHERE id = 3")
    scene.run("DELETE FROM lake.sales.orders WHERE id = 2")
    scene.run("ALTER TABLE lake.sales.orders ADD COLUMN total double")
    rows = scene.run("SELECT id, region, total FROM window.sales.orders ORDER BY id")
    assert rows == [["1", "eu", ""], ["3", "ch", ""]]
    snapshots = scene.run('SELECT count(*) FROM lake.sales."orders$snapshots"')
    # Trino creates a table with an empty snapshot. Three changes follow.
    assert snapshots == [["4"]]
    scene.run("ALTER TABLE lake.sales.orders RENAME TO lake.sales.bookings")
    assert scene.run("SHOW TABLES FROM window.sales") == [["bookings"]]


def test_trino_creates_and_reads_views(scene):
    scene.run("CREATE SCHEMA lake.marts")
    scene.run("CREATE VIEW lake.marts.answer AS SELECT 42 AS number")
    assert scene.run("SELECT number FROM window.marts.answer") == [["42"]]
    scene.run("DROP VIEW lake.marts.answer")
    assert scene.run("SHOW TABLES FROM lake.marts") == []


def test_reader_cannot_change_tables_with_trino(scene):
    scene.run("CREATE SCHEMA lake.kept")
    scene.run("CREATE TABLE lake.kept.t AS SELECT 1 AS id")
    for statement in [
        "CREATE SCHEMA window.mine",
        "INSERT INTO window.kept.t VALUES 2",
        "DROP TABLE window.kept.t",
        "CREATE TABLE window.kept.u (id bigint)",
    ]:
        with pytest.raises(RefusedStatement, match="Forbidden: Not allowed|Failed to (create|drop)"):
            scene.run(statement)
    assert ["mine"] not in scene.run("SHOW SCHEMAS FROM lake")
    assert scene.run("SHOW TABLES FROM lake.kept") == [["t"]]
    assert scene.run("SELECT id FROM lake.kept.t") == [["1"]]
