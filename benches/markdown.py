#!/usr/bin/env python3
"""Prints the tables of docs/benchmarks.md that compare servers: figures to reach, latencies and throughputs.

benches/markdown.py [FILE]
"""

import sys
from pathlib import Path

import figures
from report import describe
from results import UNSUPPORTED, Results

PEERS = {"java-fixture": "Java fixture", "rustberg": "Rustberg", "nessie": "Nessie"}
SCENARIOS = ("commit", "commit-one", "append-one")


def text(results: Results) -> str:
    sections = (aims, latencies, loads, commits)
    return "\n\n".join("\n".join(section(results)) for section in sections)


def aims(results: Results) -> list[str]:
    rows = []
    for figure in figures.all_figures(results):
        if figure.measured is not None:
            measured = f"{figure.measured:,.{2 if figure.measured < 100 else 0}f}"
            rows.append([figure.what, figure.aim(), measured, figure.verdict()])
    return table(["", "aim", "measured", ""], rows)


def latencies(results: Results) -> list[str]:
    """The p50 of each operation with one client. Those of other servers are multiples of slateberg's."""
    rows = []
    for operation, parameter in steps(results, part="operations"):
        where = {"part": "operations", "operation": operation, "parameter": parameter}
        ours = results.value("p50_us", server=figures.REFERENCE, **where)
        cpu = results.value("cpu_us_per_request", server=figures.REFERENCE, **where)
        others = (figures.ratio(results.value("p50_us", server=peer, **where), ours) for peer in PEERS)
        row = [describe(parameter), f"{ours / 1000:.3f} ms", f"{cpu:,.0f} us"]
        rows.append(row + [f"{times:.1f}x" if times else "-" for times in others])
    return table(["one client", "slateberg, p50", "CPU", *PEERS.values()], rows)


def loads(results: Results) -> list[str]:
    servers = {figures.BARE: figures.BARE, **PEERS}
    return throughputs(results, servers, part="load-table", scenario="load-table")


def commits(results: Results) -> list[str]:
    first, *more = (throughputs(results, PEERS, part="commit", scenario=scenario) for scenario in SCENARIOS)
    # All tables have the same head of two lines.
    return first + [line for lines in more for line in lines[2:]]


def throughputs(results: Results, servers: dict, **part) -> list[str]:
    rows = []
    for operation, parameter in steps(results, **part):
        for clients in results.values("clients", operation=operation, parameter=parameter, **part):
            where = {"operation": operation, "parameter": parameter, "clients": clients, **part}
            ours = {"server": figures.REFERENCE, **where}
            cpu = results.value("cpu_us_per_request", **ours)
            title = describe(parameter) if part["part"] == "load-table" else part["scenario"]
            row = [title, f"{clients}", per_second(results, **ours), f"{cpu:,.0f} us"]
            rows.append(row + [per_second(results, server=server, **where) for server in servers])
    return table(["", "clients", "slateberg", "CPU", *servers.values()], rows)


def steps(results: Results, **where) -> list[tuple[str, dict]]:
    """Returns the operations that slateberg supports, each with its parameter, in their order."""
    rows = [row for row in results.find(server=figures.REFERENCE, **where) if UNSUPPORTED not in row]
    parameters = [row["parameter"] for row in rows]
    distinct = [it for number, it in enumerate(parameters) if it not in parameters[:number]]
    return [(parameter["operation"], parameter) for parameter in distinct]


def per_second(results: Results, **where) -> str:
    rate = results.value("throughput", **where)
    return f"{rate:,.0f}/s" if rate else "-"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [" | ".join(cells) for cells in (head, *rows)]
    return [f"| {lines[0]} |", "|---" * len(head) + "|", *(f"| {line} |" for line in lines[1:])]


if __name__ == "__main__":
    default = Path(__file__).resolve().parent / "results/latest.jsonl"
    print(text(Results.read(Path(sys.argv[1]) if len(sys.argv) > 1 else default)))
