"""A real Trino: starts it with slateberg catalogs and runs statements."""

import csv
import io
import os
import subprocess

from processes import Process
from web import free_port, request

# Trino scans all files of its plugins before it listens.
START_TIMEOUT_S = 240
STATEMENT_TIMEOUT_S = 120

JVM = """-server
-Xmx1G
-XX:+UseG1GC
-Djdk.attach.allowAttachSelf=true
"""


class Trino:
    """A coordinator on the loopback that is also the worker. `catalogs` maps names to
    properties."""

    def __init__(self, directory, catalogs):
        home, etc, port = os.environ["TRINO_HOME"], directory / "etc", free_port()
        self.uri = f"http://127.0.0.1:{port}"
        _write(etc / "jvm.config", JVM)
        node = {"node.environment": "test", "node.data-dir": directory / "data", "node.bind-ip": "127.0.0.1"}
        _write_properties(etc / "node.properties", node | {"node.internal-address": "127.0.0.1"})
        server = {"coordinator": "true", "node-scheduler.include-coordinator": "true"}
        server |= {"http-server.http.port": port, "discovery.uri": self.uri}
        _write_properties(etc / "config.properties", server)
        for name, properties in catalogs.items():
            _write_properties(etc / f"catalog/{name}.properties", properties)
        self._java = os.path.join(os.environ["TRINO_JAVA_HOME"], "bin/java")
        command = [f"{home}/bin/launcher", "run", f"--etc-dir={etc}"]
        environment = {"JAVA_HOME": os.environ["TRINO_JAVA_HOME"]}
        environment["PATH"] = f"{environment['JAVA_HOME']}/bin:{os.environ['PATH']}"
        self._process = Process(command, directory / "trino.log", environment)
        self._process.wait_until(self._is_ready, START_TIMEOUT_S)

    def _is_ready(self):
        try:
            return request("GET", f"{self.uri}/v1/info").expect(200)["starting"] is False
        except OSError:
            return False

    def run(self, statement):
        """Runs a statement and returns its rows as lists of strings. Raises `RefusedStatement` on
        an error."""
        command = [self._java, "-jar", os.environ["TRINO_CLI"], "--server", self.uri, "--output-format", "CSV"]
        command += ["--execute", statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STATEMENT_TIMEOUT_S)
        if done.returncode != 0:
            raise RefusedStatement(done.stderr)
        return list(csv.reader(io.StringIO(done.stdout)))

    def stop(self):
        self._process.stop()


class RefusedStatement(Exception):
    """Trino's error message."""


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_properties(path, properties):
    _write(path, "".join(f"{name}={value}\n" for name, value in properties.items()))
