import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from shop import ORDERS


@pytest.fixture(scope="session")
def catalog(server):
    with load_catalog("slateberg", type="rest", uri=server.uri) as catalog:
        yield catalog


@pytest.fixture
def new_client(server):
    """Further clients of the same server, which share no cache."""
    clients = []

    def connect(**properties):
        clients.append(load_catalog("slateberg", type="rest", uri=server.uri, **properties))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def namespace(catalog, unique):
    name = unique("shop")
    catalog.create_namespace(name)
    yield name
    drop_with_contents(catalog, (name,))


@pytest.fixture
def new_table(catalog, namespace):
    """Creates tables in the test's namespace, with the schema of orders by default."""

    def create(name="orders", schema=ORDERS, **options):
        return catalog.create_table((namespace, name), schema, **options)

    return create


@pytest.fixture
def orders_table(new_table):
    return new_table()


def drop_with_contents(catalog, namespace):
    for child in children(catalog, namespace):
        drop_with_contents(catalog, child)
    for table in catalog.list_tables(namespace):
        catalog.drop_table(table)
    for view in catalog.list_views(namespace):
        catalog.drop_view(view)
    catalog.drop_namespace(namespace)


def children(catalog, namespace):
    try:
        return catalog.list_namespaces(namespace)
    except NoSuchNamespaceError:
        # PyIceberg 0.12 encodes the parent's name twice, so the server cannot find names that need
        # encoding.
        return []
