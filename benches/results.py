"""The results of a run: collects them as lines of JSON, and searches them."""

import json
from pathlib import Path
from statistics import median

# The member of a row with the reason why a server does not support a step.
UNSUPPORTED = "not_supported"


class Results:
    """All rows of a run. Each row is written to a file as soon as it is measured."""

    def __init__(self, rows: list[dict], path: Path | None = None):
        self.rows = rows
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "Results":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        return cls([], path)

    @classmethod
    def read(cls, path: Path) -> "Results":
        return cls([json.loads(line) for line in path.read_text().splitlines() if line], path)

    def add(self, row: dict) -> None:
        self.rows.append(row)
        if self.path:
            with open(self.path, "a") as out:
                out.write(json.dumps(row) + "\n")

    def find(self, **wanted) -> list[dict]:
        """Returns the rows with these values in their members, or in the members of `parameter` or `extra`."""
        return [row for row in self.rows if all(_member(row, k) == v for k, v in wanted.items())]

    def value(self, field: str, **wanted) -> float | None:
        """Returns the median of a field over the rounds, or None if the field was not measured."""
        values = [_member(row, field) for row in self.find(**wanted) if UNSUPPORTED not in row]
        values = [value for value in values if value is not None]
        return median(values) if values else None

    def values(self, name: str, **wanted) -> list:
        """Returns the distinct values of a member, in the order of their first appearance."""
        found = (_member(row, name) for row in self.find(**wanted))
        return list(dict.fromkeys(value for value in found if value is not None))


def _member(row: dict, name: str):
    for where in (row, row.get("parameter") or {}, row.get("extra") or {}):
        if name in where:
            return where[name]
    return None
