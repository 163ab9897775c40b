"""A real Keycloak: starts it, configures a realm, and requests tokens."""

import os

from processes import Process
from web import free_port, request

# The first start builds the installation, which takes minutes on a slow machine.
START_TIMEOUT_S = 400
REALM = "lake"
ADMIN = ("root", "root-of-the-test")


def _audience(name):
    """Adds a name to `aud`. Without it, tokens are for Keycloak only."""
    return {
        "name": f"for {name}",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"included.custom.audience": name, "access.token.claim": "true"},
    }


GROUPS = {
    "name": "groups",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-group-membership-mapper",
    "config": {"claim.name": "groups", "full.path": "false", "access.token.claim": "true"},
}


def _client(name, audience="slateberg", **more):
    return {
        "clientId": name,
        "secret": f"secret of {name}",
        "publicClient": False,
        "serviceAccountsEnabled": True,
        "standardFlowEnabled": False,
        "protocolMappers": [_audience(audience), GROUPS],
        **more,
    }


def _service_account(client, roles, groups):
    return {
        "username": f"service-account-{client}",
        "enabled": True,
        "serviceAccountClientId": client,
        "realmRoles": roles,
        "groups": groups,
    }


def _person(name, roles, groups):
    return {
        "username": name,
        "enabled": True,
        "email": f"{name}@example.com",
        "emailVerified": True,
        "firstName": name.title(),
        "lastName": "Example",
        "credentials": [{"type": "password", "value": f"password of {name}", "temporary": False}],
        "realmRoles": roles,
        "groups": groups,
    }


LAKE = {
    "realm": REALM,
    "enabled": True,
    "sslRequired": "none",
    "accessTokenLifespan": 300,
    "roles": {"realm": [{"name": name} for name in ("admin", "writer", "reader")]},
    "groups": [{"name": "engineers"}, {"name": "analysts"}],
    "clients": [
        _client("etl"),
        _client("brief", attributes={"access.token.lifespan": "5"}),
        _client("elsewhere", audience="another-service"),
        _client("shell", directAccessGrantsEnabled=True, serviceAccountsEnabled=False),
    ],
    "users": [
        _service_account("etl", ["writer"], ["/engineers"]),
        _service_account("brief", ["writer"], []),
        _service_account("elsewhere", ["admin"], []),
        _person("alice", ["reader"], ["/analysts", "/engineers"]),
        _person("grace", ["admin"], []),
    ],
}


class Keycloak:
    def __init__(self, directory):
        self._directory = directory
        self.uri = f"http://127.0.0.1:{free_port()}"
        self.issuer = f"{self.uri}/realms/{REALM}"
        self._process = None
        self.start()
        self._admin("POST", "", LAKE).expect(201)

    def start(self):
        """Starts Keycloak with the database of an earlier start."""
        database = f"jdbc:h2:file:{self._directory / 'database'};NON_KEYWORDS=VALUE"
        command = [f"{os.environ['KEYCLOAK_HOME']}/bin/kc.sh", "start-dev", "--http-host=127.0.0.1"]
        command += [f"--http-port={self.uri.rpartition(':')[2]}", f"--hostname={self.uri}", f"--db-url={database}"]
        environment = {
            "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN[0],
            "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN[1],
            "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx512m",
        }
        self._process = Process(command, self._directory / "keycloak.log", environment)
        self._process.wait_until(self._answers, START_TIMEOUT_S)

    def _answers(self):
        try:
            return request("GET", f"{self.uri}/realms/master", timeout_s=5).status == 200
        except OSError:
            return False

    def stop(self):
        self._process.stop()

    def token(self, client):
        """Requests a token for a program."""
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": f"secret of {client}"}
        return self._token(form)

    def token_of(self, person):
        """Requests a token for a person, with their password."""
        form = {
            "grant_type": "password",
            "client_id": "shell",
            "client_secret": "secret of shell",
            "username": person,
            "password": f"password of {person}",
        }
        return self._token(form)

    def token_of_its_admin(self):
        """Requests a token of another realm, with all privileges in Keycloak itself."""
        name, password = ADMIN
        form = {"grant_type": "password", "client_id": "admin-cli", "username": name, "password": password}
        return self._token(form, realm="master")

    def refuses(self, client):
        """Whether Keycloak rejects token requests of a program."""
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": f"secret of {client}"}
        return request("POST", f"{self.issuer}/protocol/openid-connect/token", form=form).status in (400, 401)

    def _token(self, form, realm=REALM):
        answer = request("POST", f"{self.uri}/realms/{realm}/protocol/openid-connect/token", form=form)
        return answer.expect(200)["access_token"]

    def disable(self, client):
        (found,) = self._admin("GET", f"/{REALM}/clients?clientId={client}").expect(200)
        self._admin("PUT", f"/{REALM}/clients/{found['id']}", {**found, "enabled": False}).expect(204)

    def rotate(self, priority):
        """Adds a key that the realm uses for signing from now on. Earlier keys remain valid."""
        realm = self._admin("GET", f"/{REALM}").expect(200)
        key = {
            "name": f"key-{priority}",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm["id"],
            "config": {
                "priority": [str(priority)],
                "enabled": ["true"],
                "active": ["true"],
                "algorithm": ["RS256"],
                "keySize": ["2048"],
            },
        }
        self._admin("POST", f"/{REALM}/components", key).expect(201)

    def _admin(self, method, path, body=None):
        return request(method, f"{self.uri}/admin/realms{path}", token=self.token_of_its_admin(), json_body=body)
