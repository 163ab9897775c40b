"""A server for each page of the documentation, as its reader would have it."""

import os
import re
import subprocess
import time

import pytest

READY_TIMEOUT_S = 60


class Server:
    """A slateberg that asks for credentials, on a free port and an empty directory."""

    def __init__(self, directory):
        self.log = directory / "server.log"
        words = [os.environ["SLATEBERG_BIN"], "serve", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        self.uri = self._announced(r"http://127\.0\.0\.1:\d+")
        self.key = self._announced(r"sb_\w{49}")

    def _announced(self, pattern):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not (found := re.search(pattern, self.log.read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"the server does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        return found.group()

    def stop(self):
        self._process.terminate()
        try:
            assert self._process.wait(30) == 0, self.log.read_text()
        finally:
            self._process.kill()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()
