"""Server processes that end with their test."""

import os
import re
import signal
import subprocess
import threading
import time


class Process:
    """A running program with its output in a file."""

    def __init__(self, command, log, environment=None):
        self.log = log
        self._output = log.open("ab")
        # A separate process group, so that its child processes end with it.
        self._process = subprocess.Popen(
            command,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    @property
    def runs(self):
        return self._process.poll() is None

    def wait_until(self, is_ready, timeout_s):
        deadline = time.monotonic() + timeout_s
        while not (found := is_ready()):
            if not self.runs:
                raise AssertionError(f"{self.log} ended with {self._process.returncode}:\n{self.said()[-4000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.log} is not ready after {timeout_s} s:\n{self.said()[-4000:]}")
            time.sleep(0.1)
        return found

    def said(self):
        return self.log.read_text(errors="replace")

    def ask_to_end(self):
        """Sends SIGTERM without waiting."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s):
        """Waits for the end. Returns the exit code, which is negative if a signal ended the
        process."""
        return self._process.wait(timeout_s)

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()

    def stop(self, timeout_s=30):
        if self.runs:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._output.close()
        return self._process.returncode


class Slateberg:
    """A slateberg with these settings, on a free port and in an empty directory."""

    def __init__(self, directory, settings):
        config = directory / "settings.toml"
        config.write_text(settings)
        command = [os.environ["SLATEBERG_BIN"], "serve", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(directory / "data"), "--config", str(config)]
        self._process = Process(command, directory / "slateberg.log")
        self.uri = self._process.wait_until(lambda: self._announced(r"http://127\.0\.0\.1:\d+"), 60)
        self.admin_key = self._process.wait_until(lambda: self._announced(r"sb_\w{49}"), 60)

    def _announced(self, pattern):
        found = re.search(pattern, self._process.said())
        return found and found.group()

    def said(self):
        return self._process.said()

    def stop(self):
        assert self._process.stop() == 0, "it stops in order"


class Repeatedly:
    """Repeats work on threads until the context is left."""

    def __init__(self, work, threads=2):
        self._done = threading.Event()
        self._work = work
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        self.results = []
        self.failures = []

    def _run(self):
        while not self._done.is_set():
            try:
                self.results.append(self._work())
            except Exception as error:  # Any exception fails the test.
                self.failures.append(error)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.failures.append(TimeoutError("the work does not end"))

    def wait_for(self, more):
        """Waits for this number of further rounds."""
        wanted = len(self.results) + more
        deadline = time.monotonic() + 60
        while len(self.results) < wanted and not self.failures and time.monotonic() < deadline:
            time.sleep(0.05)
