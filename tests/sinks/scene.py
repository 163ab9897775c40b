"""A catalog, its changes, and the processes that send them to a broker."""

import os
import subprocess

from processes import Process, Slateberg
from web import request

TABLES = 4


class Catalog:
    """A server with some tables."""

    def __init__(self, directory):
        self.directory = directory
        self.server = Slateberg(directory, "")
        self.key = self.server.admin_key
        self.ask("POST", "/v1/namespaces", {"namespace": ["sales"]}).expect(200)
        schema = {"type": "struct", "schema-id": 0, "fields": []}
        for number in range(TABLES):
            body = {"name": f"t{number}", "schema": schema}
            self.ask("POST", "/v1/namespaces/sales/tables", body).expect(200)

    def ask(self, method, path, body=None):
        return request(method, self.server.uri + path, token=self.key, json_body=body)

    def commit(self, table, value):
        updates = [{"action": "set-properties", "updates": {"value": str(value)}}]
        body = {"requirements": [], "updates": updates}
        return self.ask("POST", f"/v1/namespaces/sales/tables/t{table}", body).expect(200)

    def events(self):
        """Returns all events of the change feed, in their order."""
        found, after = [], "oldest"
        while True:
            body = self.ask("GET", f"/management/v1/watch?wait=0&after={after}").expect(200)
            found += body["events"]
            if body["caught-up"]:
                return found
            after = body["next"]

    def cursors(self):
        found = self.ask("GET", "/management/v1/watch/cursors").expect(200)["cursors"]
        return {cursor["name"]: cursor for cursor in found}

    def environment(self):
        return {"SLATEBERG_URL": self.server.uri, "SLATEBERG_API_KEY": self.key}

    def run(self, *arguments, environment=None):
        """Runs a subcommand to its end. Returns its exit code and its output."""
        environment = {**os.environ, **self.environment(), **(environment or {})}
        command = [os.environ["SLATEBERG_BIN"], *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def restart(self, between=lambda: None):
        """Stops the server, and starts it again on another port."""
        self.server.stop()
        between()
        (self.directory / "slateberg.log").unlink()
        self.server = Restarted(self.directory)


class Restarted(Slateberg):
    """A server with the state of an earlier one, which does not print an admin key again."""

    def __init__(self, directory):
        command = [os.environ["SLATEBERG_BIN"], "serve", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(directory / "data"), "--config", str(directory / "settings.toml")]
        self._process = Process(command, directory / "slateberg.log")
        self.uri = self._process.wait_until(lambda: self._announced(r"http://127\.0\.0\.1:\d+"), 60)


class Sender:
    """A running `slateberg watch --to`, which can be killed and started again."""

    def __init__(self, catalog, broker, *arguments, name="events"):
        self.catalog, self.broker, self.name = catalog, broker, name
        self.arguments = ["watch", "--to", broker.url, "--name", name, *arguments]
        self.log = catalog.directory / f"sender-{name}.log"
        self.process = None

    def start(self):
        command = [os.environ["SLATEBERG_BIN"], *self.arguments]
        environment = {**self.catalog.environment(), **self.broker.environment}
        self.log.unlink(missing_ok=True)
        self.process = Process(command, self.log, environment)
        self.process.wait_until(lambda: "sending events" in self.process.said(), 60)
        return self

    def kill(self):
        self.process.kill()

    def stop(self):
        return self.process.stop()

    def drain(self):
        """Sends all remaining events, and the event of the creation of the cursor."""
        for _ in range(2):
            code, output = self.catalog.run(*self.arguments, "--no-wait", environment=self.broker.environment)
            assert code == 0, output
        return output
