"""Writes docs/benchmarks/k6.md from the summaries of a run: `report.py SUMMARIES`, a directory."""

import datetime
import json
import os
import platform
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/benchmarks/k6.md"
# In the order in which they are run; what is not there was not.
SCENARIOS = {
    "load_table": "tables are loaded, each a second time by a client that has it",
    "commit_many": "each client commits to a table of its own",
    "commit_one": "all commit to one table",
    "mixed": "80 % reads, 15 % commits, 5 % tables that come and go",
    "list": "a namespace of 500 tables, in pages of 100",
    "soak": "the mixed load at a steady rate",
}
HEAD = """# k6

`make k6 PUBLISH=1` measures this anew: k6 against a release build with API keys and policies on, both on one machine, the
state on its disk with every commit fsynced. Objectives: p99 of reads below 50 ms and of writes below 200 ms, errors below
0.1 %.

{machine}

| | what | requests | reads, p50 / p99 | writes, p50 / p99 | errors |
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
        sys.exit(f"{summaries}: there are no summaries")
    PAGE.write_text(HEAD.format(machine=machine) + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
