"""A token issuer whose keys the server reads from a file. tests/e2e has one over HTTP."""

import base64
import json
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISS = "https://id.example.com"
KID = "a-key"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    def __init__(self, directory):
        self._key = Ed25519PrivateKey.generate()
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._file = directory / "issuer.json"
        key = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": KID, "x": encoded(public)}
        self._file.write_text(json.dumps({"keys": [key]}))

    def settings(self):
        """Settings with which the server accepts these tokens."""
        return f"""
[authn.issuers.corporate]
issuer = "{ISS}"
jwks_file = "{self._file}"
audiences = ["slateberg"]
algorithms = ["EdDSA"]
"""

    def token(self, subject, roles, audience="slateberg"):
        header = {"alg": "EdDSA", "kid": KID, "typ": "JWT"}
        now = int(time.time())
        claims = {"iss": ISS, "aud": audience, "sub": subject, "roles": roles, "iat": now, "exp": now + 3600}
        message = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        return f"{message}.{encoded(self._key.sign(message.encode()))}"
