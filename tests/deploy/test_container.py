"""The image's files and nothing else, on a root file system that cannot be written, as a user without rights: what
compose.yaml configures, beside a real MinIO.

It needs root, for the mounts, and a static binary (SLATEBERG_STATIC_BIN): make image-check.
"""

import os
import re
import shlex
import socket
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, checked, run

BINARY = os.environ.get("SLATEBERG_STATIC_BIN")
COMPOSE = yaml.safe_load((ROOT / "container/compose.yaml").read_text())["services"]
SETTINGS = yaml.safe_load((ROOT / "container/compose.yaml").read_text())["configs"]["settings"]["content"]
NOBODY = 65532

static = pytest.mark.skipif(not BINARY, reason="needs SLATEBERG_STATIC_BIN: make image-check has one")


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(url, process, log):
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.status
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{url} does not answer:\n{log.read_text()}") from None
            time.sleep(0.1)


@pytest.fixture
def minio(tmp_path):
    """A MinIO with the buckets of compose.yaml, which are directories to it."""
    installed = Path(os.environ["SLATEBERG_CACHE"]) / "bench/bin/minio"
    if not installed.exists():
        checked(ROOT / "scripts/tools", "minio")
        installed = Path(os.environ["SLATEBERG_CACHE"]) / "tools/bin/minio"
    *_, catalog, lake = COMPOSE["buckets"]["entrypoint"]
    for bucket in (catalog, lake):
        (tmp_path / "minio" / bucket.removeprefix("minio/")).mkdir(parents=True)
    port = free_port()
    log = tmp_path / "minio.log"
    with log.open("wb") as out:
        words = [installed, "server", tmp_path / "minio", "--address", f"127.0.0.1:{port}", "--quiet"]
        environment = {**os.environ, **COMPOSE["minio"]["environment"]}
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=environment)
    wait_for(f"http://127.0.0.1:{port}/minio/health/live", process, log)
    yield port
    process.terminate()
    process.wait(30)


@pytest.fixture
def files(tmp_path):
    """The image's root, as scripts/image puts it together."""
    context = tmp_path / "root"
    checked(ROOT / "scripts/image", BINARY, env={**os.environ, "IMAGE_CONTEXT": str(context)})
    return context


@static
def test_there_is_nothing_in_it_but_the_program(files):
    found = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
    assert found == {
        "usr/bin/slateberg",
        "usr/share/doc/slateberg/LICENSE",
        "etc/ssl/certs/ca-certificates.crt",
        "etc/passwd",
        "etc/group",
        "etc/nsswitch.conf",
    }
    assert (files / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 100


@static
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts of its own")
def test_it_runs_as_nobody_on_what_it_cannot_write(files, minio, tmp_path):
    port = free_port()
    settings = SETTINGS.replace("0.0.0.0:8181", f"127.0.0.1:{port}").replace("minio:9000", f"minio:{minio}")
    # What an engine puts over the image: the settings, names of hosts, a place for the cache, and devices.
    over = tmp_path / "over"
    over.mkdir()
    (over / "slateberg.toml").write_text(settings)
    (over / "hosts").write_text("127.0.0.1 localhost minio\n")
    for place in ("etc/slateberg/slateberg.toml", "etc/hosts", "dev/null", "dev/random", "dev/urandom"):
        (files / place).parent.mkdir(exist_ok=True)
        (files / place).touch()
    (files / "var/cache/slateberg").mkdir(parents=True)
    root = shlex.quote(str(files))
    # pytest's directories are closed to others than their owner, and the program is another.
    script = f"""
        set -e
        mkdir /tmp/image.$$
        trap 'rmdir /tmp/image.$$' EXIT
        mount --bind {root} /tmp/image.$$
        mount -o remount,bind,ro /tmp/image.$$
        mount --bind -o ro {over}/slateberg.toml /tmp/image.$$/etc/slateberg/slateberg.toml
        mount --bind -o ro {over}/hosts /tmp/image.$$/etc/hosts
        for device in null random urandom; do mount --bind /dev/$device /tmp/image.$$/dev/$device; done
        mount -t tmpfs -o uid={NOBODY},gid={NOBODY} tmpfs /tmp/image.$$/var/cache/slateberg
        chroot --userspec={NOBODY}:{NOBODY} /tmp/image.$$ /usr/bin/slateberg {shlex.join(COMPOSE["slateberg"]["command"])} &
        server=$!
        trap 'kill -TERM $server' TERM
        status=0
        wait $server || status=$?
        # A signal ends the wait, and not the server.
        if kill -0 $server 2>/dev/null; then status=0; wait $server || status=$?; fi
        umount -R /tmp/image.$$
        exit $status
    """
    log = tmp_path / "server.log"
    environment = {"PATH": os.environ["PATH"], **COMPOSE["slateberg"]["environment"]}
    with log.open("wb") as out:
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        assert wait_for(f"http://127.0.0.1:{port}/ready", process, log) == 200
        key = re.search(r"sb_\w{49}", log.read_text()).group()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/namespaces", method="POST")
        request.add_header("Authorization", f"Bearer {key}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, data=b'{"namespace": ["a"]}', timeout=30) as response:
            assert response.status == 200
        (written,) = [path for path in (tmp_path / "minio/catalog").iterdir() if not path.name.startswith(".")]
        assert written.name == "slateberg", "the state is in the bucket"
    finally:
        process.terminate()
        status = process.wait(60)
    assert status == 0, log.read_text()


def test_the_version_is_the_same_everywhere():
    chart = yaml.safe_load((ROOT / "helm/slateberg/Chart.yaml").read_text())
    assert chart["appVersion"] == version()
    assert COMPOSE["slateberg"]["image"] == f"slateberg:{version()}"
    assert f"slateberg:{version()}" in (ROOT / "docs/deployment.md").read_text()


def test_a_binary_that_wants_a_loader_is_no_image():
    done = run(ROOT / "scripts/image", "/bin/sh")
    assert done.returncode != 0 and "wants a loader" in done.stderr
