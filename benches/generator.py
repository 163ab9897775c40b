"""Runs the load generator `slateberg-bench` (`LOAD_GENERATOR`), which is in the same directory as the server."""

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

import install
import process
from results import Results
from servers import LOAD_GENERATOR, Etcd, Server

LATENCIES = ("mean_us", "p50_us", "p95_us", "p99_us", "max_us")


class Generator:
    """Runs scenarios against running servers, and stores the results."""

    def __init__(self, results: Results, rounds: int, seconds: float, warm_up_seconds: float):
        self.binary = LOAD_GENERATOR
        self.results = results
        self.rounds = rounds
        self.seconds = seconds
        self.warm_up_seconds = warm_up_seconds

    def run(
        self, part: str, scenario: str, servers: list[Server], round_: int | None = None, **flags
    ) -> None:
        """Measures one scenario on all servers in turn. The flags are those of `slateberg-bench run`."""
        flags = {
            "rounds": self.rounds,
            "seconds": self.seconds,
            "warm-up-seconds": self.warm_up_seconds,
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
        words = [self.binary, "run", "--scenario", scenario]
        for server in servers:
            words += ["--server", server.argument()]
        for name, value in flags.items():
            if value is True:
                words.append(f"--{name}")
            elif value is not False:
                words += [f"--{name}", _word(value)]
        self._collect(words, part, {} if round_ is None else {"round": round_})

    def warm_up(self, servers: list[Server], seconds: float) -> None:
        """Sends loads and commits whose results are dropped, because a Java server compiles its code while it runs."""
        with self._dropped_results():
            for scenario in ("load-table", "commit"):
                sizes = {"snapshots": [10], "connections": [10], "clients": [10]}
                self.run("warm-up", scenario, servers, rounds=1, seconds=seconds, **sizes)

    def scans(self, part: str, server: Server, files: tuple) -> None:
        """Measures plans of tables with these numbers of files. The smallest table is also the warm-up."""
        words = [self.binary, "scans", "--server", server.argument(), "--plans-only"]
        with self._dropped_results():
            self._collect([*words, "--files", str(files[0]), "--repeats", "20"], part, {})
        self._collect([*words, "--files", _word(files)], part, {})

    def local_plans(self, part: str, planners: install.LocalPlanners, server: Server) -> None:
        """Measures the same plans of clients that plan the scans of this server's tables by themselves."""
        words = [planners.python, install.HERE / "local_plans.py", server.url, "--jar", planners.jar]
        self._collect([str(word) for word in words], part, {})

    def bare_put(self, part: str, name: str, store: str, iterations: int, **flags) -> None:
        """Measures a write to an object store without a catalog."""
        words = [self.binary, "bare-put", "--name", name, "--store", store]
        words += ["--iterations", str(iterations), "--rounds", str(self.rounds)]
        environment = flags.pop("environment", {})
        for option, value in flags.pop("options", {}).items():
            words += ["-o", f"{option}={value}"]
        for flag, value in flags.items():
            words += [f"--{flag.replace('_', '-')}", _word(value)]
        self._collect(words, part, {}, environment)

    def etcd(self, part: str, server: Etcd, round_: int, steps: tuple = ()) -> None:
        """Measures etcd in these key-value steps, or in those of the scenario kv, with a driver of its own."""
        words = [server.driver, "--name", server.name, "--endpoint", _word(server.urls), "--pid", _word(server.pids)]
        words += ["--round", round_, "--seconds", self.seconds, "--warm-up-seconds", self.warm_up_seconds]
        words += ["--steps", _word(steps)] if steps else []
        self._collect([str(word) for word in words], part, {})

    @contextlib.contextmanager
    def _dropped_results(self):
        kept, self.results = self.results, Results([])
        try:
            yield
        finally:
            self.results = kept

    def _collect(self, words: list[str], part: str, members: dict, environment=None) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "rows.jsonl"
            done = subprocess.run(
                [*words, "--json", str(file)],
                env={**os.environ, **(environment or {})},
                preexec_fn=process.die_with_parent,
            )
            # Results from before a failure are stored as well.
            lines = file.read_text().splitlines() if file.exists() else []
        # Results are published, so they must not contain directories of this machine.
        lines = [line.replace(str(install.CACHE), "").replace(str(Path.home()), "~") for line in lines]
        rows = [{"part": part, **json.loads(line), **members} for line in lines]
        for row in rows:
            if not _is_plausible(row):
                print(f"omitted a result whose latency does not fit its throughput: {row}", flush=True)
                row |= dict.fromkeys(LATENCIES)
            self.results.add(row)
        # The generator fails if a server has lost a commit or reported its outcome incorrectly. The
        # report shows such a result, and the run continues.
        if done.returncode != 0 and not any(_is_untrue(row) for row in rows):
            raise RuntimeError(f"exit code {done.returncode} of {' '.join(words)}")


def _is_plausible(row: dict) -> bool:
    """Whether a row's latency fits its throughput: all clients wait for a response at any time, so the number of
    clients is about the throughput times the mean latency."""
    counted = row.get("requests", 0) >= 50 and not row.get("failures")
    # An append with retries counts as one request with many responses, and some steps end early.
    if not counted or row["scenario"] == "append-one" or not row.get("mean_us"):
        return True
    waiting = row["throughput"] * row["mean_us"] / 1e6
    return row["clients"] / 2 < waiting < row["clients"] * 2


def _is_untrue(row: dict) -> bool:
    extra = row.get("extra") or {}
    return any(extra.get(name) for name in ("lost", "untrue_refusals"))


def _word(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
