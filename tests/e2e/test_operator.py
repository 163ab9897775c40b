"""An operator's first weeks, from the installation to a drain, in an empty directory. The steps
follow docs/deployment.md, docs/operations.md, docs/backup.md and docs/upgrade.md."""

import json
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
from certificates import Authority
from emulator import REGION
from installation import Installation
from processes import Repeatedly
from pyiceberg.catalog.rest import RestCatalog
from surroundings import ARCHIVE, LAKE, ROWS, SCHEMA, STATE, Surroundings
from traffic import Commits
from watching import Prometheus
from web import free_port

ROOT = Path(__file__).resolve().parents[2]
LEDGER = "/v1/namespaces/ops/tables/ledger"
NAMESPACES, TABLES_EACH = 10, 100
# A store of this format has no keys for locations and UUIDs. The next start creates both.
OLDER_FORMAT = 3


@pytest.fixture
def operator(keycloak, tmp_path, monkeypatch):
    # PyIceberg prefers these variables over the CA in its properties.
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    surroundings = Surroundings(tmp_path / "surroundings", keycloak)
    operator = Operator(surroundings, tmp_path / "machine")
    yield operator
    operator.go_home()
    surroundings.stop()


def test_operator_runs_a_catalog_from_its_installation_to_a_drain(operator):
    operator.surroundings.other.fill(NAMESPACES, TABLES_EACH)
    for step in [
        install,
        configure_tls_oidc_s3_and_kms,
        start,
        load_with_k6,
        watch_traces_and_metrics_arrive,
        rotate_the_certificate,
        kill_and_start_again,
        restore_to_a_checkpoint,
        upgrade_the_data_format,
        migrate_a_thousand_tables,
        drain,
    ]:
        begun = time.monotonic()
        print(f"{step.__name__} ...", flush=True)
        step(operator)
        print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


class Operator:
    """An operator with a shell on the machine and an admin key."""

    def __init__(self, surroundings, directory):
        self.surroundings = surroundings
        self.machine = Installation(directory, surroundings.credentials)
        self.authority = self.server = self.admin_key = self.commits = self.prometheus = None

    @property
    def certificate(self):
        return self.machine.etc / "tls/tls.crt", self.machine.etc / "tls/tls.key"

    @property
    def ca_file(self):
        return self.machine.etc / "ca.pem"

    def start(self):
        self.server = self.machine.serve()
        self.commits = Commits(self.server.uri, LEDGER, self.admin_key, self.ca_file)

    def manage(self, *words, key=None):
        """Runs a subcommand against the management port."""
        asked = {"slateberg_url": self.server.management_uri, "slateberg_api_key": key or self.admin_key}
        return self.machine.run(*words, **asked, slateberg_ca_cert=self.ca_file)

    def ask(self, method, path, body=None, **more):
        return self.server.ask(method, path, body, token=self.admin_key, **more)

    def properties(self, path=LEDGER):
        return self.ask("GET", path).expect(200)["metadata"]["properties"]

    def k6(self, scenario, seconds):
        """Starts a k6 load with the token of a program."""
        environment = self.machine.environment | {
            "SLATEBERG_URI": self.server.uri,
            "SLATEBERG_API_KEY": self.surroundings.keycloak.token("etl"),
            # The CA file for programs written in Go, such as k6.
            "SSL_CERT_FILE": str(self.ca_file),
            "LOAD_SECONDS": str(seconds),
            "LOAD_CLIENTS": "4",
            # The thresholds must hold in a debug build next to other processes. This is not a
            # benchmark.
            "LOAD_FACTOR": "50",
            # Less than the rate limit per principal in production.example.toml.
            "K6_RPS": "2000",
            "K6_OUTPUT": str(self.machine.log),
        }
        with open(self.machine.log / f"k6-{scenario}.log", "w") as log:
            words = [ROOT / "k6/run.sh", scenario]
            return subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def end_of(self, load, scenario):
        """Waits for k6 and returns its metrics."""
        code = load.wait(120)
        assert code == 0, (self.machine.log / f"k6-{scenario}.log").read_text()[-4000:]
        return json.loads((self.machine.log / f"{scenario}.json").read_text())["metrics"]

    def checked(self, config=None):
        """Runs `slateberg fsck` and returns the last line."""
        return self.machine.run("fsck", config=config or self.machine.settings.file).splitlines()[-1]

    def go_home(self):
        if self.prometheus:
            self.prometheus.stop()
        self.machine.stop()


