"""PyIceberg's credentials: an API key, a token for an API key, or a token of an external issuer."""

import time

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, OAuthError, UnauthorizedError
from shop import ORDERS


def connect(server, **properties):
    return load_catalog("secured", type="rest", uri=server.uri, warehouse="default", **properties)


def properties(server, key, way):
    return {
        "jwt": {"token": server.issuer.token("alice", ["writer"])},
        "token": {"token": key["key"]},
        "credential": {"credential": f"{key['id']}:{key['key']}"},
        "credential without an id": {"credential": key["key"]},
        # Without `auth`, PyIceberg also sends "Bearer None".
        "header": {"header.X-Api-Key": key["key"], "auth": {"type": "noop"}},
    }[way]


@pytest.mark.parametrize("way", ["jwt", "token", "credential", "credential without an id", "header"])
def test_a_key_lets_one_work(secured_server, key, way, unique):
    with connect(secured_server, **properties(secured_server, key, way)) as catalog:
        namespace = unique("shop")
        catalog.create_namespace(namespace)
        table = catalog.create_table((namespace, "orders"), ORDERS)
        assert catalog.load_table(table.name()).schema() == table.schema()
        catalog.drop_table(table.name())
        catalog.drop_namespace(namespace)
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables(namespace)


def test_nobody_gets_in_without_one(secured_server, key):
    with pytest.raises(UnauthorizedError):
        connect(secured_server)
    with pytest.raises(UnauthorizedError):
        connect(secured_server, token="sb_nonsense")
    with pytest.raises(UnauthorizedError):
        connect(secured_server, token=secured_server.issuer.token("alice", ["writer"], audience="another-service"))
    with pytest.raises(OAuthError, match="invalid_client"):
        connect(secured_server, credential=f"{key['id']}:nonsense")


@pytest.mark.parametrize("way", ["token", "credential"])
def test_a_revoked_key_is_good_no_more(secured_server, key, way):
    with connect(secured_server, **properties(secured_server, key, way)) as catalog:
        catalog.list_namespaces()
        secured_server.manage("DELETE", f"api-keys/{key['id']}")
        with pytest.raises((UnauthorizedError, OAuthError)):
            catalog.list_namespaces()


def test_a_client_outlives_the_token_that_it_got_for_a_key(secured_server, key, unique):
    with connect(secured_server, **properties(secured_server, key, "credential")) as catalog:
        catalog.list_namespaces()
        time.sleep(secured_server.own_token_lifetime_s + 1)
        namespace = unique("shop")
        catalog.create_namespace(namespace)
        catalog.drop_namespace(namespace)
