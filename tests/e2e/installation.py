"""slateberg as an operator has it on a machine: a program on the path, a file of settings, and what both are told."""

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
    """A file of settings, whose lines are changed one by one."""

    def __init__(self, file):
        self.file = file

    def set(self, section, **values):
        """Changes settings of a section, whose line stands there or is added; values are those of JSON and of TOML."""
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
        """The same settings in another file, but for some sections."""
        text = self.file.read_text()
        for section in without:
            before, _, after = text.partition(f"[{section}]\n")
            assert after, f"there is a section {section}"
            text = before + "".join(after.partition("\n[")[1:])
        file.write_text(text)
        return Settings(file)


class Installation:
    """Everything is below one directory, and nothing is there before `install`."""

    def __init__(self, directory, environment):
        self.directory = directory
        self.bin, self.etc, self.log = directory / "bin", directory / "etc", directory / "log"
        self.settings = Settings(self.etc / "slateberg.toml")
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        # The proxies of this machine are not meant for the loopback.
        direct = {name: "127.0.0.1,localhost" for name in ("NO_PROXY", "no_proxy")}
        self.environment = {**os.environ, **direct, **environment, "PATH": path}
        self._processes = []

    def install(self):
        """Unpacks the archive of a release, if there is one, or puts the program and the example where it would."""
        for directory in (self.bin, self.etc, self.log):
            directory.mkdir(parents=True)
        archive = os.environ.get("SLATEBERG_ARCHIVE")
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
        """Runs a subcommand to its end; what it printed. Further variables are written in lower case."""
        words = ["slateberg", *map(str, words), *(["--config", str(config)] if config else [])]
        environment = self.environment | {name.upper(): str(value) for name, value in more.items()}
        done = subprocess.run(words, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode != 0) == fails, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, settings=None):
        """Starts a server; it is there when this returns."""
        settings = settings or self.settings
        log = self.log / f"{settings.file.stem}.log"
        # What an earlier start has said stays in front of it.
        begin = log.stat().st_size if log.exists() else 0
        process = Process(["slateberg", "serve", "--config", str(settings.file)], log, self.environment)
        self._processes.append(process)
        return Server(process, begin, self.etc / "ca.pem")

    def stop(self):
        """Ends whatever runs still."""
        for process in self._processes:
            process.stop()


class Server:
    """A running server, which says in its first lines where it is."""

    def __init__(self, process, begin, ca_file):
        self.process = process
        self.ca_file = ca_file
        self._begin = begin
        self.uri = self.process.wait_until(lambda: self._told("is ready at "), 60)
        self.management_uri = self.process.wait_until(lambda: self._told("  management  "), 10)
        assert self.ask("GET", "/ready").status == 200

    def said(self):
        """What it has said since it was started."""
        return self.process.log.read_bytes()[self._begin :].decode(errors="replace")

    def _told(self, before):
        line = self.said().partition(before)[2].partition("\n")
        return line[0] if line[1] else None

    def ask(self, method, path, body=None, *, token=None, headers=None):
        return self._request(method, self.uri + path, body, token, headers)

    def manage(self, method, path, *, token):
        return self._request(method, self.management_uri + path, None, token, None)

    def _request(self, method, url, body, token, headers):
        return request(method, url, token=token, json_body=body, headers=headers, ca_file=str(self.ca_file))

    def stop(self):
        """Stops it as the system would; it has to end in order."""
        code = self.process.stop(timeout_s=60)
        assert code == 0, f"{code}: {self.said()[-4000:]}"
