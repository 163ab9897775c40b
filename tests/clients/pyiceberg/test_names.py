"""Names that must be encoded in requests, and that the server returns unchanged."""

import pytest
from pyiceberg.exceptions import NoSuchTableError
from shop import ORDERS, big_orders_query, ids, orders

NAMES = [
    "two words",
    "dotted.name",
    "a/b",
    "../up",
    "back\\slash",
    "percent%20sign",
    "100%",
    "plus+plus",
    "question?mark",
    "hash#tag",
    "amp&equals=",
    "semi;colon:comma,",
    "quote'\"`",
    "[brackets]{braces}",
    "~tilde!*()@$",
    "UPPER and lower",
    "straße",
    "東京 注文",
    "🦀",
    "e\u0301 is not \u00e9",
    "x" * 200,
]


@pytest.mark.parametrize("odd", NAMES)
def test_tables_may_have_odd_names(catalog, namespace, odd):
    identifier = (namespace, odd)
    made = catalog.create_table(identifier, ORDERS)

    assert catalog.list_tables(namespace) == [identifier]
    assert catalog.table_exists(identifier)
    loaded = catalog.load_table(identifier)
    assert loaded.metadata.table_uuid == made.metadata.table_uuid
    with loaded.transaction() as transaction:
        transaction.set_properties(owner=odd)
    assert catalog.load_table(identifier).properties["owner"] == odd

    catalog.rename_table(identifier, (namespace, f"{odd} again"))
    assert catalog.list_tables(namespace) == [(namespace, f"{odd} again")]
    assert not catalog.table_exists(identifier)
    catalog.rename_table((namespace, f"{odd} again"), identifier)
    catalog.drop_table(identifier)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(identifier)


@pytest.mark.parametrize("odd", NAMES)
def test_namespaces_may_have_odd_names(catalog, namespace, odd):
    top, nested = f"{namespace} {odd}", (namespace, odd)
    # A tuple, because PyIceberg splits plain strings at dots.
    catalog.create_namespace((top,), {"owner": odd})
    catalog.create_namespace(nested)
    try:
        assert (top,) in catalog.list_namespaces()
        assert catalog.list_namespaces(namespace) == [nested]
        for name in ((top,), nested):
            assert catalog.namespace_exists(name)
            catalog.update_namespace_properties(name, updates={"tier": odd})
            assert catalog.load_namespace_properties(name)["tier"] == odd
            catalog.create_table((*name, "orders"), ORDERS)
            assert catalog.list_tables(name) == [(*name, "orders")]
            assert catalog.load_table((*name, "orders")).schema() == ORDERS
            catalog.drop_table((*name, "orders"))
    finally:
        catalog.drop_namespace((top,))
    assert not catalog.namespace_exists((top,))
    assert catalog.namespace_exists(nested)


def test_a_dot_in_a_name_is_not_a_level(catalog, namespace):
    catalog.create_namespace((namespace, "a"))
    catalog.create_namespace((namespace, "a", "b"))
    catalog.create_namespace((namespace, "a.b"))
    catalog.create_table((namespace, "a", "b", "orders"), ORDERS, properties={"where": "nested"})
    catalog.create_table((namespace, "a.b", "orders"), ORDERS, properties={"where": "dotted"})

    assert sorted(catalog.list_namespaces(namespace)) == [(namespace, "a"), (namespace, "a.b")]
    assert catalog.load_table((namespace, "a", "b", "orders")).properties["where"] == "nested"
    assert catalog.load_table((namespace, "a.b", "orders")).properties["where"] == "dotted"


def test_names_that_differ_in_case_are_different(catalog, namespace):
    catalog.create_table((namespace, "orders"), ORDERS)
    catalog.create_table((namespace, "ORDERS"), ORDERS)
    catalog.drop_table((namespace, "orders"))
    assert catalog.list_tables(namespace) == [(namespace, "ORDERS")]


@pytest.mark.parametrize("odd", ["two words", "dotted.name", "straße 東京"])
def test_rows_live_under_odd_names(catalog, namespace, odd):
    catalog.create_namespace((namespace, odd))
    table = catalog.create_table((namespace, odd, odd), ORDERS)
    table.append(orders(1))
    assert ids(catalog.load_table((namespace, odd, odd))) == [1]
    catalog.drop_table(table.name())
    catalog.drop_namespace((namespace, odd))


@pytest.mark.parametrize("odd", ["two words", "dotted.name", "a/b", "straße"])
def test_views_live_in_oddly_named_namespaces(catalog, namespace, odd):
    # The view's own name is plain, because PyIceberg 0.12 percent-encodes it in the request's body.
    catalog.create_namespace((namespace, odd))
    catalog.create_view((namespace, odd, "big_orders"), ORDERS, big_orders_query(namespace))

    assert catalog.list_views((namespace, odd)) == [(namespace, odd, "big_orders")]
    assert catalog.view_exists((namespace, odd, "big_orders"))
    catalog.drop_view((namespace, odd, "big_orders"))
    catalog.drop_namespace((namespace, odd))
