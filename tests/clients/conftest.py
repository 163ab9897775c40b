"""The server under test, and names that no other test uses.

`SLATEBERG_URI` names a server that is already running. Without it, `SLATEBERG_BIN` names a binary,
which is started on a free port of the loopback over an empty directory and stopped when the tests end.
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

READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20


@dataclass(frozen=True)
class Server:
    uri: str
    warehouse: str | None = None

    def beside(self, table_location: str, name: str) -> str:
        """A location for a second table: in the warehouse if we know it, else next to the first table."""
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


def serve(binary, directory):
    """Runs the binary for as long as the tests need it."""
    log = directory / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            uri = announced_uri(process, log)
            await_config(uri)
            yield Server(uri)
        finally:
            stop(process)


def announced_uri(process, log):
    announced = threading.Event()
    found = []

    def read():
        # Reading on to the end keeps the pipe from filling up and stopping the server.
        for line in process.stdout:
            if not found and (match := re.search(r"http://127\.0\.0\.1:\d+", line)):
                found.append(match.group())
                announced.set()
        announced.set()

    threading.Thread(target=read, daemon=True).start()
    announced.wait(READY_TIMEOUT_S)
    if not found:
        process.kill()
        pytest.exit(f"the server announced no address; it said:\n{log.read_text()}", returncode=2)
    return found[0]


def await_config(uri):
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(f"{uri.rstrip('/')}/v1/config", timeout=5) as response:
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
    """For tests of scans that the server plans: skips them where the server does not offer it."""
    with urllib.request.urlopen(f"{server.uri}/v1/config", timeout=5) as response:
        offered = json.load(response).get("endpoints", [])
    if "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan" not in offered:
        pytest.skip("the server leaves planning to its clients")


@pytest.fixture
def unique():
    """Makes names that no other test, and no earlier run against the same server, has used."""
    token = uuid.uuid4().hex[:10]
    return lambda stem: f"{stem}_{token}"
