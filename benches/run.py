#!/usr/bin/env python3
"""Measures slateberg and other servers: `make bench`, or by hand

    SLATEBERG_BIN=.../release/slateberg benches/run.py [--quick] [--only PART,...]

Installs the servers, starts each of them on the loopback interface with a directory of its own, and runs the load
generator. Then prints tables and the figures to reach, and draws plots. A missed figure is not a failure: the exit
code is nonzero only if a part could not be measured.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True

import figures
import install
import page_cache
import process
import report
import servers
from generator import Generator
from results import UNSUPPORTED, Results

ROOT = install.HERE.parent
RESULTS = install.HERE / "results/latest.jsonl"
PLOTS = ROOT / "docs/benchmarks"
BARE_PUT_BYTES = 4096
# The steps of the load generator's scenario cluster-kv.
CLUSTER_STEPS = ("seq_put", "par_put", "seq_get", "par_get", "mixed", "seq_get_stale", "par_get_stale")


@dataclass(frozen=True)
class Sizes:
    """The sizes and durations of the measurements."""

    rounds: int
    seconds: float
    warm_up_seconds: float
    # Duration of the warm-up before all parts, for servers whose code is compiled while they run.
    catalogs_warm_up_seconds: float
    iterations: int
    # Iterations of operations that take long: appends to tables with a history.
    slow_iterations: int
    connections: tuple
    clients: tuple
    snapshots: tuple
    # Numbers of snapshots of the tables to which snapshots are appended.
    appended: tuple
    tables: tuple
    # Numbers of files of the tables whose scans are planned.
    files: tuple
    idle_seconds: int
    # Duration of the appends to a table that is maintained at the same time.
    sustained_seconds: int


FULL = Sizes(
    rounds=3,
    seconds=3,
    warm_up_seconds=1,
    catalogs_warm_up_seconds=8,
    iterations=300,
    slow_iterations=30,
    connections=(1, 10, 50, 100, 200),
    clients=(1, 10, 100),
    snapshots=(1, 100, 1000),
    appended=(10, 1000, 10_000),
    tables=(1_000, 100_000, 1_000_000),
    files=(10_000, 100_000, 1_000_000),
    idle_seconds=180,
    sustained_seconds=60,
)
QUICK = Sizes(
    rounds=1,
    seconds=1,
    warm_up_seconds=0.5,
    catalogs_warm_up_seconds=2,
    iterations=50,
    slow_iterations=10,
    connections=(1, 100),
    clients=(1, 100),
    snapshots=(1, 100),
    appended=(10, 1000),
    tables=(1_000, 10_000),
    files=(10_000,),
    idle_seconds=30,
    sustained_seconds=3,
)


class Run:
    """The state that all parts share: sizes, installed servers, and the destination of results."""

    def __init__(self, quick: bool, directory: Path, results: Results):
        self.quick = quick
        self.sizes = QUICK if quick else FULL
        self.directory = directory
        self.results = results
        sizes = self.sizes
        self.generator = Generator(results, sizes.rounds, sizes.seconds, sizes.warm_up_seconds)
        self.missing = {}

    def can_have(self, server: servers.Server) -> bool:
        """Installs a server. If this fails, stores and prints the reason once, and returns False."""
        if self.quick and server.long_install:
            self.missing.setdefault(server.name, "not in the quick run, because its build takes long")
        elif server.name not in self.missing:
            try:
                server.install()
                return True
            except install.InstallError as error:
                self.missing[server.name] = str(error)
                # The error itself is omitted, since it contains directories of this machine.
                why = "cannot be installed"
                self.results.add({"part": "install", "server": server.name, UNSUPPORTED: why})
                print(f"{server.name} cannot be installed: {error}", flush=True)
        return False

    @contextlib.contextmanager
    def started(self, *wanted: servers.Server):
        """Starts servers, each in an empty directory, and stops them at the end, also after an error.

        The directories exist until all parts are measured. For some minutes after a file was deleted, ext4 does not
        reuse its inode, and a new file takes longer because ext4 searches for another inode.
        """
        with contextlib.ExitStack() as stack:
            running = []
            for server in wanted:
                directory = Path(tempfile.mkdtemp(prefix=f"{server.name}-", dir=self.directory))
                stack.callback(server.stop)
                server.start(directory)
                running.append(server)
            yield running

    @contextlib.contextmanager
    def catalogs(self):
        """slateberg, which is the reference, and every other catalog that can be installed."""
        with contextlib.ExitStack() as stack:
            wanted = [servers.Slateberg()]
            minio = servers.Minio()
            nessie = servers.Nessie(minio)
            for peer in (servers.JavaFixture(), servers.Rustberg()):
                wanted += [peer] if self.can_have(peer) else []
            if self.can_have(minio) and self.can_have(nessie):
                stack.enter_context(self.started(minio))
                wanted.append(nessie)
            running = stack.enter_context(self.started(*wanted))
            self.generator.warm_up(running, self.sizes.catalogs_warm_up_seconds)
            yield running


def operations(run: Run) -> None:
    """Each operation of a catalog, by one client."""
    with run.catalogs() as all_of_them:
        flags = {"iterations": run.sizes.iterations, "slow_iterations": run.sizes.slow_iterations}
        flags |= {"load_snapshots": run.sizes.snapshots, "append_snapshots": run.sizes.appended}
        run.generator.run("operations", "operations", all_of_them, **flags)


def load_table(run: Run) -> None:
    """Reads of one table over many connections, compared with a handler that only returns the same bytes."""
    sizes = run.sizes
    few, *more = sizes.snapshots
    with run.catalogs() as all_of_them:
        # The small table is read with every number of connections, larger tables with the lowest and the highest.
        plans = [([few], sizes.connections), (more, (1, 100))]
        for snapshots, connections in plans:
            flags = {"snapshots": snapshots, "connections": connections, "bare": True}
            run.generator.run("load-table", "load-table", all_of_them, **flags)


def commit(run: Run) -> None:
    """Commits on a local disk: to distinct tables, to one table, and appends to one table."""
    with run.catalogs() as all_of_them:
        for scenario in ("commit", "commit-one", "append-one"):
            run.generator.run("commit", scenario, all_of_them, clients=run.sizes.clients)
    with run.started(servers.Slateberg()) as alone:
        run.generator.run("commit", "commit", alone, clients=[1000])


def delayed(run: Run) -> None:
    """Commits on an object store in the server's memory that takes 20 ms for every request."""
    clients = (*run.sizes.clients, 1000)
    with run.started(servers.SlatebergDelayed()) as alone:
        for scenario in ("commit", "commit-one", "append-one"):
            run.generator.run("delayed", scenario, alone, clients=clients)


