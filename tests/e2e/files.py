"""Slateberg on MinIO with two warehouses (one vends credentials, one signs) and API keys."""

import json
import urllib.request

from minio import BUCKET, PASSWORD, USER, Minio
from processes import Slateberg
from web import _answer, _opener, request

SETTINGS = """
default_warehouse = "vended"

[warehouses.vended]
location = "s3://{bucket}/vended"
options = {{ {options} }}
access = {{ delegation = ["vended-credentials"], sts_endpoint = "{uri}", credentials_seconds = 900 }}

[warehouses.signed]
location = "s3://{bucket}/signed"
options = {{ {options} }}
access = {{ delegation = ["remote-signing"], sts_endpoint = "{uri}" }}

# Without credentials for single tables.
[warehouses.trusting]
location = "s3://{bucket}/trusting"
options = {{ {options} }}
access = {{ delegation = ["remote-signing"] }}
"""
OPTIONS = {
    "aws_endpoint": "{uri}",
    "aws_allow_http": "true",
    "aws_region": "us-east-1",
    "aws_access_key_id": USER,
    "aws_secret_access_key": PASSWORD,
}


class Scene:
    """A catalog and its store. Clients only get the catalog's URI and a credential."""

    def __init__(self, directory, more_settings=""):
        self.minio = Minio(directory)
        options = ", ".join(f'{key} = "{value}"' for key, value in OPTIONS.items()).format(uri=self.minio.uri)
        settings = SETTINGS.format(bucket=BUCKET, options=options, uri=self.minio.uri)
        self.slateberg = Slateberg(directory, settings + more_settings)
        self.uri = self.slateberg.uri
        self._keys = {}

    def key(self, role):
        """An API key with this role, as id and secret."""
        if role not in self._keys:
            body = {"name": role, "roles": [role]}
            url = f"{self.uri}/management/v1/api-keys"
            self._keys[role] = request("POST", url, token=self.slateberg.admin_key, json_body=body).expect(201)
        return self._keys[role]

    def ask(self, method, path, *, role="writer", ways=None, body=None):
        """Sends a request to the catalog, optionally with these access-delegation modes."""
        headers = {"Authorization": f"Bearer {self.key(role)['key']}"}
        if ways:
            headers["X-Iceberg-Access-Delegation"] = ways
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        message = urllib.request.Request(f"{self.uri}{path}", method=method, data=data, headers=headers)
        try:
            with _opener.open(message, timeout=30) as response:
                return _answer(response)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error)

    def stop(self):
        self.slateberg.stop()
        self.minio.stop()
