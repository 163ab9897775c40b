#!/usr/bin/env python3
"""Writes the golden store of a version: a data directory with many kinds of records.

    tests/api/golden/write.py PROGRAM NAME

starts PROGRAM (a slateberg of that version) on /golden, which must not exist. It writes
`NAME.tar.gz` (the data directory) and `NAME.json` (what clients saw, and requests with stored
idempotent responses) next to this file. The directory has this path because locations are absolute.
A golden store is never overwritten: a new format gets a new one.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

DATA = pathlib.Path("/golden")
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "data", "required": False, "type": "string"}]}


class Server:
    def __init__(self, program):
        command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(DATA)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/")
        self.key, self.remembered = None, []
        for line in self.process.stdout:
            if " is ready at " in line:
                self.uri = line.split(" is ready at ")[1].split()[0]
            words = line.replace("=", " ").replace('"', " ").replace("'", " ").split()
            keys = [word for word in words if word.startswith("sb_")]
            self.key = self.key or (keys[0] if keys else None)
            if "defaultCatalog" in line:
                break

    def send(self, method, path, body=None, key=None, expect=None):
        text = "" if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.key}"}
        if key:
            headers["Idempotency-Key"] = key
        data = text.encode() if body is not None else None
        request = urllib.request.Request(self.uri + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                status, answered = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, answered = error.code, error.read()
        answered = json.loads(answered) if answered else None
        wanted = expect or (200, 201, 202, 204)
        assert status in wanted, f"{method} {path}: {status} {answered}"
        return status, text, answered

    def once(self, method, path, body=None, expect=None):
        """Sends a request with an idempotency key, and records its response."""
        key = str(uuid.uuid4())
        status, text, answered = self.send(method, path, body, key, expect)
        self.remembered.append({"method": method, "path": path, "key": key, "body": text,
                                "status": status, "answer": answered})
        return answered

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait() == 0


def append(snapshot, parent):
    made = {"snapshot-id": snapshot, "sequence-number": snapshot, "schema-id": 0,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"file://{DATA}/warehouse/lists/{snapshot}.avro",
            "summary": {"operation": "append", "note": "n" * 40}}
    if parent:
        made["parent-snapshot-id"] = parent
    return [{"action": "add-snapshot", "snapshot": made},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}]


def fill(server):
    table = "/v1/namespaces/sales/tables/orders"
    server.once("POST", "/v1/namespaces", {"namespace": ["sales"], "properties": {"owner": "etl"}})
    server.send("POST", "/v1/namespaces", {"namespace": ["sales", "eu"]})
    server.once("POST", "/v1/namespaces/sales/tables", {"name": "orders", "schema": SCHEMA})
    setting = [{"action": "set-properties", "updates": {"a": "1"}}]
    server.once("POST", table, {"requirements": [], "updates": setting})
    server.once("POST", "/v1/namespaces/sales/tables", {"name": "orders", "schema": SCHEMA}, expect=[409])
    server.once("DELETE", "/v1/namespaces/sales/tables/absent", expect=[404])
    stale = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 77}]
    server.once("POST", table, {"requirements": stale, "updates": setting}, expect=[409])
    server.once("POST", "/v1/namespaces/sales/properties", {"updates": {"b": "2"}, "removals": []})
    # Enough snapshots to store the metadata in chunks.
    server.send("POST", "/v1/namespaces/sales/tables", {"name": "long", "schema": SCHEMA})
    updates = [update for at in range(1, 121) for update in append(at, at - 1)]
    server.send("POST", "/v1/namespaces/sales/tables/long", {"requirements": [], "updates": updates})
    server.send("POST", "/v1/namespaces/sales/tables/long",
                {"requirements": [], "updates": append(121, 120)})
    version = {"version-id": 1, "timestamp-ms": 1700000000000, "schema-id": 0, "summary": {},
               "default-namespace": ["sales"],
               "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}]}
    server.once("POST", "/v1/namespaces/sales/views",
                {"name": "recent", "schema": SCHEMA, "view-version": version, "properties": {}})
    server.send("POST", "/v1/namespaces/sales/tables", {"name": "second", "schema": SCHEMA})
    changes = [{"identifier": {"namespace": ["sales"], "name": name}, "requirements": [], "updates": setting}
               for name in ["orders", "second"]]
    server.once("POST", "/v1/transactions/commit", {"table-changes": changes})
    server.send("POST", "/v1/namespaces/sales/tables", {"name": "gone", "schema": SCHEMA})
    server.send("DELETE", "/v1/namespaces/sales/tables/gone?purgeRequested=true")
    server.send("POST", "/management/v1/warehouses",
                {"name": "lake", "storage": {"location": f"file://{DATA}/warehouse/lake"},
                 "client-defaults": {"x": "y"}})
    server.send("POST", "/v1/lake/namespaces", {"namespace": ["raw"]})
    server.send("POST", "/v1/lake/namespaces/raw/tables", {"name": "events", "schema": SCHEMA})
    server.send("POST", "/management/v1/api-keys", {"name": "reader", "roles": ["reader"]})
    revoked = server.send("POST", "/management/v1/api-keys", {"name": "gone", "roles": ["reader"]})[2]
    server.send("DELETE", f"/management/v1/api-keys/{revoked['id']}")


def run(program, server, *arguments):
    environment = {**os.environ, "SLATEBERG_URL": server.uri, "SLATEBERG_API_KEY": server.key}
    subprocess.run([program, *arguments], env=environment, check=True, cwd="/")


def seen(server):
    """The responses to a client's reads, by path."""
    paths = ["/v1/namespaces", "/v1/namespaces/sales", "/v1/namespaces?parent=sales",
             "/v1/namespaces/sales/tables", "/v1/namespaces/sales/views",
             *(f"/v1/namespaces/sales/tables/{name}" for name in ["orders", "long", "second"]),
             "/v1/namespaces/sales/views/recent", "/v1/lake/namespaces/raw/tables/events",
             "/management/v1/policies", "/management/v1/policies/revisions", "/management/v1/grants",
             "/management/v1/api-keys", "/management/v1/checkpoints"]
    return {path: server.send("GET", path)[2] for path in paths}


def main():
    program, name = sys.argv[1:]
    DATA.mkdir()
    server = Server(program)
    fill(server)
    policy = pathlib.Path("/tmp/golden.cedar")
    policy.write_text('@id("analysts")\npermit (principal in Role::"analyst", action == Action::"Load", resource);\n')
    run(program, server, "policy", "put", str(policy))
    run(program, server, "grant", "read", "--to", "role:analyst", "--on", "table:default/sales/orders")
    run(program, server, "checkpoint", "create", "before")
    answers = seen(server)
    for _ in range(300):
        jobs = server.send("GET", "/management/v1/jobs")[2]
        if all(job["state"] not in ("waiting", "running") for job in jobs["jobs"]):
            break
        time.sleep(0.2)
    server.stop()
    here = pathlib.Path(__file__).parent
    golden = {"key": server.key, "written-ms": int(time.time() * 1000), "seen": answers,
              "remembered": server.remembered}
    (here / f"{name}.json").write_text(json.dumps(golden) + "\n")
    subprocess.run(["tar", "-czf", here / f"{name}.tar.gz", "-C", DATA, "."], check=True)


main()
