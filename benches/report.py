#!/usr/bin/env python3
"""Prints the tables of a file of results: each step with a comparison of the servers, and the figures to reach.

benches/report.py [FILE]
"""

import sys
from pathlib import Path

import figures
from results import UNSUPPORTED, Results

REFERENCE = figures.REFERENCE
PLANS = ("partition", "range", "list", "complete", "cold")


def text(results: Results) -> str:
    parts = [part for part in results.values("part") if results.find(part=part)[0].get("scenario")]
    sections = [comparison(results, part) for part in parts if part not in ("scans", "cluster-kv")]
    everything = [heading(results), *sections, clusters(results), scans(results), requests(results), aims(results)]
    return "\n\n".join(section for section in everything if section)


def heading(results: Results) -> str:
    for row in results.find(part="machine"):
        kind = "quick run" if row["quick"] else "full run"
        where = f"{row['cores']} x {row['cpu']}, {row['memory_gib']} GiB, Linux {row['kernel']}"
        return f"{kind} of {row['revision']} on {row['date']}: {where}"
    return ""


def comparison(results: Results, part: str) -> str:
    """Formats the medians over the rounds. The ratio is the throughput of the reference divided by that of the row."""
    lines = [
        f"## {part}",
        f"{'step':<52} {'clients':>7} {'server':<18} {'req/s':>10} {'ratio':>7} "
        f"{'p50 ms':>9} {'p99 ms':>9} {'cpu us':>9} {'MiB':>6} {'failed':>6}",
    ]
    seen = []
    for row in results.find(part=part):
        key = (row.get("scenario"), row.get("parameter"), row.get("clients"))
        if key in seen or "requests_to_store" in (row.get("extra") or {}):
            continue
        seen.append(key)
        lines += step(results, part, *key)
    return "\n".join(lines)


def step(results: Results, part: str, scenario: str, parameter: dict, clients: int) -> list[str]:
    wanted = {"part": part, "scenario": scenario, "parameter": parameter, "clients": clients}
    # Servers that do not support the step come last, because the first server is the reference of the ratios.
    names = sorted(results.values("server", **wanted), key=lambda name: could_not(results, server=name, **wanted))
    ours = results.value("throughput", server=names[0], **wanted)
    lines = []
    for name in names:
        title = f"{scenario} {describe(parameter)}"[:52] if name == names[0] else ""
        shown = str(clients or "") if name == names[0] else ""
        lines.append(f"{title:<52} {shown:>7} {name:<18} {cells(results, ours, server=name, **wanted)}")
    return lines


def could_not(results: Results, **wanted) -> bool:
    return any(UNSUPPORTED in row for row in results.find(**wanted))


def cells(results: Results, ours: float | None, **wanted) -> str:
    refused = [row[UNSUPPORTED] for row in results.find(**wanted) if UNSUPPORTED in row]
    if refused:
        return f"unsupported: {refused[0][:60]}"
    if ready := results.value("ready_ms", **wanted):
        return f"first status 200 after {ready:.0f} ms, {results.value('rss_mib', **wanted):.0f} MiB"
    rate = results.value("throughput", **wanted)
    times = figures.ratio(ours, rate)
    milliseconds = [results.value(name, **wanted) for name in ("p50_us", "p99_us")]
    rest = [results.value(name, **wanted) for name in ("cpu_us_per_request", "peak_mib", "failures")]
    return " ".join(
        [
            number(rate, 10, 0),
            f"{number(times, 6, 2)}x" if times else f"{'-':>7}",
            *(number(value and value / 1000, 9, 3) for value in milliseconds),
            number(rest[0], 9, 0),
            *(number(value, 6, 0) for value in rest[1:]),
        ]
    )


def number(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width},.{digits}f}"


def describe(parameter: dict | None) -> str:
    words = (
        value if isinstance(value, str) else f"{name}={value}" for name, value in (parameter or {}).items()
    )
    return " ".join(map(str, words))


