"""The server under test, and unique names.

`SLATEBERG_URI` is the URI of a running server. Without it, the tests start the binary
`SLATEBERG_BIN` on a free port of the loopback with an empty directory, and stop it at the end.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass

import pytest
from issuer import Issuer

READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20


@dataclass(frozen=True)
class Server:
    uri: str
    warehouse: str | None = None
    # The admin key, if the server requires credentials.
    key: str | None = None
    # An external issuer whose tokens the server accepts.
    issuer: Issuer | None = None
    # Short enough that a token expires during a test.
    own_token_lifetime_s: int = 5

    def manage(self, method, path, body=None):
        """Sends a request to the management API as an admin."""
        return self.send(method, f"management/v1/{path}", body)

    def send(self, method, path, body=None):
        """Sends a request as an admin."""
        request = urllib.request.Request(
            f"{self.uri}/{path}",
            method=method,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read() or "null")

    def beside(self, table_location: str, name: str) -> str:
        """A location for a second table: in the warehouse if it is known, or else next to the first
        table."""
        parent = self.warehouse or table_location.rstrip("/").rpartition("/")[0]
        return f"{parent}/{name}"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if uri := os.environ.get("SLATEBERG_URI"):
        await_config(uri)
        yield Server(uri.rstrip("/"), os.environ.get("SLATEBERG_WAREHOUSE"))
        return

    binary = os.environ.get("SLATEBERG_BIN")
    if not binary:
        pytest.exit("set SLATEBERG_URI to a running server, or SLATEBERG_BIN to a binary to start", returncode=2)
    yield from serve(binary, tmp_path_factory.mktemp("slateberg"))


@pytest.fixture(scope="session")
def secured_server(tmp_path_factory):
    """A server that requires credentials, as servers do by default."""
    binary = os.environ.get("SLATEBERG_BIN")
    if not binary:
        pytest.skip("needs SLATEBERG_BIN: a server's admin key is told on its first start alone")
    yield from serve(binary, tmp_path_factory.mktemp("secured"), secured=True)


@pytest.fixture
def key(secured_server):
    """An API key with the writer role, as the server returned it."""
    made = secured_server.manage("POST", "api-keys", {"name": "client", "roles": ["writer"]})
    yield made
    keys = secured_server.manage("GET", "api-keys")["api-keys"]
    if any(key["id"] == made["id"] and key["status"] == "active" for key in keys):
        secured_server.manage("DELETE", f"api-keys/{made['id']}")


def serve(binary, directory, secured=False):
    """Runs the binary until the tests end."""
    access = ["--insecure-no-auth"]
    issuer = None
    if secured:
        issuer = Issuer(directory)
        settings = directory / "settings.toml"
        settings.write_text(f"[authn]\nown_token_lifetime_seconds = {Server.own_token_lifetime_s}\n{issuer.settings()}")
        access = ["--config", str(settings)]
    log = directory / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [binary, "serve", *access, "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            # The server rebases only appends to tables that enable the rebase.
            env={**os.environ, "SLATEBERG__CATALOG__APPEND_REBASE": "all"},
        )
        try:
            wanted = [r"http://127\.0\.0\.1:\d+"] + ([r"sb_\w{49}"] if secured else [])
            uri, *keys = announced(process, log, wanted)
            key = keys[0] if keys else None
            await_config(uri, key)
            yield Server(uri, key=key, issuer=issuer)
        finally:
            stop(process)


def announced(process, log, patterns):
    """Extracts values from the server's output. The patterns must match in this order."""
    done = threading.Event()
    found = []

    def read():
        # Read until the end: a full pipe would block the server.
        for line in process.stdout:
            if len(found) < len(patterns) and (match := re.search(patterns[len(found)], line)):
                found.append(match.group())
            if len(found) == len(patterns):
                done.set()
        done.set()

    threading.Thread(target=read, daemon=True).start()
    done.wait(READY_TIMEOUT_S)
    if len(found) < len(patterns):
        process.kill()
        pytest.exit(f"the server announced only {found}; it said:\n{log.read_text()}", returncode=2)
    return found


def await_config(uri, key=None):
    request = urllib.request.Request(f"{uri.rstrip('/')}/v1/config")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                pytest.exit(f"{uri} does not answer /v1/config: {error}", returncode=2)
        time.sleep(0.1)


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"the server did not stop within {STOP_TIMEOUT_S} s of SIGTERM") from None


@pytest.fixture(scope="session")
def plans_scans(server):
    """Skips tests of server-side scan planning if the server does not support it."""
    with urllib.request.urlopen(f"{server.uri}/v1/config", timeout=5) as response:
        offered = json.load(response).get("endpoints", [])
    if "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan" not in offered:
        pytest.skip("the server leaves planning to its clients")


@pytest.fixture
def unique():
    """Creates names that neither other tests nor earlier runs against the same server have used."""
    token = uuid.uuid4().hex[:10]
    return lambda stem: f"{stem}_{token}"
