"""How PyIceberg gets in: with an API key, or with a token that it gets for one."""

import json
import urllib.request

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, OAuthError, UnauthorizedError
from shop import ORDERS


def manage(server, method, path, body=None):
    request = urllib.request.Request(
        f"{server.uri}/management/v1/{path}",
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read() or "null")


@pytest.fixture
def key(secured_server):
    made = manage(secured_server, "POST", "api-keys", {"name": "pyiceberg", "roles": ["writer"]})
    yield made
    keys = manage(secured_server, "GET", "api-keys")["api-keys"]
    if any(key["id"] == made["id"] for key in keys):
        manage(secured_server, "DELETE", f"api-keys/{made['id']}")


def connect(server, **properties):
    return load_catalog("secured", type="rest", uri=server.uri, warehouse="default", **properties)


def properties(key, way):
    return {
        "token": {"token": key["key"]},
        "credential": {"credential": f"{key['id']}:{key['key']}"},
        "credential without an id": {"credential": key["key"]},
        # By itself, PyIceberg would send "Bearer None" beside it.
        "header": {"header.X-Api-Key": key["key"], "auth": {"type": "noop"}},
    }[way]


@pytest.mark.parametrize("way", ["token", "credential", "credential without an id", "header"])
def test_a_key_lets_one_work(secured_server, key, way, unique):
    with connect(secured_server, **properties(key, way)) as catalog:
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
    with pytest.raises(OAuthError, match="invalid_client"):
        connect(secured_server, credential=f"{key['id']}:nonsense")


@pytest.mark.parametrize("way", ["token", "credential"])
def test_a_revoked_key_is_good_no_more(secured_server, key, way):
    with connect(secured_server, **properties(key, way)) as catalog:
        catalog.list_namespaces()
        manage(secured_server, "DELETE", f"api-keys/{key['id']}")
        with pytest.raises((UnauthorizedError, OAuthError)):
            catalog.list_namespaces()
