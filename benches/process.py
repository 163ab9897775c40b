"""Child processes that never outlive the benchmark, and their CPU time and memory as reported by Linux."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
STOP_SECONDS = 30


def free_port() -> int:
    """Returns a port on which no process listens at present."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def die_with_parent() -> None:
    """Runs in the child process, and lets the kernel kill it when the benchmark ends in any way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A server under test. It runs in a process group of its own, and its output is in a file."""

    def __init__(self, command: list, directory: Path, environment: dict | None = None):
        self.command = [str(word) for word in command]
        self.log_path = directory / f"{Path(self.command[0]).name}.log"
        self.log = open(self.log_path, "ab")
        self.began = time.perf_counter()
        self.child = subprocess.Popen(
            self.command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            # A group of its own, but no session: Linux shares the processors between sessions, so clients that run
            # only while the processors are idle would get as much time as the server.
            process_group=0,
            preexec_fn=die_with_parent,
        )

    @property
    def pid(self) -> int:
        return self.child.pid

    def output(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_for(self, ready, seconds: float, pause: float = 0.1) -> float:
        """Calls `ready` until it returns a true value. Returns the seconds since the start."""
        while time.perf_counter() - self.began < seconds:
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.command[0]} ended:\n{self.output()[-3000:]}")
            if ready():
                return time.perf_counter() - self.began
            time.sleep(pause)
        raise RuntimeError(f"{self.command[0]} is not ready in {seconds} s:\n{self.output()[-3000:]}")

    def stop(self) -> None:
        """Terminates the process, and then kills all processes of its group that are left."""
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        self.log.close()


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time that a process has used so far."""
    text = Path(f"/proc/{pid}/stat").read_text()
    # The name is in parentheses and may contain spaces. utime and stime are fields 14 and 15 (proc(5)).
    fields = text[text.rindex(")") + 1 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> tuple[float, float]:
    """Returns the current resident memory of a process, and its peak."""
    values = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        values[key] = value.split()
    return int(values["VmRSS"][0]) / 1024, int(values["VmHWM"][0]) / 1024
