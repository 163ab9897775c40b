#!/usr/bin/env python3
"""Draws plots of a file of results: `plots.py FILE DIRECTORY`. Requires matplotlib."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from figures import BARE, DELAYED, REFERENCE
from results import Results

# The color of each server, the same in every plot. Color-blind readers can distinguish them as well.
COLORS = {
    REFERENCE: "#0072b2",
    BARE: "#888888",
    "java-fixture": "#d55e00",
    "nessie": "#009e73",
    "rustberg": "#cc79a7",
    "etcd": "#e69f00",
    DELAYED: "#56b4e9",
    "slateberg-s3": "#4b3fa0",
    "slateberg-s3-20ms": "#9d8fe0",
}
STYLE = {
    "figure.figsize": (8, 4.5),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "font.size": 10,
    # The SVG files contain text as text, and the same results always give the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "slateberg",
}


def plain(axis) -> None:
    """Formats numbers in full, also on a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))


def load_table(results: Results):
    """Loads per second, by connections."""
    hot = {"part": "load-table", "operation": "load_table", "snapshots": 1}
    figure, axes = plt.subplots()
    for server in results.values("server", **hot):
        line(axes, results, server, "throughput", dashed=server == BARE, **hot)
    axes.set(xscale="log", yscale="log", xlabel="connections", ylabel="load_table per second")
    axes.set_title("load_table of a table with one snapshot: higher is better")
    return figure, axes


def line(
    axes,
    results: Results,
    server: str,
    field: str,
    scale=1.0,
    label=None,
    dashed=False,
    x="clients",
    **wanted,
):
    points = [
        (at, results.value(field, server=server, **wanted, **{x: at}))
        for at in sorted(results.values(x, server=server, **wanted))
    ]
    points = [(at, value * scale) for at, value in points if value]
    if points:
        color, style = COLORS.get(server, "black"), "--" if dashed else "-"
        axes.plot(*zip(*points), style, marker="o", color=color, label=label or server)


def processor_time(results: Results):
    """CPU of the server for one operation, by server."""
    part = {"part": "operations"}
    steps = [
        ("load_table\n1 snapshot", {"operation": "load_table", "snapshots": 1}),
        ("load_table\n1,000 snapshots", {"operation": "load_table", "snapshots": 1000}),
        ("list 1,000\nnames", {"operation": "list_tables"}),
        ("create\ntable", {"operation": "create_table"}),
        ("commit\nproperty", {"operation": "commit_properties"}),
        ("two-table\ntransaction", {"operation": "commit_transaction"}),
        ("append after\n1,000 snapshots", {"operation": "commit_append", "snapshots": 1000}),
    ]
    groups = [(label, {**part, **wanted}) for label, wanted in steps if results.find(**part, **wanted)]
    servers = [name for name in results.values("server", **part) if name != BARE]
    figure, axes = bars(results, groups, servers, "cpu_us_per_request")
    # Bars on a logarithmic scale have no natural lower end. This one does not depend on the measured values.
    axes.set(yscale="log", ylim=(10, None), ylabel="µs of server CPU, user and system")
    axes.set_title("CPU of one operation, by one client: lower is better")
    return figure, axes


def bars(results: Results, groups: list, servers: list, field: str, scale=1.0):
    """Draws a group of bars for each step, with a bar for each server that supports the step."""
    figure, axes = plt.subplots(figsize=(9, 4.5))
    width = 0.8 / max(len(servers), 1)
    for number, server in enumerate(servers):
        found = [
            (place, value * scale)
            for place, (_, wanted) in enumerate(groups)
            if (value := results.value(field, server=server, **wanted))
        ]
        if found:
            left = [place + (number - (len(servers) - 1) / 2) * width for place, _ in found]
            heights = [value for _, value in found]
            axes.bar(left, heights, width * 0.92, color=COLORS.get(server, "black"), label=server)
    axes.set_xticks(range(len(groups)), [label for label, _ in groups])
    axes.grid(visible=False, axis="x")
    return figure, axes