def rebases(run: Run) -> None:
    """Appends to one table that the server rebases, on an object store that takes 20 ms for every request."""
    seconds = run.sizes.sustained_seconds
    with run.started(servers.SlatebergRebasing()) as alone:
        run.generator.run("rebases", "append-blind", alone, clients=[32], seconds=seconds)


def bare_put(run: Run) -> None:
    """Writes without a catalog: to this disk, and to an object store that takes 20 ms for every request."""
    iterations = run.sizes.iterations
    flags = {"bytes": BARE_PUT_BYTES}
    with tempfile.TemporaryDirectory(dir=run.directory) as directory:
        run.generator.bare_put("bare-put", "disk", f"file://{directory}", iterations, **flags)
    flags["latency_ms"] = servers.SlatebergDelayed.latency_ms
    run.generator.bare_put("bare-put", "20ms", "memory:///", iterations, **flags)


def key_value(run: Run) -> None:
    """Key-value operations of slateberg and of etcd on the same disk, both with fsync."""
    etcd = servers.Etcd()
    wanted = [servers.Slateberg()] + ([etcd] if run.can_have(etcd) else [])
    with run.started(*wanted) as running:
        for number in range(run.sizes.rounds):
            run.generator.run("kv", "kv", running[:1], round_=number, rounds=1)
            if etcd in running:
                run.generator.etcd("kv", etcd, number)


def cluster_key_value(run: Run) -> None:
    """Key-value operations of clusters of slateberg and of etcd on the same disk, one cluster after the other."""
    minio = servers.Minio()
    if not run.can_have(minio):
        return
    rounds = range(run.sizes.rounds)
    for size in figures.CLUSTERS:
        ours, etcd = servers.SlatebergCluster(size, minio), servers.Etcd(size)
        with run.started(minio, ours):
            for number in rounds:
                run.generator.run("cluster-kv", "cluster-kv", [ours], round_=number, rounds=1)
                ours.rotate()
        if run.can_have(servers.Etcd()):
            with run.started(etcd):
                for number in rounds:
                    run.generator.etcd("cluster-kv", etcd, number, CLUSTER_STEPS)
                    etcd.rotate()


def s3(run: Run) -> None:
    """slateberg on MinIO, directly and through a proxy that delays every response by 20 ms."""
    minio = servers.Minio()
    proxy = servers.Toxiproxy(minio)
    if not (run.can_have(minio) and run.can_have(proxy)):
        return
    with run.started(minio), run.started(proxy):
        near = servers.SlatebergS3("slateberg-s3", minio)
        far = servers.SlatebergS3("slateberg-s3-20ms", proxy)
        for server in (near, far):
            flags = {"options": server.store_options(), "environment": server.environment}
            store, count = f"s3://{minio.bucket}/bare-{server.name}", run.sizes.iterations
            run.generator.bare_put("s3", f"bare-{server.name}", store, count, bytes=BARE_PUT_BYTES, **flags)
        with run.started(near, far) as both:
            for scenario in ("commit", "commit-one"):
                run.generator.run("s3", scenario, both, clients=(1, 100))


