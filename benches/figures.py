"""The figures to reach: the measured value and the aim of each."""

from dataclasses import dataclass

from results import Results

REFERENCE = "slateberg"
BARE = "bare handler"
DELAYED = "slateberg-20ms"
# Numbers of members of the measured clusters.
CLUSTERS = (3, 5)


@dataclass(frozen=True)
class Figure:
    """A measured value with its aim, which is a minimum or a maximum."""

    what: str
    measured: float | None
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "x"
    # For comparison: the best and the worst of three peers, measured on another machine.
    elsewhere: str = ""

    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        enough = self.at_least is None or self.measured >= self.at_least
        little = self.at_most is None or self.measured <= self.at_most
        return "reached" if enough and little else "missed"

    def aim(self) -> str:
        bound, sign = (self.at_least, ">=") if self.at_most is None else (self.at_most, "<=")
        return f"{sign} {bound:,g} {self.unit}"


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def all_figures(results: Results) -> list[Figure]:
    groups = (loads, lone_commits, many_commits, etcd, etcd_clusters, size, processor_time, peers_elsewhere)
    return [figure for group in groups for figure in group(results)]


def loads(results: Results) -> list[Figure]:
    hot = {"part": "load-table", "snapshots": 1, "clients": 100}

    def of(field: str, server: str, operation: str = "load_table") -> float | None:
        return results.value(field, server=server, operation=operation, **hot)

    ours = of("throughput", REFERENCE)
    not_modified = ratio(of("throughput", REFERENCE, "load_304"), of("throughput", BARE, "load_304"))
    tail = ratio(of("p99_us", REFERENCE), of("p50_us", REFERENCE))
    java = ratio(ours, of("throughput", "java-fixture"))
    rustberg = ratio(ours, of("throughput", "rustberg"))
    where = "100 connections"
    return [
        Figure(f"load_table, {where}: relative to the bare handler", ratio(ours, of("throughput", BARE)), 0.9),
        Figure(f"304, {where}: relative to the bare handler", not_modified, 0.9),
        Figure(f"load_table, {where}: p99 relative to p50", tail, at_most=2),
        Figure(f"load_table, {where}: relative to the Java fixture", java, 10),
        Figure(f"load_table, {where}: relative to Rustberg", rustberg, 3),
    ]


def lone_commits(results: Results) -> list[Figure]:
    def against_put(part: str, server: str, put: str) -> float | None:
        commit = results.value("p50_us", part=part, scenario="commit", server=server, clients=1)
        return ratio(commit, results.value("p50_us", scenario="bare_put", server=put))

    return [
        Figure(
            "lone commit, store of 20 ms: p50 relative to a bare put",
            against_put("delayed", DELAYED, "20ms"),
            at_most=1.1,
        ),
        Figure(
            "lone commit, local disk: p50 relative to a fsynced put",
            against_put("commit", REFERENCE, "disk"),
            at_most=2,
        ),
    ]


def many_commits(results: Results) -> list[Figure]:
    def rate(scenario: str, clients: int) -> float | None:
        return results.value("throughput", part="delayed", scenario=scenario, clients=clients)

    appends = {"scenario": "append-one"}
    wrong = [results.value(name, **appends) for name in ("lost", "untrue_refusals")]
    # The sum over all rounds and stores, not the median: not a single such append is acceptable.
    rows = results.find(**appends)
    lost, untrue = (
        (
            sum(
                (row.get("extra") or {}).get(name) or 0 for row in rows if row["server"].startswith(REFERENCE)
            )
            if value is not None
            else None
        )
        for name, value in zip(("lost", "untrue_refusals"), wrong)
    )
    to_one = ratio(rate("commit", 100), rate("commit", 1))
    ours, rustberg = (
        results.value("throughput", part="commit", scenario="commit", server=server, clients=100)
        for server in (REFERENCE, "rustberg")
    )

    def rebased(field: str, operation: str) -> float | None:
        return results.value(field, part="rebases", operation=operation)

    p99 = ratio(rebased("p99_us", "prepared"), 1000)
    return [
        Figure("distinct tables, 100 clients: relative to Rustberg", ratio(ours, rustberg), 5),
        Figure("distinct tables, store of 20 ms: 100 clients relative to 1", to_one, 80),
        Figure(
            "one table, store of 20 ms: properties by 100 clients", rate("commit-one", 100), 2000, unit="/s"
        ),
        Figure("rebased appends of 32 clients: the first 1,984", rebased("throughput", "prepared"), 500, unit="/s"),
        Figure("their p99", p99, at_most=150, unit="ms"),
        Figure("appends that were not rebased", rebased("rejected", "prepared"), at_most=0, unit="appends"),
        Figure("rebased appends during maintenance", rebased("throughput", "sustained"), 200, unit="/s"),
        Figure("appends to one table: acknowledged, but lost", lost, at_most=0, unit="appends"),
        Figure("appends to one table: rejected, but in the table", untrue, at_most=0, unit="appends"),
    ]


def etcd(results: Results) -> list[Figure]:
    aims = {"seq_put": 0.7, "par_put": 1.0, "put_1000": 1.0, "seq_get": 1.0, "par_get": 1.0}
    figures = []
    for operation, aim in aims.items():
        ours, theirs = (
            results.value("throughput", part="kv", server=server, operation=operation)
            for server in (REFERENCE, "etcd")
        )
        figures.append(Figure(f"{operation}: relative to etcd on the same disk", ratio(ours, theirs), aim))
    return figures


