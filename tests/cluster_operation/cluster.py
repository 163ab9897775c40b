"""A cluster of three members on a bucket, behind a proxy."""

import json
import os
import subprocess

from processes import Process
from web import free_port, request

NAMES = ["a", "b", "c"]

NGINX = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/nginx-errors.log;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    client_max_body_size 64m;
    upstream members {{
        {servers}
        keepalive 32;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://members;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_next_upstream error;
        }}
    }}
}}
"""


class Member:
    """A member that keeps its ports when it is started again."""

    def __init__(self, name, directory, environment):
        self.name, self.port = name, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._log = directory / f"{name}.log"
        self._environment = {**environment, "SLATEBERG__CLUSTER__NAME": name}
        self._command = [os.environ["SLATEBERG_BIN"], "serve", "--insecure-no-auth"]
        self._command += ["--listen", f"127.0.0.1:{self.port}", "--data-dir", str(directory / "data")]
        self.start()

    def start(self):
        self._process = Process(self._command, self._log, self._environment)
        self._process.wait_until(self.is_ready, 60)

    def is_ready(self):
        try:
            return request("GET", f"{self.uri}/ready").status == 200
        except OSError:
            return False

    def replace(self):
        """Stops the member, and starts it again as a new process with the same addresses."""
        self.stop()
        self.start()

    def stop(self):
        code = self._process.stop(60)
        assert code == 0, f"{self.name} ended with {code}:\n{self._process.said()[-4000:]}"

    def end(self):
        if self._process.runs:
            self._process.kill()


class Cluster:
    """Three members, one of which is the writer."""

    def __init__(self, directory):
        warehouse = directory / "warehouse"
        warehouse.mkdir()
        self._environment = {
            "SLATEBERG__STATE__URL": f"{os.environ['SLATEBERG_TEST_STORE']}/{directory.name}/state",
            "SLATEBERG__WAREHOUSES__DEFAULT__LOCATION": f"file://{warehouse}",
            "SLATEBERG__CLUSTER__ENABLED": "true",
            "SLATEBERG__CLUSTER__LISTEN": "127.0.0.1:0",
        }
        self._data = directory / "data"
        self.members = []
        for name in NAMES:
            self.members.append(Member(name, directory, self._environment))

    def command(self, *words, code=0):
        """Runs a command with the settings of a member, and returns its output as JSON."""
        command = [os.environ["SLATEBERG_BIN"], *words, "--output", "json"]
        environment = {**os.environ, **self._environment}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180, check=False)
        assert ended.returncode == code, f"{command} exits with {ended.returncode}: {ended.stdout} {ended.stderr}"
        return json.loads(ended.stdout) if code == 0 else ended.stderr

    def offline(self, *words, code=0):
        """Runs a command that accesses the bucket itself."""
        return self.command(*words, "--data-dir", str(self._data), code=code)

    def online(self, member, *words, code=0):
        """Runs a command that sends requests to a member."""
        return self.command(*words, "--url", member.uri, code=code)

    def writer(self):
        name = self.offline("cluster", "status")["writer"]["holder"]["name"]
        return next(member for member in self.members if member.name == name)

    def standbys(self):
        writer = self.writer()
        return [member for member in self.members if member is not writer]

    def replace_all(self):
        """Replaces one member after the other, and the writer last."""
        for member in [*self.standbys(), self.writer()]:
            member.replace()

    def stop(self):
        """Stops all members, and checks the store."""
        for member in self.members:
            member.stop()
        self.offline("fsck")

    def end(self):
        for member in self.members:
            member.end()


class Proxy:
    """An nginx that distributes requests to the members. If a member rejects the connection, it sends the request to
    another member."""

    def __init__(self, directory, members):
        port = free_port()
        self.uri = f"http://127.0.0.1:{port}"
        servers = "\n        ".join(f"server 127.0.0.1:{member.port} max_fails=0;" for member in members)
        self._errors = directory / "nginx-errors.log"
        settings = directory / "nginx.conf"
        settings.write_text(NGINX.format(directory=directory, port=port, servers=servers))
        command = [os.environ["NGINX"], "-c", str(settings), "-p", str(directory), "-e", str(directory / "nginx.log")]
        self._process = Process(command, directory / "nginx-output.log")
        self._process.wait_until(self._responds, 30)

    def _responds(self):
        try:
            return request("GET", f"{self.uri}/v1/config").status == 200
        except OSError:
            return False

    def cut_requests(self):
        """The errors other than rejected connections. nginx also repeats reads that it has sent, so that clients do
        not notice all of them."""
        errors = self._errors.read_text().splitlines()
        return [error for error in errors if "Connection refused" not in error]

    def end(self):
        self._process.kill()
