import pytest
from pyiceberg.exceptions import (
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from shop import BIG_ORDERS, big_orders_query


@pytest.fixture
def big_orders(catalog, namespace):
    version = big_orders_query(namespace, trino='SELECT "id", "customer" FROM orders WHERE amount >= 1000')
    return catalog.create_view((namespace, "big_orders"), BIG_ORDERS, version, properties={"comment": "over 1000"})


def test_a_new_view_loads_as_it_was_made(catalog, namespace, big_orders):
    view = catalog.load_view((namespace, "big_orders"))

    assert view == big_orders
    assert view.schema().as_struct() == BIG_ORDERS.as_struct()
    assert view.properties["comment"] == "over 1000"
    assert view.sql_for("spark").sql == "SELECT id, customer FROM orders WHERE amount >= 1000"
    assert view.sql_for("trino").sql == 'SELECT "id", "customer" FROM orders WHERE amount >= 1000'
    assert view.current_version().default_namespace == (namespace,)
    assert [entry.version_id for entry in view.history()] == [view.current_version().version_id]
    assert view.location()


def test_views_are_listed_apart_from_tables(catalog, namespace, big_orders, new_table):
    new_table("orders")

    assert catalog.list_views(namespace) == [(namespace, "big_orders")]
    assert catalog.list_tables(namespace) == [(namespace, "orders")]
    assert catalog.view_exists((namespace, "big_orders"))
    assert not catalog.view_exists((namespace, "orders"))
    assert not catalog.table_exists((namespace, "big_orders"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table((namespace, "big_orders"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "orders"))


def test_views_and_tables_share_one_set_of_names(catalog, namespace, big_orders, new_table):
    new_table("orders")

    with pytest.raises(ViewAlreadyExistsError, match=f"View already exists: {namespace}.big_orders"):
        catalog.create_view((namespace, "big_orders"), BIG_ORDERS, big_orders_query(namespace))
    with pytest.raises(ViewAlreadyExistsError, match=f"Table with same name already exists: {namespace}.orders"):
        catalog.create_view((namespace, "orders"), BIG_ORDERS, big_orders_query(namespace))
    with pytest.raises(TableAlreadyExistsError, match=f"View with same name already exists: {namespace}.big_orders"):
        new_table("big_orders")
    with pytest.raises(TableAlreadyExistsError, match="View already exists"):
        catalog.rename_table((namespace, "orders"), (namespace, "big_orders"))


def test_a_dropped_view_is_gone(catalog, namespace, big_orders):
    catalog.drop_view((namespace, "big_orders"))

    assert not catalog.view_exists((namespace, "big_orders"))
    assert catalog.list_views(namespace) == []
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "big_orders"))
    with pytest.raises(NoSuchViewError):
        catalog.drop_view((namespace, "big_orders"))


def test_a_view_needs_its_namespace(catalog, unique):
    missing = unique("missing")
    with pytest.raises(RESTError, match="NoSuchNamespaceException"):
        catalog.create_view((missing, "big_orders"), BIG_ORDERS, big_orders_query(missing))
    assert not catalog.view_exists((missing, "big_orders"))


def test_a_view_has_one_query_for_each_dialect(catalog, namespace):
    version = big_orders_query(namespace)
    twice = version.model_copy(update={"representations": version.representations * 2})
    with pytest.raises(RESTError, match="Cannot add multiple queries for dialect spark"):
        catalog.create_view((namespace, "big_orders"), BIG_ORDERS, twice)


def test_a_view_registers_from_its_metadata_file(catalog, namespace, big_orders, metadata_location_of_view):
    # A server may delete the files of a dropped view. Therefore register a copy.
    location = metadata_location_of_view(namespace, "big_orders")
    copy = location.replace("/metadata/", "/metadata/copy-of-")
    io = load_file_io(location=location)
    with io.new_input(location).open() as original, io.new_output(copy).create() as file:
        file.write(original.read())
    catalog.drop_view((namespace, "big_orders"))

    registered = catalog.register_view((namespace, "large_orders"), copy)

    assert registered.uuid() == big_orders.uuid()
    assert catalog.load_view((namespace, "large_orders")).sql_for("spark") == big_orders.sql_for("spark")
    with pytest.raises(ViewAlreadyExistsError):
        catalog.register_view((namespace, "large_orders"), copy)


@pytest.fixture
def metadata_location_of_view(catalog):
    """PyIceberg does not expose a view's metadata location. Therefore request it directly."""

    def ask(namespace, view):
        response = catalog._session.get(catalog.url(f"namespaces/{namespace}/views/{view}"))
        response.raise_for_status()
        return response.json()["metadata-location"]

    return ask
