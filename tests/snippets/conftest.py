"""The servers for each page of the documentation, set up as by its reader."""

import json
import os
import re
import shutil
import subprocess
import time
import tomllib

import pytest
from certificates import Authority

READY_TIMEOUT_S = 60


class Server:
    """A slateberg that requires credentials, on a free port and in an empty directory."""

    def __init__(self, directory, name, *options):
        self.log = directory / f"{name}.log"
        words = [os.environ["SLATEBERG_BIN"], "serve", "--listen", "127.0.0.1:0"]
        words += ["--data-dir", str(directory / name), *options]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        self.uri = self._announced(r"https?://127\.0\.0\.1:\d+")
        self.key = self._announced(r"sb_\w{49}")

    def _announced(self, pattern):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not (found := re.search(pattern, self.log.read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"the server does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        return found.group()

    def stop(self):
        self._process.terminate()
        try:
            assert self._process.wait(30) == 0, self.log.read_text()
        finally:
            self._process.kill()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path, "data")
    yield server
    server.stop()


@pytest.fixture
def serve_with(tmp_path):
    """Starts a server with the settings blocks of a page and test certificates."""
    started = []

    def start(blocks):
        of_server = tmp_path / "tls"
        issue_certificates(tmp_path, of_server)
        lines = [line for block in blocks for line in dotted(tomllib.loads(block))]
        settings = tmp_path / "settings.toml"
        settings.write_text("\n".join(lines).replace("/etc/slateberg/tls/", f"{of_server}/"))
        started.append(Server(tmp_path, "private", "--config", str(settings)))
        return started[0]

    yield start
    for server in started:
        server.stop()


def issue_certificates(directory, of_server):
    """Creates the certificates that a page's settings and commands refer to: `ca.pem` and `ops.pem`
    for operators, and the server's files."""
    authority = Authority(directory / "authority")
    authority.issue(of_server / "tls.crt", of_server / "tls.key")
    shutil.copy(authority.certificate, of_server / "clients.pem")
    shutil.copy(authority.certificate, directory / "ca.pem")
    certificate, key = (directory / "authority" / f"ops.{part}" for part in ("crt", "key"))
    authority.issue(certificate, key, name="ops.example.com", kind="client")
    (directory / "ops.pem").write_text(certificate.read_text() + key.read_text())


def dotted(settings, path=""):
    """Renders TOML lines with full key paths, because two blocks may set keys of the same table."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{path}{json.dumps(key)}.")
        else:
            yield f"{path}{json.dumps(key)} = {json.dumps(value)}"
