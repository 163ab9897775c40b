"""slateberg with wrapping keys in an emulator of AWS KMS: the start, operation, and key changes."""

import json
import os
import subprocess
import time

import pytest
from emulator import REGION, Door, Emulator
from processes import Repeatedly, Slateberg
from web import request

SETTINGS = """
[encryption]
kms = "aws"
aws_key = "{key}"
aws_region = "{region}"
aws_endpoint = "{endpoint}"
kms_timeout_ms = 3000
"""


@pytest.fixture(scope="session")
def emulator(tmp_path_factory):
    emulator = Emulator(tmp_path_factory.mktemp("moto"))
    yield emulator
    emulator.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.setenv(name, "emulated")
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]:
        monkeypatch.delenv(name, raising=False)


class Scene:
    """An encrypted catalog with one table, whose server can be stopped and started."""

    def __init__(self, emulator, directory):
        self.emulator, self.directory = emulator, directory
        self.door = Door(emulator)
        self.key = emulator.make_key()
        self.server = self.credential = None

    def settings(self):
        return SETTINGS.format(key=self.key, region=REGION, endpoint=self.door.uri)

    def start(self):
        if self.credential is None:
            self.server = Slateberg(self.directory, self.settings())
            self.credential = self.server.admin_key
            self.ask("POST", "/v1/namespaces", {"namespace": ["ns"]}).expect(200)
            schema = {"type": "struct", "schema-id": 0, "fields": []}
            self.ask("POST", "/v1/namespaces/ns/tables", {"name": "t", "schema": schema}).expect(200)
        else:
            (self.directory / "slateberg.log").unlink()
            self.server = Restarted(self.directory, self.settings())
        return self

    def ask(self, method, path, body=None):
        return request(method, self.server.uri + path, token=self.credential, json_body=body)

    def commit(self, name):
        updates = [{"action": "set-properties", "updates": {name: "x"}}]
        body = {"requirements": [], "updates": updates}
        return self.ask("POST", "/v1/namespaces/ns/tables/t", body).expect(200)

    def properties(self):
        return self.ask("GET", "/v1/namespaces/ns/tables/t").expect(200)["metadata"]["properties"]

    def change(self, what, body=None):
        return self.ask("POST", f"/management/v1/encryption/{what}", body or {})

    def ring_file(self):
        return self.directory / "data" / "state" / "encryption" / "ring.json"

    def stop(self):
        if self.server:
            self.server.stop()
            self.server = None

    def start_in_vain(self):
        """Starts a server that must fail. Returns its exit code, its output, and the elapsed
        time."""
        config = self.directory / "settings.toml"
        config.write_text(self.settings())
        command = [os.environ["SLATEBERG_BIN"], "serve", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(self.directory / "data"), "--config", str(config)]
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout + ended.stderr, time.monotonic() - began


class Restarted(Slateberg):
    """A server on a directory that already has an admin key."""

    def _announced(self, pattern):
        return "-" if pattern.startswith("sb_") else super()._announced(pattern)


@pytest.fixture
def scene(emulator, tmp_path):
    scene = Scene(emulator, tmp_path)
    yield scene
    scene.stop()
    scene.door.stop()


def assert_refused(scene, *words):
    """The server fails to start, reports why, and changes no file."""
    before = {path: path.read_bytes() for path in (scene.directory / "data").rglob("*") if path.is_file()}
    code, said, seconds = scene.start_in_vain()
    assert code in (1, 65, 69, 77), said
    for word in words:
        assert word in said, said
    assert seconds < 10, f"it took {seconds:.1f} s"
    after = {path: path.read_bytes() for path in (scene.directory / "data").rglob("*") if path.is_file()}
    assert after == before


def test_a_start_asks_once_and_reading_and_writing_never(scene):
    began = time.monotonic()
    scene.start()
    assert time.monotonic() - began < 5, "a first start, with a table"
    assert scene.door.operations == ["Encrypt"]
    for number in range(20):
        scene.commit(f"p{number}")
    scene.stop()
    began = time.monotonic()
    scene.start()
    assert time.monotonic() - began < 2, "a start with the KMS"
    assert "p19" in scene.properties()
    assert scene.door.operations == ["Encrypt", "Decrypt"]


