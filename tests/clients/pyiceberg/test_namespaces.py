import pytest
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    RESTError,
)
from shop import BIG_ORDERS, ORDERS, big_orders_query


def test_a_new_namespace_is_there_and_keeps_its_properties(catalog, namespace, unique):
    name = unique("owned")
    catalog.create_namespace(name, {"owner": "ada", "comment": "straße 7, 東京"})

    assert catalog.namespace_exists(name)
    assert (name,) in catalog.list_namespaces()
    properties = catalog.load_namespace_properties(name)
    assert (properties["owner"], properties["comment"]) == ("ada", "straße 7, 東京")

    catalog.drop_namespace(name)
    assert not catalog.namespace_exists(name)
    assert (name,) not in catalog.list_namespaces()


def test_a_namespace_is_created_once(catalog, namespace):
    with pytest.raises(NamespaceAlreadyExistsError, match="already exists"):
        catalog.create_namespace(namespace)
    catalog.create_namespace_if_not_exists(namespace)


def test_listing_goes_one_level_down(catalog, namespace):
    catalog.create_namespace((namespace, "north"))
    catalog.create_namespace((namespace, "north", "oslo"))
    catalog.create_namespace((namespace, "south"))

    assert sorted(catalog.list_namespaces(namespace)) == [(namespace, "north"), (namespace, "south")]
    assert catalog.list_namespaces((namespace, "north")) == [(namespace, "north", "oslo")]
    assert catalog.list_namespaces((namespace, "north", "oslo")) == []
    assert all(len(listed) == 1 for listed in catalog.list_namespaces())


def test_tables_live_in_nested_namespaces(catalog, namespace):
    nested = (namespace, "north", "oslo")
    catalog.create_namespace((namespace, "north"))
    catalog.create_namespace(nested)
    catalog.create_table((*nested, "orders"), ORDERS)

    assert catalog.list_tables(nested) == [(*nested, "orders")]
    assert catalog.list_tables((namespace, "north")) == []
    assert catalog.load_table((*nested, "orders")).name() == (*nested, "orders")


def test_properties_are_set_replaced_and_removed(catalog, namespace):
    catalog.update_namespace_properties(namespace, updates={"owner": "ada", "tier": "gold"})
    summary = catalog.update_namespace_properties(
        namespace, removals={"tier", "never-set"}, updates={"owner": "grace", "budget": "12"}
    )

    assert (sorted(summary.updated), summary.removed, summary.missing) == (["budget", "owner"], ["tier"], ["never-set"])
    properties = catalog.load_namespace_properties(namespace)
    assert (properties["owner"], properties["budget"]) == ("grace", "12")
    assert "tier" not in properties


def test_a_property_is_not_both_set_and_removed(catalog, namespace):
    with pytest.raises(RESTError, match="UnprocessableEntityException"):
        catalog.update_namespace_properties(namespace, removals={"owner"}, updates={"owner": "ada"})
    assert "owner" not in catalog.load_namespace_properties(namespace)


@pytest.mark.parametrize("content", ["table", "view", "namespace"])
def test_a_namespace_with_content_is_not_dropped(catalog, namespace, content):
    match content:
        case "table":
            catalog.create_table((namespace, "orders"), ORDERS)
        case "view":
            catalog.create_view((namespace, "big_orders"), BIG_ORDERS, big_orders_query(namespace))
        case "namespace":
            catalog.create_namespace((namespace, "north"))

    with pytest.raises(NamespaceNotEmptyError, match="is not empty"):
        catalog.drop_namespace(namespace)
    assert catalog.namespace_exists(namespace)


def test_a_missing_namespace_is_reported_as_missing(catalog, unique):
    missing = unique("missing")

    assert not catalog.namespace_exists(missing)
    for use in (
        catalog.load_namespace_properties,
        catalog.list_tables,
        catalog.list_views,
        catalog.list_namespaces,
        catalog.drop_namespace,
        lambda name: catalog.update_namespace_properties(name, updates={"owner": "ada"}),
        lambda name: catalog.create_table((name, "orders"), ORDERS),
    ):
        with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist|NoSuchNamespace"):
            use(missing)


def test_a_client_that_pages_sees_everything_once(catalog, new_client, namespace):
    paging = new_client(**{"rest-page-size": "2"})
    names = [f"n{i}" for i in range(5)]
    for name in names:
        catalog.create_namespace((namespace, name))
        catalog.create_table((namespace, name), ORDERS)
        catalog.create_view((namespace, f"v{name}"), BIG_ORDERS, big_orders_query(namespace))

    assert sorted(paging.list_namespaces(namespace)) == [(namespace, name) for name in names]
    assert sorted(paging.list_tables(namespace)) == [(namespace, name) for name in names]
    assert sorted(paging.list_views(namespace)) == [(namespace, f"v{name}") for name in names]
