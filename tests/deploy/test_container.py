"""The image's files with the settings of compose.yaml, next to a real MinIO: on a read-only root
file system, as an unprivileged user.

Requires root for the mounts, and a static binary (SLATEBERG_STATIC_BIN): make image-check. If
buildah is installed, the tests also build and run the image itself.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, checked, run
from web import free_port

BINARY = os.environ.get("SLATEBERG_STATIC_BIN")
COMPOSE = yaml.safe_load((ROOT / "container/compose.yaml").read_text())["services"]
SETTINGS = yaml.safe_load((ROOT / "container/compose.yaml").read_text())["configs"]["settings"]["content"]
NOBODY = 65532

static = pytest.mark.skipif(not BINARY, reason="needs SLATEBERG_STATIC_BIN: make image-check has one")


root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts of its own")
buildah = pytest.mark.skipif(not shutil.which("buildah"), reason="needs buildah: apt-get install buildah")


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


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
    """A MinIO with the buckets of compose.yaml, as directories."""
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
    """The image's root directory, assembled by scripts/image."""
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


class Engine:
    """buildah with its own image directory, so that tests are independent and leave nothing
    behind."""

    TAG = f"slateberg:{version()}"

    def __init__(self, directory):
        directory.mkdir()
        configuration = directory / "storage.conf"
        # This driver works on any file system.
        places = {"driver": "vfs", "graphroot": f"{directory}/images", "runroot": f"{directory}/run"}
        configuration.write_text("[storage]\n" + "".join(f'{key} = "{place}"\n' for key, place in places.items()))
        self.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(configuration), "IMAGE_ENGINE": "buildah"}

    def build(self, binary=BINARY, **options):
        checked(ROOT / "scripts/image", binary, self.TAG, env=self.environment, **options)

    def do(self, *words):
        return checked("buildah", *words, env=self.environment).strip()

    def image(self):
        return json.loads(self.do("inspect", "--type", "image", self.TAG))


@pytest.fixture
def engine(tmp_path):
    engine = Engine(tmp_path / "engine")
    yield engine
    engine.do("rm", "--all")


@static
@root
@buildah
def test_the_same_files_make_the_same_image(engine, tmp_path):
    engine.build()
    # A second build with other file times, in an empty image store.
    copy = Path(shutil.copyfile(BINARY, tmp_path / "a-copy"))
    os.utime(copy, (1, 1))
    another = Engine(tmp_path / "another")
    another.build(copy, umask=0o077)
    digest = engine.image()["FromImageDigest"]
    assert digest.startswith("sha256:") and another.image()["FromImageDigest"] == digest

    changed = Engine(tmp_path / "changed")
    with copy.open("ab") as binary:
        binary.write(b"\0")
    changed.build(copy)
    assert changed.image()["FromImageDigest"] != digest


def descendants(pid):
    """Descendant processes, parents before children."""
    # Each thread lists its own child processes.
    children = [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return [found for child in children for found in (child, *descendants(child))]


@static
@root
@buildah
def test_the_image_runs(engine, tmp_path):
    engine.build()
    config = engine.image()["OCIv1"]["config"]
    assert (config["User"], config["StopSignal"]) == ("65532:65532", "SIGTERM")
    words = [*config["Entrypoint"], *config["Cmd"]]
    listen, data = (words.index(option) + 1 for option in ("--listen", "--data-dir"))
    assert config["ExposedPorts"] == {words[listen].rpartition(":")[2] + "/tcp": {}}
    # The container shares the network of this machine.
    words[listen] = "127.0.0.1:0"

    container = engine.do("from", engine.TAG)
    start = ["buildah", "run", "--isolation", "chroot"]
    assert engine.do(*start[1:], container, "--", words[0], "-V") == f"slateberg {version()}"
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, NOBODY, NOBODY)
    start += ["--volume", f"{volume}:{words[data]}", container, "--", *words]
    log = tmp_path / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(start, stdout=out, stderr=subprocess.STDOUT, env=engine.environment)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        for path in ("/health", "/ready"):
            assert wait_for(found.group() + path, process, log) == 200
        server = descendants(process.pid)[-1]
        assert Path(f"/proc/{server}/exe").readlink().name == "slateberg"
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{server}/status").read_text().splitlines())
        assert set(status["Uid"].split()) == {str(NOBODY)} and int(status["CapEff"], 16) == 0
        # Send the stop signal directly: buildah, unlike container engines, does not forward
        # signals.
        os.kill(server, getattr(signal, config["StopSignal"]))
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            # Processes started by buildah outlive it.
            for pid in (*descendants(process.pid), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait(30)
    assert (volume / "state").is_dir(), "the state is on the volume"


@pytest.fixture(params=["files", pytest.param("image", marks=buildah)])
def image_root(request):
    """The root directory of a container: the assembled files, or the built image."""
    if request.param == "files":
        return request.getfixturevalue("files")
    engine = request.getfixturevalue("engine")
    engine.build()
    return Path(engine.do("mount", engine.do("from", engine.TAG)))


@static
@root
def test_it_runs_as_nobody_on_what_it_cannot_write(image_root, minio, tmp_path):
    port = free_port()
    settings = SETTINGS.replace("0.0.0.0:8181", f"127.0.0.1:{port}").replace("minio:9000", f"minio:{minio}")
    # Files that an engine mounts over the image: settings, host names, the cache directory, and
    # devices.
    over = tmp_path / "over"
    over.mkdir()
    (over / "slateberg.toml").write_text(settings)
    (over / "hosts").write_text("127.0.0.1 localhost minio\n")
    for place in ("etc/slateberg/slateberg.toml", "etc/hosts", "dev/null", "dev/random", "dev/urandom"):
        (image_root / place).parent.mkdir(exist_ok=True)
        (image_root / place).touch()
    (image_root / "var/cache/slateberg").mkdir(parents=True)
    root = shlex.quote(str(image_root))
    # pytest's directories are accessible to their owner only, and the server runs as another user.
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
    assert done.returncode != 0 and "needs a dynamic loader" in done.stderr