def clusters(results: Results) -> str:
    """Formats throughput and p50 of clusters as the Markdown table of docs/benchmarks.md."""
    part = {"part": "cluster-kv"}
    servers = (REFERENCE, "etcd")
    heads = [word for size in figures.CLUSTERS for word in (*(f"{name}, {size} members" for name in servers), "ratio")]
    lines = [f"| | clients | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for operation in results.values("operation", **part):
        row = [operation, f"{results.value('clients', operation=operation, **part):.0f}"]
        for size in figures.CLUSTERS:
            row += [rate_and_p50(results, server=f"{name}-{size}", operation=operation, **part) for name in servers]
            times = figures.cluster_ratio(results, operation, size)
            row.append(f"{times:.2f}x" if times else "-")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(["## cluster-kv", *lines]) if results.find(**part) else ""


def rate_and_p50(results: Results, **wanted) -> str:
    rate, p50 = (results.value(field, **wanted) for field in ("throughput", "p50_us"))
    failed = sum(row.get("failures") or 0 for row in results.find(**wanted))
    shown = f"{rate:,.0f}/s, {p50 / 1000:.2f} ms" if rate and p50 else "-"
    return f"{shown}, {failed:,} failed" if failed else shown


def scans(results: Results) -> str:
    """Formats the p50 of plans. The figures of other servers and of local planners are multiples of slateberg's."""
    names = results.values("server", part="scans")
    peers = [name for name in names if name != REFERENCE]
    lines = [f"{'plan':<12} {'files':>9} {'p50 ms':>9} {'cpu ms':>9} " + " ".join(f"{name:>16}" for name in peers)]
    for files in results.values("files", part="scans"):
        for plan in PLANS:
            ours = [
                results.value(f"{plan}_{figure}", part="scans", server=REFERENCE, files=files)
                for figure in ("p50_us", "cpu_us")
            ]
            shown = " ".join(number(value and value / 1000, 9, 3) for value in ours)
            theirs = (f"{multiple(results, ours[0], plan, server=name, files=files):>16}" for name in peers)
            lines.append(f"{plan:<12} {files:>9,} {shown} " + " ".join(theirs))
    peaks = {name: max(results.values("peak_mib", part="scans", server=name), default=0) for name in names}
    memory = (f"{name} {peak:,.0f}" for name, peak in peaks.items() if peak)
    lines.append("peak memory, MiB: " + ", ".join(memory))
    return "\n".join(["## scans", *lines]) if names else ""


def multiple(results: Results, ours: float | None, plan: str, **wanted) -> str:
    if reasons := results.values(f"{plan}_rejected", part="scans", **wanted):
        return "no response" if "no response" in reasons[0] else "rejects"
    times = figures.ratio(results.value(f"{plan}_p50_us", part="scans", **wanted), ours)
    return f"{times:,.1f}x" if times else "-"


def requests(results: Results) -> str:
    rows = results.find(part="requests", scenario="requests")
    lines = [
        f"{row['parameter']['operation']:<52} {row['extra']['requests_to_store']:>10,.0f}" for row in rows
    ]
    return "\n".join(["## requests to the object store", *lines]) if lines else ""


def aims(results: Results) -> str:
    """Formats the figures to reach. A missed figure is only reported, and is not a failure."""
    lines = [
        "## figures to reach",
        f"{'figure':<58} {'aim':>15} {'measured':>12}  {'verdict':<12} elsewhere",
    ]
    for figure in figures.all_figures(results):
        measured = number(figure.measured, 12, 2 if (figure.measured or 0) < 100 else 0)
        lines.append(
            f"{figure.what:<58} {figure.aim():>15} {measured}  {figure.verdict():<12} {figure.elsewhere}".rstrip()
        )
    return "\n".join(lines)


if __name__ == "__main__":
    default = Path(__file__).resolve().parent / "results/latest.jsonl"
    print(text(Results.read(Path(sys.argv[1]) if len(sys.argv) > 1 else default)))
