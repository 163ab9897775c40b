"""Calls of the load generator `slateberg-bench`, which is built beside the server (`LOAD_GENERATOR`)."""

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
    """Runs scenarios against servers that have been started, and files what comes of them."""

    def __init__(self, results: Results, rounds: int, seconds: float, warm_up_seconds: float):
        self.binary = LOAD_GENERATOR
        self.results = results
        self.rounds = rounds
        self.seconds = seconds
        self.warm_up_seconds = warm_up_seconds

    def run(
        self, part: str, scenario: str, servers: list[Server], round_: int | None = None, **flags
    ) -> None:
        """One scenario on all servers, in turns. Flags are those of `slateberg-bench run`."""
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
        """Loads and commits that count nowhere: a Java server compiles itself while it works."""
        kept, self.results = self.results, Results([])
        try:
            for scenario in ("load-table", "commit"):
                sizes = {"snapshots": [10], "connections": [10], "clients": [10]}
                self.run("warm-up", scenario, servers, rounds=1, seconds=seconds, **sizes)
        finally:
            self.results = kept

    def bare_put(self, part: str, name: str, store: str, iterations: int, **flags) -> None:
        """What one write to an object store costs without a catalog."""
        words = [self.binary, "bare-put", "--name", name, "--store", store]
        words += ["--iterations", str(iterations), "--rounds", str(self.rounds)]
        environment = flags.pop("environment", {})
        for option, value in flags.pop("options", {}).items():
            words += ["-o", f"{option}={value}"]
        for flag, value in flags.items():
            words += [f"--{flag.replace('_', '-')}", _word(value)]
        self._collect(words, part, {}, environment)

    def etcd(self, part: str, server: Etcd, round_: int) -> None:
        """etcd's turn in the key-value steps, by a driver of its own."""
        words = [server.driver, "--endpoint", server.url, "--pid", server.pid, "--round", round_]
        words += ["--seconds", self.seconds, "--warm-up-seconds", self.warm_up_seconds]
        self._collect([str(word) for word in words], part, {})

    def _collect(self, words: list[str], part: str, members: dict, environment=None) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "rows.jsonl"
            done = subprocess.run(
                [*words, "--json", str(file)],
                env={**os.environ, **(environment or {})},
                preexec_fn=process.die_with_parent,
            )
            # What was measured before a failure counts as well.
            lines = file.read_text().splitlines() if file.exists() else []
        # Results are for others to read: directories of this machine are none of them.
        lines = [line.replace(str(install.CACHE), "").replace(str(Path.home()), "~") for line in lines]
        rows = [{"part": part, **json.loads(line), **members} for line in lines]
        for row in rows:
            if not _is_plausible(row):
                print(f"latencies that cannot be, left out: {row}", flush=True)
                row |= dict.fromkeys(LATENCIES)
            self.results.add(row)
        # A server that lost a commit, or lied about one, makes the generator fail at its end. That is
        # a result, which the report shows, and no reason to stop.
        if done.returncode != 0 and not any(_is_untrue(row) for row in rows):
            raise RuntimeError(f"exit code {done.returncode} of {' '.join(words)}")


def _is_plausible(row: dict) -> bool:
    """Whether latency and throughput tell the same story: clients that send their next request when the
    last is answered are, all together, always waiting, so that one follows from the other."""
    counted = row.get("requests", 0) >= 50 and not row.get("failures")
    # An append that is tried again and again is one request of many answers; some steps end early.
    if not counted or row["scenario"] == "append-one" or not row.get("mean_us"):
        return True
    waiting = row["throughput"] * row["mean_us"] / 1e6
    return row["clients"] / 2 < waiting < row["clients"] * 2


def _is_untrue(row: dict) -> bool:
    extra = row.get("extra") or {}
    return any(extra.get(name) for name in ("lost", "untrue_refusals"))


def _word(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
