"""Servers for the tests. Keycloak starts once, because its start takes longer than all tests."""

import pytest
from keycloak import Keycloak
from processes import Slateberg

SETTINGS = """
[authn]
clock_leeway_seconds = 0
issuer_refetch_pause_seconds = 1
failures_before_delay = 1000

[authn.issuers.keycloak]
issuer = "{issuer}"
audiences = ["slateberg"]
roles_claim = "realm_access.roles"
"""


@pytest.fixture(scope="session")
def keycloak(tmp_path_factory):
    keycloak = Keycloak(tmp_path_factory.mktemp("keycloak"))
    yield keycloak
    keycloak.stop()


@pytest.fixture
def slateberg(keycloak, tmp_path):
    """A slateberg whose only setting is the URL of the issuer. It gets everything else by discovery."""
    slateberg = Slateberg(tmp_path, SETTINGS.format(issuer=keycloak.issuer))
    yield slateberg
    slateberg.stop()
