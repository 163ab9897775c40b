"""Tokens of a real Keycloak: their privileges, and the server's behavior during key rotations and
outages."""

import base64
import json
import time
import uuid

from processes import Repeatedly
from web import request


def part(token, index):
    text = token.split(".")[index]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def whoami(slateberg, token):
    return request("GET", f"{slateberg.uri}/management/v1/whoami", token=token)


def status(slateberg, token):
    return request("GET", f"{slateberg.uri}/v1/config", token=token).status


def create_namespace(slateberg, token):
    body = {"namespace": [f"n{uuid.uuid4().hex}"]}
    return request("POST", f"{slateberg.uri}/v1/namespaces", token=token, json_body=body)


def test_token_of_a_program_is_accepted_with_its_roles_and_groups(keycloak, slateberg):
    token = keycloak.token("etl")
    who = whoami(slateberg, token).expect(200)
    assert who["id"] == f"keycloak/{part(token, 1)['sub']}"
    assert (who["kind"], who["method"], who["name"]) == ("user", "jwt", "service-account-etl")
    assert "writer" in who["roles"] and "admin" not in who["roles"], who
    assert who["groups"] == ["engineers"]
    create_namespace(slateberg, token).expect(200)
    # Writers cannot manage keys.
    assert request("GET", f"{slateberg.uri}/management/v1/api-keys", token=token).status == 403


def test_tokens_of_users_are_accepted_with_their_groups(keycloak, slateberg):
    who = whoami(slateberg, keycloak.token_of("alice")).expect(200)
    assert (who["name"], who["groups"]) == ("alice", ["analysts", "engineers"])
    assert "reader" in who["roles"] and "writer" not in who["roles"], who
    assert create_namespace(slateberg, keycloak.token_of("alice")).status == 403
    keys = request("GET", f"{slateberg.uri}/management/v1/api-keys", token=keycloak.token_of("grace"))
    assert [key["name"] for key in keys.expect(200)["api-keys"]] == ["bootstrap"]


def test_config_contains_the_token_endpoint_of_the_issuer(keycloak, slateberg):
    config = request("GET", f"{slateberg.uri}/v1/config", token=keycloak.token("etl")).expect(200)
    assert config["defaults"]["oauth2-server-uri"] == f"{keycloak.issuer}/protocol/openid-connect/token"


def test_key_rotation_under_load_fails_no_request(keycloak, slateberg):
    old = keycloak.token("etl")
    assert status(slateberg, old) == 200

    def with_a_fresh_token():
        token = keycloak.token("etl")
        return part(token, 0)["kid"], status(slateberg, token), status(slateberg, old)

    with Repeatedly(with_a_fresh_token, threads=3) as traffic:
        traffic.wait_for(10)
        keycloak.rotate(priority=200)
        traffic.wait_for(20)
    assert not traffic.failures
    kids = {kid for kid, _, _ in traffic.results}
    assert len(kids) == 2, "tokens were signed with the old key, and with the new one"
    refused = [seen for seen in traffic.results if seen[1:] != (200, 200)]
    assert not refused, f"{len(refused)} of {len(traffic.results)}: {refused[:3]}"


def test_tokens_with_cached_keys_are_accepted_while_the_issuer_is_unavailable(keycloak, slateberg):
    known, unseen = keycloak.token("etl"), keycloak.token("etl")
    assert status(slateberg, known) == 200
    keycloak.rotate(priority=300)
    unknown = keycloak.token("etl")
    assert part(unknown, 0)["kid"] != part(known, 0)["kid"]
    keycloak.stop()
    try:
        for _ in range(5):
            assert status(slateberg, known) == 200
            assert status(slateberg, unknown) == 401
        # The server has cached the key, so it also accepts a token that it has not seen before.
        create_namespace(slateberg, unseen).expect(200)
    finally:
        keycloak.start()
    deadline = time.monotonic() + 60
    while status(slateberg, unknown) != 200:
        assert time.monotonic() < deadline, slateberg.said()
        time.sleep(0.2)


def test_tokens_for_another_audience_or_realm_are_rejected(keycloak, slateberg):
    token = keycloak.token("elsewhere")
    assert "another-service" in part(token, 1)["aud"]
    assert status(slateberg, token) == 401
    # The server also rejects tokens of another realm of this Keycloak, whatever their claims.
    assert status(slateberg, keycloak.token_of_its_admin()) == 401


def test_disabled_client_is_rejected_after_its_token_has_expired(keycloak, slateberg):
    token = keycloak.token("brief")
    assert status(slateberg, token) == 200
    keycloak.disable("brief")
    assert keycloak.refuses("brief")
    expires = part(token, 1)["exp"]
    while time.time() < expires + 0.5:
        time.sleep(0.1)
    assert status(slateberg, token) == 401


def test_tampered_token_is_rejected(keycloak, slateberg):
    token = keycloak.token("etl")
    header, payload, signature = token.split(".")
    claims = part(token, 1)
    claims["realm_access"] = {"roles": ["admin"]}
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    assert status(slateberg, f"{header}.{forged}.{signature}") == 401
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    assert status(slateberg, f"{none}.{forged}.") == 401
    assert status(slateberg, token) == 200
