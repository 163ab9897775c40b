"""Transfers and rolling upgrades during load: no client notices them."""

import json
import os
import threading
import time

import pyarrow
from pyiceberg.catalog import load_catalog
from processes import Process
from web import free_port, request

ROUNDS = int(os.environ.get("UPGRADE_ROUNDS", "3"))
REQUESTS_PER_ROUND = int(os.environ.get("UPGRADE_REQUESTS", "5000"))
ROWS = pyarrow.table({"id": pyarrow.array(range(10), pyarrow.int64())})


class K6:
    """The scenario `upgrades` of k6, which counts failed requests."""

    def __init__(self, directory, uri, requests):
        self.requests, self._address = requests, f"127.0.0.1:{free_port()}"
        self._summary = directory / "k6.json"
        script = os.path.join(os.path.dirname(__file__), "../../k6/upgrades.js")
        command = [os.environ["K6"], "run", "--quiet", "--no-color", "--address", self._address]
        command += ["--summary-export", str(self._summary), script]
        environment = {"SLATEBERG_URI": uri, "LOAD_ITERATIONS": str(requests), "K6_NO_USAGE_REPORT": "true"}
        self._process = Process(command, directory / "k6.log", environment)

    def sent(self):
        """The number of requests so far."""
        try:
            metric = request("GET", f"http://{self._address}/v1/metrics/http_reqs").body
        except OSError:
            return 0
        return metric["data"]["attributes"]["sample"]["count"] if "data" in metric else 0

    def wait_for(self, requests):
        while (sent := self.sent()) < requests:
            self.assert_runs(f"k6 ended after {sent} requests")
            time.sleep(0.2)

    def assert_runs(self, otherwise="k6 ended before the last round: increase UPGRADE_REQUESTS"):
        assert self._process.runs, f"{otherwise}:\n{self._process.said()[-4000:]}"

    def finish(self):
        """Waits for the end, and returns the summary."""
        code = self._process.wait(3600)
        assert code == 0, f"k6 ended with {code}:\n{self._process.said()[-4000:]}"
        return json.loads(self._summary.read_text())["metrics"]

    def end(self):
        if self._process.runs:
            self._process.kill()


class Appender(threading.Thread):
    """A PyIceberg client that appends rows to a table and counts them, until it is stopped."""

    def __init__(self, uri, table):
        super().__init__(daemon=True)
        self._uri, self._table = uri, table
        self._done = threading.Event()
        self.appends, self.failure = 0, None

    def run(self):
        try:
            catalog = load_catalog("lake", type="rest", uri=self._uri)
            catalog.create_namespace_if_not_exists("rows")
            table = catalog.create_table(f"rows.{self._table}", schema=ROWS.schema)
            while not self._done.is_set():
                table.append(ROWS)
                self.appends += 1
                found = catalog.load_table(f"rows.{self._table}").scan().count()
                assert found == self.appends * len(ROWS), f"{found} rows after {self.appends} appends"
        except Exception as error:  # Any exception fails the test.
            self.failure = error

    def finish(self):
        self._done.set()
        self.join(120)
        assert not self.is_alive(), f"{self._table}: an append does not end"
        assert self.failure is None, f"{self._table} after {self.appends} appends: {self.failure!r}"
        return self.appends


def test_no_request_fails_during_transfers_and_rolling_upgrades(cluster, proxy, tmp_path):
    k6 = K6(tmp_path, proxy.uri, ROUNDS * REQUESTS_PER_ROUND)
    appends = 0
    try:
        for number in range(ROUNDS):
            k6.wait_for(max(1, number * REQUESTS_PER_ROUND))
            appender = Appender(proxy.uri, f"t{number}")
            appender.start()
            transferred = cluster.online(cluster.standbys()[0], "cluster", "transfer")
            assert transferred["state"] == "serving", transferred
            cluster.replace_all()
            k6.assert_runs()
            appended = appender.finish()
            assert appended > 0, "PyIceberg appended during the round"
            appends += appended
            print(f"round {number + 1}: {k6.sent()} requests, {appends} appends", flush=True)
        summary = k6.finish()
    finally:
        k6.end()
    assert not proxy.cut_requests(), "a member closed a connection that the proxy used"
    cluster.stop()
    assert summary["http_reqs"]["count"] >= ROUNDS * REQUESTS_PER_ROUND
    assert summary["checks"]["fails"] == 0, summary["checks"]
    latency = summary["http_req_duration"]
    print(f"{summary['http_reqs']['count']} requests, {appends} appends, {ROUNDS} rounds; latency {latency} ms")
