"""Writes docs/benchmarks/k6.md from the summaries of a run: `report.py DIRECTORY_OF_SUMMARIES`."""

import datetime
import json
import os
import platform
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/benchmarks/k6.md"
# In the order of the runs. A scenario without a summary was not run.
SCENARIOS = {
    "load_table": "each client loads a table, then loads it again with the `ETag` that it got (304)",
    "commit_many": "each client commits to its own table",
    "commit_one": "all clients commit to one table",
    "mixed": "80 % reads, 15 % commits, 5 % creations and drops of tables",
    "list": "clients list a namespace of 500 tables, in pages of 100",
    "soak": "the requests of `mixed` at a constant rate",
}
HEAD = """# k6

`make k6 PUBLISH=1` measures the table below again. k6 and a release build of the server, with API keys and policies,
run on one machine. The state is on the disk of this machine, and every commit is fsynced. The objectives are a p99
below 50 ms for reads and below 200 ms for writes, and less than 0.1 % errors.

{machine}

| scenario | description | requests | reads, p50 / p99 | writes, p50 / p99 | errors |
|---|---|---|---|---|---|
"""


def times(metrics, kind):
    found = metrics.get(f"http_req_duration{{kind:{kind}}}", {})
    if not found.get("count"):
        return "-"
    return f"{found['med']:.2f} / {found['p(99)']:.2f} ms"


def row(name, metrics):
    requests = metrics["http_reqs"]["rate"]
    errors = 100 * metrics["http_req_failed"]["value"]
    return f"| `{name}` | {SCENARIOS[name]} | {requests:,.0f}/s | {times(metrics, 'read')} | {times(metrics, 'write')} | {errors:.2f} % |"


def main():
    summaries = Path(sys.argv[1])
    day = datetime.datetime.now(datetime.timezone.utc).date()
    machine = f"{day}, {os.cpu_count()} cores ({platform.machine()}), {platform.system()}."
    rows = []
    for name in SCENARIOS:
        summary = summaries / f"{name}.json"
        if summary.exists():
            rows.append(row(name, json.loads(summary.read_text())["metrics"]))
    if not rows:
        sys.exit(f"{summaries} contains no summaries: run k6/run.sh first")
    PAGE.write_text(HEAD.format(machine=machine) + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