def commits(results: Results):
    """Commits per second by clients: on distinct tables, and all on one."""
    figure, both = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True)
    for axes, scenario, title in zip(both, ("commit", "commit-one"), ("on distinct tables", "on one table")):
        for part in ("commit", "delayed"):
            wanted = {"part": part, "scenario": scenario}
            for server in results.values("server", **wanted):
                line(axes, results, server, "throughput", dashed=part == "delayed", **wanted)
        axes.set(xscale="log", yscale="log", xlabel="clients", title=f"commits {title}")
        plain(axes.xaxis)
        plain(axes.yaxis)
    both[0].set_ylabel("property commits per second")
    return figure, both[0]


def commit_latency(results: Results):
    """The median and the tail of a commit: local disk, and a store of 20 ms."""
    figure, axes = plt.subplots()
    stores = [("commit", REFERENCE, "local disk"), ("delayed", DELAYED, "store of 20 ms")]
    for part, server, name in stores:
        wanted = {"part": part, "scenario": "commit"}
        line(axes, results, server, "p50_us", 1e-3, f"{name}, p50", **wanted)
        line(axes, results, server, "p99_us", 1e-3, f"{name}, p99", dashed=True, **wanted)
    axes.set(xscale="log", yscale="log", xlabel="clients on distinct tables", ylabel="milliseconds")
    axes.set_title("Latency of a commit: lower is better")
    return figure, axes


def key_value(results: Results):
    """slateberg's throughput as a multiple of etcd's."""
    wanted = {"part": "kv"}
    ratios = []
    for operation in results.values("operation", **wanted):
        ours, theirs = (
            results.value("throughput", server=server, operation=operation, **wanted)
            for server in (REFERENCE, "etcd")
        )
        if ours and theirs:
            ratios.append((operation, ours / theirs))
    if not ratios:
        return None
    figure, axes = plt.subplots()
    drawn = axes.barh([name for name, _ in ratios], [times for _, times in ratios], color=COLORS[REFERENCE])
    axes.bar_label(drawn, [f"{times:.2f}x" for _, times in ratios], padding=4)
    axes.axvline(1, color=COLORS["etcd"], linewidth=2, label="etcd")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="times etcd's requests per second, on the same disk")
    axes.set_title("Key-value steps beside etcd: right of the line is faster")
    return figure, axes


def scale(results: Results):
    """Medians as the catalog grows."""
    part = {"part": "scale", "server": REFERENCE}
    curves = [
        ("load_table", {"operation": "load_table", "clients": 1}),
        ("property commit", {"operation": "commit_properties", "clients": 1}),
        ("page of 1,000 names", {"operation": "list_tables", "page": 1000}),
    ]
    figure, axes = plt.subplots()
    for color, (label, wanted) in zip(("#0072b2", "#d55e00", "#009e73"), curves):
        points = [
            (tables, value / 1000)
            for tables in sorted(results.values("tables", **part))
            if (value := results.value("p50_us", **part, **wanted, tables=tables))
        ]
        if points:
            axes.plot(*zip(*points), "-o", color=color, label=label)
    axes.set(xscale="log", yscale="log", xlabel="tables in the catalog", ylabel="p50, milliseconds")
    axes.set_title("One client, as the catalog grows: flat is better")
    return figure, axes


PLOTS = {
    "load-table": load_table,
    "cpu": processor_time,
    "commits": commits,
    "commit-latency": commit_latency,
    "etcd": key_value,
    "scale": scale,
}


def main() -> None:
    results, directory = Results.read(Path(sys.argv[1])), Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update(STYLE)
    for name, draw in PLOTS.items():
        drawn = draw(results)
        if drawn is None or not drawn[1].get_legend_handles_labels()[0]:
            # If only some parts were run, the plots of the other parts stay as they are.
            continue
        figure, axes = drawn
        for each in figure.axes:
            for axis, scale in ((each.xaxis, each.get_xscale()), (each.yaxis, each.get_yscale())):
                if scale == "log":
                    plain(axis)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        figure.savefig(directory / f"{name}.png", dpi=150)
        plt.close(figure)
        print(f"{directory / name}.svg, .png")


if __name__ == "__main__":
    main()
