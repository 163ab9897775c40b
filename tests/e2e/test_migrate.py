"""`slateberg migrate` from third-party catalogs: Iceberg's REST server, PyIceberg's SqlCatalog,
directories."""

import json
import os
import subprocess

import pyarrow as pa
import pytest
from iceberg_fixture import Fixture
from processes import Slateberg as Server
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


class Target:
    """A slateberg whose warehouse location includes the files of all source catalogs."""

    def __init__(self, directory):
        settings = f'[warehouses.default]\nlocation = "file://{directory}"\n'
        (directory / "target").mkdir()
        self._server = Server(directory / "target", settings)
        self.catalog = load_catalog("target", type="rest", uri=self._server.uri, token=self._server.admin_key)

    def migrate(self, *arguments, fails=False):
        """Runs a migration and returns its summary."""
        words = [os.environ["SLATEBERG_BIN"], "migrate", "--url", self._server.uri, "--output", "json", *map(str, arguments)]
        environment = {**os.environ, "SLATEBERG_API_KEY": self._server.admin_key, "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == (1 if fails else 0), f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def stop(self):
        self._server.stop()


@pytest.fixture
def target(tmp_path):
    target = Target(tmp_path)
    yield target
    target.stop()


@pytest.fixture
def fixture(tmp_path):
    directory = tmp_path / "java"
    directory.mkdir()
    fixture = Fixture(directory)
    yield fixture
    fixture.stop()


def fill(catalog, tables=3):
    """Creates nested namespaces with tables that have rows."""
    catalog.create_namespace("sales", {"owner": "ann"})
    catalog.create_namespace(("sales", "eu"))
    for number in range(tables):
        table = catalog.create_table(("sales", "eu", f"t{number}"), schema=ROWS.schema)
        table.append(ROWS)
    catalog.create_table(("sales", "empty"), schema=ROWS.schema)


def assert_same(source, target, tables=3):
    assert target.load_namespace_properties("sales")["owner"] == "ann"
    for number in range(tables):
        name = ("sales", "eu", f"t{number}")
        ours, theirs = target.load_table(name), source.load_table(name)
        assert ours.metadata.table_uuid == theirs.metadata.table_uuid
        assert ours.scan().to_arrow().sort_by("id") == theirs.scan().to_arrow().sort_by("id")


def counted(summary):
    return {
        kind: tuple(summary[kind][end] for end in ("done", "present", "conflicts", "failed"))
        for kind in ("namespaces", "tables", "views")
    }


def test_a_rest_catalog(fixture, target):
    fill(fixture.catalog)
    view = {
        "name": "v",
        "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]},
        "view-version": {
            "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["sales"],
            "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}],
        },
        "properties": {},
    }
    made = fixture.catalog._session.post(f"{fixture.uri}/v1/namespaces/sales/views", json=view)
    assert made.status_code == 200, made.text
    from_rest = ("--from", "rest", "--source", fixture.uri)
    tried = target.migrate(*from_rest, "--dry-run")
    assert counted(tried) == {"namespaces": (2, 0, 0, 0), "tables": (4, 0, 0, 0), "views": (1, 0, 0, 0)}
    assert target.catalog.list_namespaces() == []

    first = target.migrate(*from_rest, "--concurrency", 2)
    assert counted(first) == counted(tried)
    assert_same(fixture.catalog, target.catalog)
    assert target.catalog.list_views("sales") == [("sales", "v")]
    # Repeat with a new table, and with one that changed in the source.
    fixture.catalog.create_table(("sales", "late"), schema=ROWS.schema)
    fixture.catalog.load_table(("sales", "eu", "t0")).append(ROWS)
    again = target.migrate(*from_rest)
    assert counted(again) == {"namespaces": (0, 2, 0, 0), "tables": (1, 4, 0, 0), "views": (0, 1, 0, 0)}
    assert len(again["notes"]) == 1 and "table sales.eu.t0 exists already, at" in again["notes"][0]
    # From the registration on, the tables belong to slateberg's catalog.
    ours = target.catalog.load_table(("sales", "eu", "t1"))
    ours.append(ROWS)
    assert len(target.catalog.load_table(("sales", "eu", "t1")).scan().to_arrow()) == 6


def test_conflicts_are_told_and_nothing_else_is_held_up(fixture, target):
    fill(fixture.catalog)
    target.catalog.create_namespace("sales")
    target.catalog.create_table(("sales", "empty"), schema=ROWS.schema)
    summary = target.migrate("--from", "rest", "--source", fixture.uri, fails=True)
    assert counted(summary) == {"namespaces": (1, 1, 0, 0), "tables": (3, 0, 1, 0), "views": (0, 0, 0, 0)}
    assert not summary["complete"]
    conflicts = [note for note in summary["notes"] if note.startswith("conflict: table sales.empty: ")]
    assert len(conflicts) == 1, summary["notes"]


def test_the_database_of_the_rest_server(fixture, target):
    fill(fixture.catalog, tables=1)
    summary = target.migrate("--from", "sql", "--source", fixture.database)
    assert counted(summary)["tables"] == (2, 0, 0, 0)
    assert_same(fixture.catalog, target.catalog, tables=1)


@pytest.fixture
def sql(tmp_path):
    (tmp_path / "pyiceberg").mkdir()
    database = tmp_path / "pyiceberg/catalog.db"
    return database, SqlCatalog("mine", uri=f"sqlite:///{database}", warehouse=f"file://{tmp_path}/pyiceberg")


def test_a_sql_catalog(sql, target):
    database, source = sql
    fill(source)
    from_sql = ("--from", "sql", "--source", database)
    summary = target.migrate(*from_sql)
    assert counted(summary) == {"namespaces": (2, 0, 0, 0), "tables": (4, 0, 0, 0), "views": (0, 0, 0, 0)}
    assert_same(source, target.catalog)
    assert counted(target.migrate(*from_sql))["tables"] == (0, 4, 0, 0)
    below = target.migrate(*from_sql, "--below", "old.ones", "--source-catalog", "mine")
    assert counted(below)["namespaces"] == (4, 0, 0, 0)
    assert len(target.catalog.load_table(("old", "ones", "sales", "eu", "t0")).scan().to_arrow()) == 3
    SqlCatalog("other", uri=f"sqlite:///{database}", warehouse="file:///nowhere").create_namespace("x")
    words = [os.environ["SLATEBERG_BIN"], "migrate", "--url", target._server.uri, *map(str, from_sql)]
    environment = {**os.environ, "SLATEBERG_API_KEY": target._server.admin_key, "NO_PROXY": "127.0.0.1"}
    refused = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert refused.returncode == 1 and "set --source-catalog to one of mine, other" in refused.stderr


def test_directories(sql, target, tmp_path):
    _, source = sql
    fill(source)
    directory = tmp_path / "pyiceberg"
    summary = target.migrate("--from", "locations", "--source", directory)
    assert counted(summary)["tables"] == (4, 0, 0, 0), summary
    # PyIceberg names the directory of a nested namespace by its dotted name.
    found = {".".join(levels) for levels in target.catalog.list_namespaces()}
    assert found == {"sales", "sales.eu"}, found
    listed = tmp_path / "list.tsv"
    location = source.load_table(("sales", "eu", "t1")).metadata_location
    listed.write_text(f"# one\nlisted.t\t{location}\nlisted.gone\tfile://{tmp_path}/nowhere.metadata.json\n")
    summary = target.migrate("--from", "locations", "--source", listed, fails=True)
    assert counted(summary)["tables"] == (1, 0, 0, 1)
    assert len(target.catalog.load_table(("listed", "t")).scan().to_arrow()) == 3
