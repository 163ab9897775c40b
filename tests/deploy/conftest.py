"""The chart as rendered by helm, and servers that read its output."""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/slateberg"
# Realistic sets of values. Each must work.
CASES = sorted((CHART / "ci").glob("*.yaml"))
# The oldest supported Kubernetes, a common one, and the newest with published schemas.
KUBERNETES = ["1.29.0", "1.33.0", "1.37.0"]


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **options)


def checked(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Rendered:
    """helm's output for the chart with these values."""

    def __init__(self, *arguments, kubernetes="1.33.0", chart=CHART):
        words = ["helm", "template", "lake", chart, "--namespace", "catalog", "--kube-version", kubernetes]
        self.text = checked(*words, *arguments)
        self.objects = [found for found in yaml.safe_load_all(self.text) if found]

    def all(self, kind):
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind):
        found = self.all(kind)
        assert len(found) == 1, f"{len(found)} of {kind}"
        return found[0]

    @property
    def workload(self):
        return next(found for found in self.objects if found["kind"] in ("Deployment", "StatefulSet"))

    @property
    def container(self):
        (container,) = self.workload["spec"]["template"]["spec"]["containers"]
        return container

    @property
    def settings(self):
        """The server's settings file."""
        (found,) = [data for data in self.all("ConfigMap") if "slateberg.toml" in data["data"]]
        return found["data"]["slateberg.toml"]


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return request.param


class Server:
    """A slateberg with these settings, on a free port and in its own directory. If the settings
    contain its admin key, the caller passes `key`."""

    def __init__(self, directory, settings, environment=(), key=None):
        file = directory / "slateberg.toml"
        file.write_text(settings)
        self._out = directory / "out"
        self._err = directory / "err"
        words = [os.environ["SLATEBERG_BIN"], "serve", "--config", str(file)]
        words += ["--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(words, stdout=out, stderr=err, env={**os.environ, **dict(environment)})
        deadline = time.monotonic() + 60
        while not (found := re.search(r"https?://127\.0\.0\.1:\d+", self._out.read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"it does not serve:\n{self._err.read_text()}")
            time.sleep(0.05)
        self.uri = found.group()
        operators = re.search(r'(?:^  management +|"management-url":")([^\s"]+)', self._out.read_text(), re.MULTILINE)
        # The URL for operators. Without a management port it is the one for clients.
        self.operators_uri = operators[1] if operators else self.uri
        self.key = key or re.search(r"sb_\w{49}", self._out.read_text()).group()

    def get(self, path, key=None, uri=None):
        request = urllib.request.Request((uri or self.uri) + path)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def json(self, path, uri=None):
        status, text = self.get(path, self.key, uri)
        assert status == 200, text
        return json.loads(text)

    def stop(self):
        self._process.terminate()
        try:
            assert self._process.wait(30) == 0, self._err.read_text()
        finally:
            self._process.kill()


@pytest.fixture
def serve(tmp_path):
    """Starts servers, and stops them cleanly at the end of the test."""
    started = []

    def serve(settings, environment=(), key=None):
        started.append(Server(tmp_path, settings, environment, key))
        return started[-1]

    yield serve
    for server in started:
        server.stop()