def install(operator):
    machine = operator.machine
    machine.install()
    assert machine.run("--version").startswith("slateberg ")


def configure_tls_oidc_s3_and_kms(operator):
    surroundings, settings, etc = operator.surroundings, operator.machine.settings, operator.machine.etc
    operator.authority = Authority(operator.machine.directory / "ca")
    certificate, key = operator.certificate
    operator.authority.issue(certificate, key)
    operator.ca_file.write_text(operator.authority.certificate.read_text())
    bootstrap_key = etc / "bootstrap-key"
    bootstrap_key.write_text(operator.machine.run("key", "generate"))

    settings.set("server", listen=f"127.0.0.1:{free_port()}")
    settings.set("server.tls", certificate_file=str(certificate), key_file=str(key), reload_seconds=1)
    settings.set("server.management", listen=f"127.0.0.1:{free_port()}")
    settings.set("authn", bootstrap_key_file=str(bootstrap_key))
    settings.set("authn.issuers.corporate", issuer=surroundings.keycloak.issuer)
    settings.set("state", url=f"s3://{STATE}/slateberg")
    settings.set("state.options", **surroundings.options())
    for warehouse, bucket in [("lake", LAKE), ("archive", ARCHIVE)]:
        settings.set(f"warehouses.{warehouse}", location=f"s3://{bucket}/warehouse")
        settings.set(f"warehouses.{warehouse}.options", **surroundings.options())
        access = {"delegation": ["vended-credentials"], "sts_endpoint": surroundings.store.uri}
        settings.set(f"warehouses.{warehouse}.access", **access)
    kms = {"kms": "aws", "aws_key": surroundings.key, "aws_region": REGION}
    settings.set("encryption", **kms, aws_endpoint=f"http://127.0.0.1:{surroundings.kms.port}")
    otlp = {"endpoint": surroundings.collector.uri, "metrics_interval_ms": 1000, "sample_ratio": 0.05}
    settings.set("telemetry.otlp", **otlp)

    operator.machine.run("config", "check", config=settings.file)
    checked = operator.machine.run("store", "check", "--rounds", 10, config=settings.file)
    assert f"checking s3://{STATE}/slateberg" in checked and "no double winner" in checked


def start(operator):
    operator.server = operator.machine.serve()
    first_key = (operator.machine.etc / "bootstrap-key").read_text().strip()
    made = operator.manage("key", "create", "ops", "--role", "admin", "--output", "json", key=first_key)
    operator.admin_key = json.loads(made)["key"]
    keys = json.loads(operator.manage("key", "list", "--output", "json"))["api-keys"]
    (bootstrap,) = (key["id"] for key in keys if key["name"] == "bootstrap")
    operator.manage("key", "revoke", bootstrap)
    assert operator.server.ask("GET", "/v1/config", token=first_key).status == 401

    operator.commits = Commits(operator.server.uri, LEDGER, operator.admin_key, operator.ca_file)
    operator.ask("POST", "/v1/namespaces", {"namespace": ["ops"]}).expect(200)
    operator.ask("POST", "/v1/namespaces/ops/tables", {"name": "ledger", "schema": SCHEMA}).expect(200)
    # All configured components are in use: the issuer's users, the keys of the KMS, both buckets.
    token = operator.surroundings.keycloak.token_of("alice")
    who = operator.server.manage("GET", "/management/v1/whoami", token=token).expect(200)
    assert who["id"].startswith("corporate/") and "reader" in who["roles"]
    assert operator.surroundings.key in operator.manage("encryption", "status")
    assert "slateberg/encryption/ring.json" in operator.surroundings.store.keys(bucket=STATE)
    assert any(name.endswith(".metadata.json") for name in operator.surroundings.store.keys(bucket=LAKE))


def load_with_k6(operator):
    counted = operator.end_of(operator.k6("mixed", seconds=10), "mixed")
    assert counted["http_req_failed"]["passes"] == 0 and counted["checks"]["fails"] == 0
    assert counted["http_reqs"]["count"] > 100