@pytest.mark.parametrize("outage", ["shut", "hangs"])
def test_a_kms_that_is_down_while_the_server_runs_does_no_harm(scene, outage):
    scene.start()
    scene.door.is_shut, scene.door.hangs_s = outage == "shut", 10 if outage == "hangs" else 0
    scene.commit("while-down")
    refused = scene.change("rotate")
    assert refused.status == 503 and refused.body["error"]["message"] == "The KMS does not answer"
    scene.commit("after-the-refusal")
    scene.door.is_shut, scene.door.hangs_s = False, 0
    assert scene.change("rotate").expect(200)["key-ring"]["active-data-key"] == 2
    scene.commit("with-the-new-key")
    scene.stop()
    scene.start()
    assert {"while-down", "after-the-refusal", "with-the-new-key"} <= set(scene.properties())


@pytest.mark.parametrize("outage", ["shut", "hangs"])
def test_a_kms_that_is_down_at_the_start_is_said_clearly(scene, outage):
    scene.start().stop()
    scene.door.is_shut, scene.door.hangs_s = outage == "shut", 10 if outage == "hangs" else 0
    assert_refused(scene, "the KMS cannot be reached")
    scene.door.is_shut, scene.door.hangs_s = False, 0
    scene.start()
    scene.properties()


def test_a_key_that_is_disabled_or_not_there_is_said_clearly(scene):
    scene.start()
    missing = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
    refused = scene.change("rewrap", {"wrapping-key": missing})
    assert refused.status == 422 and "NotFoundException" in refused.body["error"]["message"]
    scene.stop()
    scene.door.disabled = {scene.key}
    assert_refused(scene, "the KMS rejected the request", "DisabledException", scene.key)


def test_a_ring_that_was_touched_is_refused(scene):
    scene.start().stop()
    ring = scene.ring_file().read_text()
    wrapped = json.loads(ring)["data_keys"][0]["wrapped"]
    for word, touched in [
        # The KMS rejects a modified ciphertext.
        ("cannot be unwrapped", ring.replace(wrapped, wrapped[:60] + ("A" if wrapped[60] != "A" else "B") + wrapped[61:])),
        # The encryption context contains the catalog's id.
        ("cannot be unwrapped", ring.replace(json.loads(ring)["catalog"], "00000000-0000-4000-8000-000000000000")),
        ("tampered with", ring.replace('"revision": 1', '"revision": 2')),
        ("is not in the key ring", ring.replace('"active": 1', '"active": 2')),
    ]:
        assert touched != ring
        scene.ring_file().write_text(touched)
        assert_refused(scene, word)
    scene.ring_file().write_text(ring)
    scene.start()
    scene.properties()


def test_keys_are_rotated_and_wrapped_anew_under_load_and_the_old_one_can_go(scene):
    scene.start()
    committed = []

    def commit():
        name = f"p{len(committed)}-{time.monotonic_ns()}"
        scene.commit(name)
        committed.append(name)

    old, new = scene.key, scene.emulator.make_key()
    with Repeatedly(commit) as commits:
        for number in range(2, 6):
            commits.wait_for(5)
            assert scene.change("rotate").expect(200)["key-ring"]["active-data-key"] == number
        commits.wait_for(5)
        ring = scene.change("rewrap", {"wrapping-key": new}).expect(200)["key-ring"]
        assert {key["wrapping-key"] for key in ring["data-keys"]} == {new}
        commits.wait_for(5)
        # The server no longer needs the old key, not even for a rotation.
        scene.door.disabled = {old}
        ring = scene.change("rotate").expect(200)["key-ring"]
        assert ring["data-keys"][-1]["wrapping-key"] == new
        commits.wait_for(5)
    assert not commits.failures
    scene.stop()
    scene.start()
    assert set(committed) <= set(scene.properties())