def etcd_clusters(results: Results) -> list[Figure]:
    """Reads of clusters. For writes there is no aim, because an acknowledgement has another meaning."""
    return [
        Figure(
            f"{operation}, {members} members: relative to etcd on the same disk",
            cluster_ratio(results, operation, members),
            at_least=1.0,
        )
        for members in CLUSTERS
        for operation in ("seq_get", "par_get")
    ]


def cluster_ratio(results: Results, operation: str, members: int) -> float | None:
    ours, theirs = (
        results.value("throughput", part="cluster-kv", server=f"{name}-{members}", operation=operation)
        for name in (REFERENCE, "etcd")
    )
    return ratio(ours, theirs)


def size(results: Results) -> list[Figure]:
    sizes = results.values("tables", part="scale")
    small, large = (min(sizes), max(sizes)) if sizes else (None, None)

    def growth(operation: str, **more) -> float | None:
        values = [
            results.value("p50_us", part="scale", operation=operation, tables=tables, clients=1, **more)
            for tables in (large, small)
        ]
        return ratio(*values)

    restart = {"part": "scale", "operation": "restart", "tables": large}
    ready_ms = results.value("ready_ms", **restart)
    peak = results.value("peak_mib", part="scale", operation="grow", tables=large, clients=100)
    between = f"{large or 0:,} tables"

    def appends(operation: str) -> float | None:
        """The CPU of an append to a table with a long history, relative to one with a short history."""
        where = {"part": "operations", "server": REFERENCE, "operation": operation}
        return ratio(*(results.value("cpu_us_per_request", snapshots=n, **where) for n in (10_000, 10)))

    return [
        Figure(f"{between}: load_table p50 relative to {small or 0:,}", growth("load_table"), at_most=1.2),
        Figure(
            f"{between}: page of 1,000 names p50 relative to {small or 0:,}",
            growth("list_tables", page=1000),
            at_most=1.2,
        ),
        Figure(f"{between}: start-up to the first status 200", ready_ms and ready_ms / 1000, at_most=2, unit="s"),
        Figure(f"{between}: peak memory while they are made", peak, at_most=484, unit="MiB"),
        Figure(f"{between}: memory after a restart", results.value("rss_mib", **restart), at_most=150, unit="MiB"),
        Figure("append after 10,000 snapshots: CPU relative to 10 snapshots", appends("commit_append"), at_most=10),
        Figure("the same with gzip, for the response and the files", appends("commit_append_gzip"), at_most=3),
    ]


def processor_time(results: Results) -> list[Figure]:
    """The server's CPU time of each operation. `elsewhere` has the best and the worst of three peers."""
    hot = {"part": "load-table", "clients": 100}
    one = {"part": "operations"}
    rows = [
        ("load_table, 1 snapshot", 40, "353-6,173", {**hot, "operation": "load_table", "snapshots": 1}),
        ("load_table, 100 snapshots", 60, "919-7,042", {**hot, "operation": "load_table", "snapshots": 100}),
        (
            "load_table, 1,000 snapshots",
            250,
            "6,335-15,955",
            {**hot, "operation": "load_table", "snapshots": 1000},
        ),
        ("304", 25, "110-910", {**hot, "operation": "load_304", "snapshots": 1}),
        ("property commit", 250, "1,373-10,343", {**one, "operation": "commit_properties"}),
        (
            "append after 1,000 snapshots",
            1500,
            "13,217-19,663",
            {**one, "operation": "commit_append", "snapshots": 1000},
        ),
        ("two-table transaction", 600, "1,850-12,560", {**one, "operation": "commit_transaction"}),
        ("create_table", 400, "980-41,580", {**one, "operation": "create_table"}),
        ("rename_table", 300, "", {**one, "operation": "rename_table"}),
        ("drop_namespace", 250, "", {**one, "operation": "drop_namespace"}),
        ("page of 1,000 names", 500, "250-75,500", {**one, "operation": "list_tables"}),
    ]
    return [
        Figure(
            f"CPU of {what}",
            results.value("cpu_us_per_request", server=REFERENCE, **where),
            at_most=aim,
            unit="us",
            elsewhere=elsewhere,
        )
        for what, aim, elsewhere, where in rows
    ]


def peers_elsewhere(results: Results) -> list[Figure]:
    """Throughput compared with three peers on another machine. The aim is to exceed the best of them."""
    hot = {"part": "load-table", "operation": "load_table", "snapshots": 1}
    rows = [
        ("load_table, 100 connections", 5205, "291 / 3,345 / 5,205", hot),
        (
            "commits on distinct tables, 100 clients",
            1018,
            "187 / 213 / 1,018",
            {"part": "commit", "scenario": "commit"},
        ),
        ("commits on one table, 100 clients", 75, "42 / 75", {"part": "commit", "scenario": "commit-one"}),
    ]
    return [
        Figure(
            what,
            results.value("throughput", server=REFERENCE, clients=100, **where),
            at_least=best,
            unit="/s",
            elsewhere=elsewhere,
        )
        for what, best, elsewhere, where in rows
    ]