def watch_traces_and_metrics_arrive(operator):
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    update = {"action": "set-properties", "updates": {"traced": "yes"}}
    traced = {"traceparent": f"00-{trace_id}-{caller}-01"}
    operator.ask("POST", LEDGER, {"requirements": [], "updates": [update]}, headers=traced).expect(200)
    collector = operator.surroundings.collector

    def names():
        return {span["name"] for span in collector.spans(trace_id)}

    phases = {"authenticate", "authorize", "commit", "wal.put", "metadata.put"}
    collector.wait_until(lambda: names() >= phases, 30)
    wanted = {
        "http.server.request.duration",
        "slateberg.commit.phase.duration",
        "slateberg.object_store.request.duration",
        "slateberg.kms.request.duration",
    }
    collector.wait_until(lambda: collector.metrics()[0].keys() >= wanted, 30)

    rules = ROOT / "helm/slateberg/alerts/slateberg.yaml"
    watching = operator.surroundings.watching
    operator.prometheus = prometheus = Prometheus(watching, operator.server.management_uri, rules, operator.ca_file)
    prometheus.wait_until(lambda: prometheus.ask('up{job="slateberg"} == 1'), 60)
    prometheus.wait_until(lambda: prometheus.ask("sum(http_server_request_duration_seconds_count) > 100"), 60)
    assert prometheus.ask('http_server_request_duration_seconds_count{http_response_status_code=~"5.."}') == []
    assert not [rule for rule in prometheus.rules() if rule["health"] == "err"]


def rotate_the_certificate(operator):
    commits = operator.commits
    load = operator.k6("load_table", seconds=10)
    with Repeatedly(commits) as traffic:
        traffic.wait_for(20)
        old = set(commits.serials)
        operator.authority.issue(*operator.certificate)
        deadline = time.monotonic() + 10
        while set(commits.serials) == old:
            assert time.monotonic() < deadline, "new connections get the new certificate"
            time.sleep(0.05)
        traffic.wait_for(20)
    counted = operator.end_of(load, "load_table")
    assert len(old) == 1 and len(set(commits.serials)) == 2
    assert not old & set(commits.serials[-10:])
    assert (commits.never_let_in, commits.unanswered, commits.refusals, traffic.failures) == ([], [], [], [])
    assert counted["http_req_failed"]["passes"] == 0 and counted["checks"]["fails"] == 0


def kill_and_start_again(operator):
    commits = operator.commits
    with Repeatedly(commits, threads=8) as traffic:
        traffic.wait_for(100)
        operator.server.process.kill()
    assert not commits.refusals and not traffic.failures
    operator.start()
    there = operator.properties()
    assert len(commits.acknowledged) >= 100
    assert not set(commits.acknowledged) - there.keys()


def restore_to_a_checkpoint(operator):
    tables = "/v1/namespaces/sales/tables"
    operator.ask("POST", "/v1/namespaces", {"namespace": ["sales"]}).expect(200)
    for name in ("orders", "invoices", "returns"):
        operator.ask("POST", tables, {"name": name, "schema": SCHEMA, "properties": {"owner": "ann"}}).expect(200)
    ledger = operator.properties()
    operator.manage("checkpoint", "create", "before-cleanup")
    # The simulated accident.
    for name in ("orders", "invoices"):
        operator.ask("DELETE", f"{tables}/{name}").expect(204)
    update = {"action": "set-properties", "updates": {"owner": "nobody"}}
    operator.ask("POST", f"{tables}/returns", {"requirements": [], "updates": [update]}).expect(200)

    operator.server.stop()
    settings = operator.machine.settings.file
    would = json.loads(operator.machine.run("restore", "--to", "before-cleanup", "--output", "json", config=settings))
    assert not would["done"] and would["changes"]["tables"] == {"restored": 2, "changed": 1, "removed": 0}
    restored = operator.machine.run("restore", "--to", "before-cleanup", "--yes", config=settings)
    assert "; 0 broken" in restored and "To undo the restore: slateberg restore --yes --to " in restored
    operator.start()
    listed = operator.ask("GET", tables).expect(200)["identifiers"]
    assert {table["name"] for table in listed} == {"orders", "invoices", "returns"}
    for name in ("orders", "invoices", "returns"):
        assert operator.properties(f"{tables}/{name}")["owner"] == "ann"
    assert operator.properties() == ledger
    operator.commits()
    assert len(operator.commits.acknowledged) == 1, "it is a catalog to write to again"


