"""A Kubernetes API server with etcd, a client for it, and helm."""

import json
import os
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from processes import Process
from web import free_port

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/slateberg"
# Realistic sets of values. Each must work.
CASES = sorted((CHART / "ci").glob("*.yaml"))
OPERATOR = Path(os.environ["SLATEBERG_CACHE"]) / "tools/prometheus-operator/example/prometheus-operator-crd"
# Longer than any test run. It ends the servers even if the tests cannot stop them.
LIFETIME_SECONDS_MAX = 1800


class Refused(Exception):
    """An error response of the API server."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


def program(directory, name, *options):
    """Starts a third-party server in this directory."""
    words = ["env", f"--chdir={directory}", "timeout", "--kill-after=10", str(LIFETIME_SECONDS_MAX), name, *options]
    return Process(words, directory / f"{name}.log")


class Kubernetes:
    """An API server on a free port with its data in one directory, and a user with all privileges.
    Without controllers and nodes, it only stores objects and adds defaults."""

    def __init__(self, directory):
        self._directory = directory
        self._kinds = {}
        self._token = secrets.token_urlsafe(32)
        self._programs = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        directory, store, peers, port = self._directory, free_port(), free_port(), free_port()
        options = ["--data-dir", "etcd", "--unsafe-no-fsync"]
        for kind, at in (("client", store), ("peer", peers)):
            options += [f"--listen-{kind}-urls", f"http://127.0.0.1:{at}"]
        options += ["--advertise-client-urls", f"http://127.0.0.1:{store}"]
        options += ["--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"]
        options += ["--initial-cluster", f"default=http://127.0.0.1:{peers}"]
        self._programs.append(program(directory, "etcd", *options))

        words = ["openssl", "genpkey", "-algorithm", "RSA", "-out", directory / "accounts.pem"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        (directory / "tokens").touch(mode=0o600)
        (directory / "tokens").write_text(f"{self._token},operator,operator,system:masters\n")
        options = [f"--etcd-servers=http://127.0.0.1:{store}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
        options += ["--cert-dir=certificates", "--token-auth-file=tokens", "--authorization-mode=RBAC"]
        options += ["--service-account-issuer=https://kubernetes.default.svc"]
        options += ["--service-account-key-file=accounts.pem", "--service-account-signing-key-file=accounts.pem"]
        options += ["--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none"]
        self._programs.append(program(directory, "kube-apiserver", *options))

        self.uri = f"https://127.0.0.1:{port}"
        self._wait_until_ready()
        self._write_kubeconfig()

    def _wait_until_ready(self):
        certificate = self._directory / "certificates/apiserver.crt"
        deadline = time.monotonic() + 120
        said = "nothing"
        while time.monotonic() < deadline and all(program.runs for program in self._programs):
            try:
                if certificate.exists():
                    self._trust = ssl.create_default_context(cafile=certificate)
                    self.ask("GET", "/readyz", parse=False)
                    return
            # The server is not reachable yet, creates its certificate, or reports pending checks.
            except (OSError, Refused) as error:
                said = str(error)
            time.sleep(0.2)
        logs = "\n".join(program.said()[-4000:] for program in self._programs)
        raise AssertionError(f"Kubernetes does not start: {said}\n{logs}")

    def _write_kubeconfig(self):
        cluster = {"server": self.uri, "certificate-authority": str(self._directory / "certificates/apiserver.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "operator", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "operator"}}],
            "current-context": "test",
        }
        self.kubeconfig = self._directory / "kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def stop(self):
        for program in reversed(self._programs):
            program.stop()

    def ask(self, method, path, body=None, parse=True):
        request = urllib.request.Request(self.uri + path, method=method, data=body and json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._trust) as response:
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode()) from None
        return json.loads(text) if parse else text

    def path(self, version, kind, namespace, name=""):
        """The path of objects of this kind, from the server's API discovery."""
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._kinds:
            for found in self.ask("GET", group)["resources"]:
                if "/" not in found["name"]:
                    self._kinds[version, found["kind"]] = (found["name"], found["namespaced"])
        plural, namespaced = self._kinds[version, kind]
        return group + (f"/namespaces/{namespace}" if namespaced else "") + f"/{plural}" + (f"/{name}" if name else "")

    def held(self, like, namespace):
        """The stored object with the same kind and name."""
        return self.ask("GET", self.path(like["apiVersion"], like["kind"], namespace, like["metadata"]["name"]))

    def try_out(self, thing, namespace):
        """A dry run: the server admits or rejects the object, including unknown fields, without
        storing it."""
        path = self.path(thing["apiVersion"], thing["kind"], namespace)
        return self.ask("POST", path + "?dryRun=All&fieldValidation=Strict", thing)

    def create(self, thing, namespace=None):
        return self.ask("POST", self.path(thing["apiVersion"], thing["kind"], namespace), thing)

    def all(self, namespace):
        """All objects of a namespace, except those of the server itself and helm's release
        records."""
        found = []
        for version in ["v1", *(group["preferredVersion"]["groupVersion"] for group in self.ask("GET", "/apis")["groups"])]:
            group = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for resource in self.ask("GET", group)["resources"]:
                kept = resource["namespaced"] and "list" in resource["verbs"] and resource["name"] != "events"
                if kept:
                    listed = self.ask("GET", f"{group}/namespaces/{namespace}/{resource['name']}")["items"]
                    found += [(resource["kind"], item["metadata"]["name"]) for item in listed]
        return sorted(one for one in found if not one[1].startswith("sh.helm.release."))


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory):
    """A Kubernetes with the resource definitions of the Prometheus operator."""
    kubernetes = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    try:
        for kind in ("servicemonitor", "prometheusrule"):
            definition = yaml.safe_load((OPERATOR / f"monitoring.coreos.com_{kind}s.yaml").read_text())
            kubernetes.create(definition)
            wait_until_served(kubernetes, definition)
        yield kubernetes
    finally:
        kubernetes.stop()