def requests(run: Run) -> None:
    """The number of requests that slateberg sends to its object store, while idle and for commits."""
    minio = servers.Minio()
    if not run.can_have(minio):
        return

    def count() -> tuple[int, float]:
        # MinIO updates its metrics every ten seconds.
        time.sleep(12)
        return sum(minio.requests().values()), time.monotonic()

    def file(what: str, number: float) -> None:
        print(f"  {number:.0f} requests: {what}", flush=True)
        row = {"part": "requests", "server": "slateberg-s3", "scenario": "requests"}
        row |= {"parameter": {"operation": what}, "extra": {"requests_to_store": number}}
        run.results.add(row)

    with run.started(minio), run.started(servers.SlatebergS3("slateberg-s3", minio)) as [server]:
        first, began = count()
        time.sleep(run.sizes.idle_seconds)
        before, ended = count()
        idle_per_second = (before - first) / (ended - began)
        file("idle, an hour", idle_per_second * 3600)

        def of_commits(what: str, commits) -> None:
            """Counts the requests that commits cause: all requests except those that an idle server would send."""
            before, began = count()
            made = commits()
            after, ended = count()
            extra = after - before - idle_per_second * (ended - began)
            file(what, extra * 1000 / made)

        def side_by_side() -> int:
            known = len(run.results.rows)
            flags = {"clients": [100], "rounds": 1, "warm_up_seconds": 0}
            run.generator.run("requests", "commit", [server], **flags)
            return sum(row["requests"] for row in run.results.rows[known:])

        number = 100 if run.quick else 1000
        of_commits("1,000 commits by one client", lambda: commits_one_by_one(server, number))
        of_commits("1,000 commits by 100 clients", side_by_side)


def commits_one_by_one(server: servers.Server, count: int) -> int:
    """Commits a property of a new table `count` times. Returns the number of acknowledged commits."""
    client = http.client.HTTPConnection(server.url.removeprefix("http://"))

    def post(path: str, body: dict) -> None:
        headers = {"Content-Type": "application/json"}
        client.request("POST", f"/v1/namespaces{path}", json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} got status {answer.status}: {text[:300]!r}")

    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    post("", {"namespace": ["counted"]})
    post("/counted/tables", {"name": "t", "schema": schema})
    for number in range(count):
        update = {"action": "set-properties", "updates": {"n": str(number)}}
        post("/counted/tables/t", {"requirements": [], "updates": [update]})
    return count


def scale(run: Run) -> None:
    """The same reads and commits as the catalog grows, and a restart at each size."""
    server = servers.Slateberg()
    with run.started(server):
        directory = server.process.log_path.parent
        for tables in run.sizes.tables:
            run.generator.run("scale", "scale", [server], tables=[tables], rounds=1)
            server.stop()
            server.start(directory)
            time.sleep(2)
            rss, peak = process.memory_mib(server.pid)
            row = {"part": "scale", "server": server.name, "scenario": "scale", "round": 1}
            row["parameter"] = {"operation": "restart", "tables": tables}
            row |= {"rss_mib": rss, "peak_mib": peak, "extra": {"ready_ms": server.ready_ms}}
            run.results.add(row)
            print(f"  restart with {tables} tables: first status 200 after {server.ready_ms:.0f} ms", flush=True)


def scans(run: Run) -> None:
    """Plans of tables with many files, by each server in turn, and by clients themselves."""
    planners = install.LocalPlanners()
    has_planners = run.can_have(planners)
    for server in (servers.SlatebergScans(), servers.JavaFixtureScans(), servers.Rustberg()):
        if not run.can_have(server):
            continue
        with run.started(server):
            run.generator.scans("scans", server, run.sizes.files)
            if has_planners and server.name == report.REFERENCE:
                run.generator.local_plans("scans", planners, server)
    ours = run.results.find(part="scans", server=report.REFERENCE)
    if rejected := [row[name] for row in ours for name in row if name.endswith("_rejected")]:
        raise RuntimeError(f"slateberg rejects a plan: {rejected[0]}")