def upgrade_the_data_format(operator):
    """Starts another catalog that an older slateberg has written. The start upgrades its format."""
    machine, surroundings = operator.machine, operator.surroundings
    settings = machine.settings.copy(machine.etc / "older.toml", without=["encryption", "telemetry.otlp"])
    settings.set("server", listen=f"127.0.0.1:{free_port()}")
    settings.set("server.management", listen=f"127.0.0.1:{free_port()}")
    url = f"s3://{STATE}/older"
    settings.set("state", url=url)
    settings.set("warehouses.lake", location=f"s3://{LAKE}/older")
    key = (machine.etc / "bootstrap-key").read_text().strip()

    def asked(server, method, path, body=None):
        return server.ask(method, path, body, token=key)

    tables = "/v1/namespaces/ops/tables"
    server = machine.serve(settings)
    asked(server, "POST", "/v1/namespaces", {"namespace": ["ops"]}).expect(200)
    for number in range(20):
        asked(server, "POST", tables, {"name": f"t{number}", "schema": SCHEMA}).expect(200)
    before = [asked(server, "GET", f"{tables}/t{number}").expect(200) for number in range(20)]
    server.stop()

    def format_of_the_store(*change_to):
        words = [sys.executable, Path(__file__).with_name("older.py"), url, *map(str, change_to)]
        reached = {"AWS_ENDPOINT": surroundings.store.uri, "AWS_ALLOW_HTTP": "true"}
        done = subprocess.run(words, env=machine.environment | reached, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    newest = format_of_the_store(OLDER_FORMAT)
    assert format_of_the_store() == OLDER_FORMAT < newest
    assert " 20 tables, 0 views, 0 functions; 0 broken" in operator.checked(settings.file)
    server = machine.serve(settings)
    assert [asked(server, "GET", f"{tables}/t{number}").expect(200) for number in range(20)] == before
    update = {"action": "set-properties", "updates": {"upgraded": "yes"}}
    asked(server, "POST", f"{tables}/t0", {"requirements": [], "updates": [update]}).expect(200)
    asked(server, "DELETE", f"{tables}/t1").expect(204)
    server.stop()
    assert " 19 tables, 0 views, 0 functions; 0 broken" in operator.checked(settings.file)
    assert format_of_the_store() == newest


def migrate_a_thousand_tables(operator):
    other = operator.surroundings.other
    other.wait_until_filled()

    def migrate():
        words = ["--from", "rest", "--source", other.uri, "--warehouse", "archive", "--output", "json"]
        asked = {"slateberg_url": operator.server.uri, "slateberg_api_key": operator.admin_key}
        summary = json.loads(operator.machine.run("migrate", *words, **asked, slateberg_ca_cert=operator.ca_file))
        assert summary["complete"] and not summary["notes"], summary["notes"]
        return {kind: (summary[kind]["done"], summary[kind]["present"]) for kind in ("namespaces", "tables")}

    assert migrate() == {"namespaces": (NAMESPACES, 0), "tables": (NAMESPACES * TABLES_EACH, 0)}
    # A repeated migration changes nothing.
    assert migrate() == {"namespaces": (0, NAMESPACES), "tables": (0, NAMESPACES * TABLES_EACH)}
    # A client with only the catalog's URI and a key.
    archive = RestCatalog(
        "archive",
        uri=operator.server.uri,
        warehouse="archive",
        token=operator.admin_key,
        ssl={"cabundle": str(operator.ca_file)},
    )
    assert sum(len(archive.list_tables(namespace)) for namespace in archive.list_namespaces()) == NAMESPACES * TABLES_EACH
    for number in range(NAMESPACES):
        archive.load_table(f"legacy{number}.t{TABLES_EACH - 1 - number}")
    rows = archive.load_table("legacy0.t0")
    assert rows.scan().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    rows.append(ROWS)
    assert archive.load_table("legacy0.t0").scan().to_arrow().num_rows == 2 * ROWS.num_rows


def drain(operator):
    commits, server = operator.commits, operator.server
    begun = [commits.begin() for _ in range(8)]
    with Repeatedly(commits, threads=4) as traffic:
        traffic.wait_for(20)
        server.process.ask_to_end()
        server.process.wait_until(lambda: "draining requests in flight" in server.said(), 30)
        for request in begun:
            request.finish()
        assert server.process.wait(60) == 0
    assert (commits.unanswered, commits.refusals, traffic.failures) == ([], [], [])
    tables = NAMESPACES * TABLES_EACH + len(["ledger", "orders", "invoices", "returns"])
    assert f" {tables:,} tables, 0 views, 0 functions; 0 broken" in operator.checked()
    acknowledged = set(commits.acknowledged)
    assert {request.name for request in begun} <= acknowledged
    operator.start()
    assert acknowledged <= operator.properties().keys()
    operator.server.stop()
