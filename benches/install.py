"""Builds and downloads the servers with which the benchmark compares slateberg. They are stored in the cache
(`$SLATEBERG_CACHE/bench`), not in the checkout, so that a second run installs nothing."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import process

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("SLATEBERG_CACHE", Path.home() / ".cache/slateberg")) / "bench"
BIN = CACHE / "bin"
JAVA_MIN = 21


class InstallError(Exception):
    """A component cannot be installed on this machine. The run continues without it."""


def once(name: str, version: str, build) -> None:
    """Calls `build` unless this version of the component is installed already."""
    stamp = CACHE / "installed" / name
    if stamp.exists() and stamp.read_text() == version:
        return
    print(f"install {name} {version} ...", flush=True)
    began = time.monotonic()
    build()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(version)
    print(f"install {name} {version}: {time.monotonic() - began:.0f} s", flush=True)


def command(words: list, directory: Path | None = None, environment: dict | None = None) -> None:
    """Runs a build at the lowest priority. Writes its output to a file, which error messages name."""
    log = CACHE / "logs" / f"{Path(str(words[0])).name}-{os.getpid()}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(log, "ab") as out:
            done = subprocess.run(
                ["nice", "-n", "19", *map(str, words)],
                cwd=directory or CACHE,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=process.die_with_parent,
            )
    except FileNotFoundError as error:
        raise InstallError(str(error)) from error
    if done.returncode != 0:
        tail = log.read_text(errors="replace")[-2000:]
        raise InstallError(f"{' '.join(map(str, words))} failed ({log}):\n{tail}")


def go(*words, directory: Path | None = None) -> None:
    """Runs `go ...` with separate module and build caches for the benchmark."""
    environment = {
        "GOPATH": str(CACHE / "go"),
        "GOCACHE": str(CACHE / "gocache"),
        "GOBIN": str(BIN),
        "GOFLAGS": "-modcacherw",
    }
    command(["go", *words], directory, environment)


def cargo_install(crate: str, version: str) -> Path:
    """Runs `cargo install` with a separate build directory. Returns the path of the binary."""
    words = ["cargo", "install", crate, "--version", version, "--locked", "--root", CACHE / crate]
    command(words, environment={"CARGO_TARGET_DIR": str(CACHE / "target")})
    return CACHE / crate / "bin" / crate


def maven(*words) -> None:
    command(["mvn", "--quiet", "--batch-mode", *words])


def java() -> Path:
    """Returns the newest Java of this machine. Raises InstallError if it is too old for the Java servers."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    found = {}
    for home in homes:
        release = home / "release"
        if (home / "bin/java").exists() and release.exists():
            version = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
            if version:
                found[int(version[1])] = home / "bin/java"
    if not found or max(found) < JAVA_MIN:
        raise InstallError(f"no Java {JAVA_MIN} or newer: set JAVA_HOME")
    return found[max(found)]


def venv_python() -> Path:
    """Returns the Python interpreter of a virtual environment in which requirements.txt is installed."""
    python = CACHE / "venv/bin/python"
    wanted = (HERE / "requirements.txt").read_text()

    def build():
        command([sys.executable, "-m", "venv", CACHE / "venv"])
        words = ["-m", "pip", "install", "--quiet", "--requirement", HERE / "requirements.txt"]
        command([python, *words])

    once("venv", wanted.splitlines()[-1], build)
    return python


class LocalPlanners:
    """PyIceberg and Iceberg's Java library of tests/clients, which plan scans by themselves."""

    name = "local planners"
    long_install = True
    python = CACHE.parent / "venv/bin/python"
    runtime = "iceberg-spark-runtime-4.1_2.13"
    version = "1.12.0"
    jar = CACHE.parent / f"jars/{runtime}-{version}.jar"

    def install(self) -> None:
        command([HERE.parent / "scripts/venv", CACHE.parent / "venv", HERE.parent / "tests/clients/requirements.txt"])
        if not self.jar.exists():
            artifact = f"-Dartifact=org.apache.iceberg:{self.runtime}:{self.version}"
            maven("dependency:copy", artifact, f"-DoutputDirectory={self.jar.parent}")
