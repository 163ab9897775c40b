"""slateberg as installed on an operator's machine: a program on the path and a settings file."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from processes import Process
from web import request

EXAMPLE = Path(__file__).resolve().parents[2] / "config/production.example.toml"


class Settings:
    """A settings file, modified line by line."""

    def __init__(self, file):
        self.file = file

    def set(self, section, **values):
        """Sets values of a section. Replaces or adds their lines. Values are valid as JSON and as
        TOML."""
        lines = self.file.read_text().splitlines()
        if f"[{section}]" not in lines:
            lines += ["", f"[{section}]"]
        for key, value in values.items():
            begin = lines.index(f"[{section}]") + 1
            end = next((at for at in range(begin, len(lines)) if lines[at].startswith("[")), len(lines))
            known = [at for at in range(begin, end) if lines[at].partition("=")[0].strip() == key]
            lines[known[0] if known else begin : known[0] + 1 if known else begin] = [f"{key} = {json.dumps(value)}"]
        self.file.write_text("\n".join(lines) + "\n")

    def copy(self, file, without=()):
        """Copies the settings to another file, without some sections."""
        text = self.file.read_text()
        for section in without:
            before, _, after = text.partition(f"[{section}]\n")
            assert after, f"there is a section {section}"
            text = before + "".join(after.partition("\n[")[1:])
        file.write_text(text)
        return Settings(file)


class Installation:
    """Everything is in one directory, which is empty before `install`."""

    def __init__(self, directory, environment):
        self.directory = directory
        self.bin, self.etc, self.log = directory / "bin", directory / "etc", directory / "log"
        self.settings = Settings(self.etc / "slateberg.toml")
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        # The proxies of this machine do not apply to the loopback.
        direct = {name: "127.0.0.1,localhost" for name in ("NO_PROXY", "no_proxy")}
        self.environment = {**os.environ, **direct, **environment, "PATH": path}
        self._processes = []

    def install(self):
        """Unpacks the release archive if there is one, or else installs the built program and the
        example."""
        for directory in (self.bin, self.etc, self.log):
            directory.mkdir(parents=True)
        archive = os.environ.get("RELEASE_ARCHIVE")
        if not archive:
            shutil.copy(os.environ["SLATEBERG_BIN"], self.bin / "slateberg")
            shutil.copy(EXAMPLE, self.settings.file)
            return
        archive = Path(archive)
        words = ["sha256sum", "--check", "--ignore-missing", "SHA256SUMS"]
        checked = subprocess.run(words, cwd=archive.parent, capture_output=True, text=True)
        assert checked.returncode == 0 and f"{archive.name}: OK" in checked.stdout, checked
        with tarfile.open(archive) as packed:
            packed.extractall(self.directory, filter="data")
        unpacked = self.directory / archive.name.removesuffix(".tar.gz")
        shutil.move(unpacked / "slateberg", self.bin / "slateberg")
        shutil.move(unpacked / "production.example.toml", self.settings.file)

    def run(self, *words, config=None, fails=False, **more):
        """Runs a subcommand and returns its output. Further keywords are environment variables in
        lower case."""
        words = ["slateberg", *map(str, words), *(["--config", str(config)] if config else [])]
        environment = self.environment | {name.upper(): str(value) for name, value in more.items()}
        done = subprocess.run(words, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode != 0) == fails, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, settings=None):
        """Starts a server and waits until it is ready."""
        settings = settings or self.settings
        log = self.log / f"{settings.file.stem}.log"
        # The log also contains the output of earlier starts.
        begin = log.stat().st_size if log.exists() else 0
        process = Process(["slateberg", "serve", "--config", str(settings.file)], log, self.environment)
        self._processes.append(process)
        return Server(process, begin, self.etc / "ca.pem")

    def stop(self):
        """Stops all processes that still run."""
        for process in self._processes:
            process.stop()


class Server:
    """A running server. The line of its log with the message `ready` contains its addresses."""

    def __init__(self, process, begin, ca_file):
        self.process = process
        self.ca_file = ca_file
        self._begin = begin
        ready = self.process.wait_until(self._ready_fields, 60)
        self.uri, self.management_uri = ready["url"], ready["management-url"]
        assert self.ask("GET", "/ready").status == 200

    def said(self):
        """The output since the start."""
        return self.process.log.read_bytes()[self._begin :].decode(errors="replace")

    def _ready_fields(self):
        """The fields of the line with the message `ready`. `None` before this line is complete."""
        lines = self.said().splitlines(keepends=True)
        # Libraries may print lines that are not JSON.
        logged = (json.loads(line)["fields"] for line in lines if line.startswith("{") and line.endswith("\n"))
        return next((fields for fields in logged if fields["message"] == "ready"), None)

    def ask(self, method, path, body=None, *, token=None, headers=None):
        return self._request(method, self.uri + path, body, token, headers)

    def manage(self, method, path, *, token):
        return self._request(method, self.management_uri + path, None, token, None)

    def _request(self, method, url, body, token, headers):
        return request(method, url, token=token, json_body=body, headers=headers, ca_file=str(self.ca_file))

    def stop(self):
        """Stops the server as the system would, and expects a clean exit."""
        code = self.process.stop(timeout_s=60)
        assert code == 0, f"{code}: {self.said()[-4000:]}"