def wait_until_served(kubernetes, definition):
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/v1/{spec['names']['plural']}"
    deadline = time.monotonic() + 60
    while True:
        try:
            kubernetes.ask("GET", path)
            return
        except Refused as error:
            # The kind is unknown yet, or its storage is initializing.
            if error.status not in (404, 429) or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


class Release:
    """A release of the chart in its own namespace, which enforces the strictest pod security
    standard."""

    NAME = "lake"

    def __init__(self, kubernetes, directory, number):
        self.kubernetes = kubernetes
        self.namespace = f"catalog-{number}"
        self._environment = {**os.environ, "KUBECONFIG": str(kubernetes.kubeconfig), "HOME": str(directory)}
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": self.namespace, "labels": labels}
        kubernetes.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def helm(self, *words):
        words = ["helm", *map(str, words), "--namespace", self.namespace]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, env=self._environment)

    def done(self, *words):
        done = self.helm(*words)
        assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
        # The API server reports discouraged fields as warnings.
        assert "would violate" not in done.stderr and "unknown field" not in done.stderr, done.stderr
        return done.stdout

    def install(self, case, *words):
        return self.done("install", self.NAME, CHART, "--values", CHART / f"ci/{case}.yaml", *words)

    def upgrade(self, case, *words):
        return self.done("upgrade", self.NAME, CHART, "--values", CHART / f"ci/{case}.yaml", *words)

    def rendered(self):
        """The objects of the latest revision, from helm's release record."""
        return [found for found in yaml.safe_load_all(self.done("get", "manifest", self.NAME)) if found]

    def revisions(self):
        return [one["status"] for one in json.loads(self.done("history", self.NAME, "--output", "json"))]

    def held(self, kind):
        """The stored object of this kind in this release."""
        (like,) = [found for found in self.rendered() if found["kind"] == kind]
        return self.kubernetes.held(like, self.namespace)

    def all(self):
        return self.kubernetes.all(self.namespace)


@pytest.fixture(scope="session")
def numbers():
    return iter(range(1, 1000))


@pytest.fixture
def release(kubernetes, numbers, tmp_path):
    return Release(kubernetes, tmp_path, next(numbers))


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return request.param.stem
