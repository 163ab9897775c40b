"""The operator, the accounts and the user of a NATS server that authenticates with signed tokens, as `nsc` creates
them."""

import base64
import hashlib
import json
import os
import time

import nkeys

UNLIMITED = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"]
UNLIMITED_JETSTREAM = ["mem_storage", "disk_storage", "streams", "consumer"]


def _key_pair(prefix):
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def _encoded(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _token(issuer, subject, kind, **claims):
    body = {"iat": int(time.time()), "iss": issuer.public_key.decode(), "sub": subject.public_key.decode()}
    body |= {"name": kind, "nats": {"type": kind, "version": 2, **claims}}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).rstrip(b"=").decode()
    header = {"typ": "JWT", "alg": "ed25519-nkey"}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, body))
    return f"{signed}.{_encoded(issuer.sign(signed.encode()))}"


def _account(operator, account, unlimited):
    limits = dict.fromkeys(unlimited, -1) | {"wildcards": True}
    return _token(operator, account, "account", limits=limits)


def create(credentials):
    """Writes the credentials of a user to a file. Returns the lines of the server's configuration."""
    operator, system = _key_pair(nkeys.PREFIX_BYTE_OPERATOR), _key_pair(nkeys.PREFIX_BYTE_ACCOUNT)
    account, user = _key_pair(nkeys.PREFIX_BYTE_ACCOUNT), _key_pair(nkeys.PREFIX_BYTE_USER)
    token = _token(account, user, "user", subs=-1, data=-1, payload=-1)
    parts = [("NATS USER JWT", token), ("USER NKEY SEED", user.seed.decode())]
    credentials.write_text("".join(f"-----BEGIN {name}-----\n{text}\n------END {name}------\n\n" for name, text in parts))
    # The system account must not use JetStream.
    accounts = [(system, UNLIMITED), (account, UNLIMITED + UNLIMITED_JETSTREAM)]
    accounts = "\n".join(f"{it.public_key.decode()}: {_account(operator, it, limits)}" for it, limits in accounts)
    return [
        f"operator: {_token(operator, operator, 'operator')}",
        f"system_account: {system.public_key.decode()}",
        "resolver: MEMORY",
        f"resolver_preload: {{\n{accounts}\n}}",
    ]
