"""Iceberg's Java library reads a table through a view that policies name. Spark 4.1 does not send the views by itself."""

import pytest
from py4j.protocol import Py4JJavaError

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


@pytest.fixture
def tables(secured_server, unique):
    """A namespace with a table, and one with a view that readers may load."""
    hidden, shown = unique("hidden"), unique("shown")

    def send(path, body):
        secured_server.send("POST", f"v1/{path}", body)

    for namespace in (hidden, shown):
        send("namespaces", {"namespace": [namespace]})
    send(f"namespaces/{hidden}/tables", {"name": "orders", "schema": SCHEMA})
    query = {"type": "sql", "sql": f"SELECT * FROM {hidden}.orders", "dialect": "spark"}
    version = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": [hidden]}
    version["representations"] = [query]
    send(f"namespaces/{shown}/views", {"name": "eu, 1", "schema": SCHEMA, "properties": {}, "view-version": version})
    role = unique("analyst")
    for text in (
        f'@id("{role}-config") permit (principal in Role::"{role}", action == Action::"ReadConfig", resource);',
        f'@id("{role}-views") permit (principal in Role::"{role}", action in [Action::"Browse", Action::"Load"], '
        f'resource in Namespace::"default/{shown}");',
        f'@id("{role}-table") permit (principal in Role::"{role}", action == Action::"Load", '
        f'resource == Table::"default/{hidden}/orders") '
        f'when {{ context has referenced_by && context.referenced_by.contains(View::"default/{shown}/eu, 1") }};',
    ):
        secured_server.manage("POST", "policies", {"text": text})
    key = secured_server.manage("POST", "api-keys", {"name": role, "roles": [role]})
    return hidden, shown, key


def test_table_is_loaded_through_a_view_only(spark, secured_server, tables):
    hidden, shown, key = tables
    jvm = spark._jvm
    catalog = jvm.org.apache.iceberg.rest.RESTSessionCatalog()
    catalog.initialize("reader", {"uri": secured_server.uri, "token": key["key"]})
    try:
        session = jvm.org.apache.iceberg.catalog.SessionCatalog.SessionContext.createEmpty()
        named = jvm.org.apache.iceberg.catalog.TableIdentifier.of
        levels = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)
        levels[0] = shown
        view = named(jvm.org.apache.iceberg.catalog.Namespace.of(levels), "eu, 1")
        orders = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{hidden}.orders")
        with pytest.raises(Py4JJavaError, match="NoSuchTableException"):
            catalog.loadTable(session, orders)
        through = jvm.org.apache.iceberg.catalog.LoadContext.builder().referencedBy([view]).build()
        assert catalog.loadTable(session, orders, through).schema().columns().size() == 1
    finally:
        catalog.close()