# The parts in their order, with the minutes that each takes in a full and in a quick run.
PARTS = {
    "operations": (operations, 10, 1),
    "load-table": (load_table, 15, 1),
    "commit": (commit, 9, 1.5),
    "delayed": (delayed, 3, 0.7),
    "rebases": (rebases, 4, 0.2),
    "bare-put": (bare_put, 0.5, 0.1),
    "kv": (key_value, 4, 0.7),
    "cluster-kv": (cluster_key_value, 8, 0),
    "s3": (s3, 2, 0),
    "requests": (requests, 5, 0),
    "scale": (scale, 12, 1),
    "scans": (scans, 25, 1),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes, without long installs")
    parser.add_argument("--only", default="", metavar="PART,...", help=", ".join(PARTS))
    parser.add_argument("--output", type=Path, default=RESULTS, help="file for the results")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="directory for the plots")
    parser.add_argument("--install", action="store_true", help="only install every server")
    help_ = "read files below this directory before each part, until no memory is free (see page_cache.py)"
    parser.add_argument("--fill-page-cache", type=Path, metavar="DIRECTORY", help=help_)
    arguments = parser.parse_args()
    chosen = [part for part in arguments.only.split(",") if part] or list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    # SIGTERM ends the run in the same way as an error, so that all servers are stopped and all files removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    minutes = sum(PARTS[part][2 if arguments.quick else 1] for part in chosen)
    print(f"bench: {', '.join(chosen)}: about {minutes:.0f} minutes, plus installs in the first run", flush=True)

    base = install.CACHE / "run"
    base.mkdir(parents=True, exist_ok=True)
    # The directory is below the cache, because /tmp may be in memory, where an fsync costs nothing.
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as directory:
        results = Results([]) if arguments.install else Results.create(arguments.output)
        run = Run(arguments.quick, Path(directory), results)
        results.add(machine(arguments.quick, Path(directory)))
        # All servers are installed first, so that no build runs during a measurement.
        install_everything(run, chosen)
        if arguments.install:
            return 1 if run.missing else 0
        broken = measure(run, chosen, arguments.fill_page_cache)
    print(report.text(results))
    for name, why in run.missing.items():
        print(f"without {name}: {why.splitlines()[0]}")
    broken += draw(arguments.output, arguments.plots)
    print(f"results: {arguments.output}; broken: {', '.join(broken) or 'nothing'}")
    return 1 if broken else 0


def install_everything(run: Run, chosen: list[str]) -> None:
    """Installs every server that the chosen parts measure."""
    minio = servers.Minio()
    catalogs = [servers.JavaFixture(), minio, servers.Nessie(minio), servers.Rustberg()]
    needed = {
        "operations": catalogs,
        "load-table": catalogs,
        "commit": catalogs,
        "kv": [servers.Etcd()],
        "cluster-kv": [minio, servers.Etcd()],
        "s3": [minio, servers.Toxiproxy(minio)],
        "requests": [minio],
        "scans": [servers.JavaFixtureScans(), servers.Rustberg(), install.LocalPlanners()],
    }
    for name, server in {s.name: s for part in chosen for s in needed.get(part, [])}.items():
        if not run.can_have(server):
            print(f"without {name}", flush=True)


def measure(run: Run, chosen: list[str], files: Path | None) -> list[str]:
    """Runs the parts one after another. Returns the names of those that failed."""
    broken = []
    for number, part in enumerate(chosen, 1):
        function = PARTS[part][0]
        print(f"\n[{number}/{len(chosen)}] {part}: {function.__doc__}", flush=True)
        began = time.monotonic()
        try:
            if files is not None:
                page_cache.fill(files)
            function(run)
        except Exception:
            # The other parts can still be measured. The exit code reports the failure.
            traceback.print_exc()
            broken.append(part)
        print(f"[{number}/{len(chosen)}] {part}: {time.monotonic() - began:.0f} s", flush=True)
    return broken


def draw(results: Path, directory: Path) -> list[str]:
    """Draws the plots with a Python interpreter that has matplotlib."""
    try:
        python = install.venv_python()
        subprocess.run([python, "-B", install.HERE / "plots.py", results, directory], check=True)
    except (install.InstallError, subprocess.CalledProcessError) as error:
        print(f"no plots: {error}")
        return ["plots"]
    return []


def machine(quick: bool, directory: Path) -> dict:
    """Returns the first line of the results: the machine, the date and the revision."""
    write_cost = page_cache.write_cost(directory)
    if write_cost["free_memory_ms"] > 3 * write_cost["reused_memory_ms"]:
        print("bench: free memory is slow on this machine; consider --fill-page-cache", flush=True)
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "part": "machine",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "revision": revision,
        "quick": quick,
        "cores": os.cpu_count(),
        "cpu": model[0] if model else platform.machine(),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release().partition("-")[0],
        "write_8_mib": write_cost,
    }


if __name__ == "__main__":
    sys.exit(main())
