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
    """A slateberg whose warehouse location includes the files of all source catalogs, but not its
    own state."""

    def __init__(self, directory, warehouse):
        settings = f'[warehouses.default]\nlocation = "file://{warehouse}"\n'
        directory.mkdir()
        self._server = Server(directory, settings)
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
def sources(tmp_path):
    """The directory with the files of the source catalogs."""
    sources = tmp_path / "sources"
    sources.mkdir()
    return sources


@pytest.fixture
def target(tmp_path, sources):
    target = Target(tmp_path / "target", sources)
    yield target
    target.stop()


@pytest.fixture
def second_target(tmp_path, sources):
    """A further catalog. A catalog rejects tables at the locations of its other tables, so the same
    tables can be migrated again only to another catalog."""
    target = Target(tmp_path / "second-target", sources)
    yield target
    target.stop()


@pytest.fixture
def fixture(sources):
    directory = sources / "java"
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


def test_rest_catalog_is_migrated_and_a_repeated_migration_adds_the_rest(fixture, target):
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


def test_conflict_is_reported_and_all_other_tables_are_migrated(fixture, target):
    fill(fixture.catalog)
    target.catalog.create_namespace("sales")
    target.catalog.create_table(("sales", "empty"), schema=ROWS.schema)
    summary = target.migrate("--from", "rest", "--source", fixture.uri, fails=True)
    assert counted(summary) == {"namespaces": (1, 1, 0, 0), "tables": (3, 0, 1, 0), "views": (0, 0, 0, 0)}
    assert not summary["complete"]
    conflicts = [note for note in summary["notes"] if note.startswith("conflict: table sales.empty: ")]
    assert len(conflicts) == 1, summary["notes"]


def test_tables_are_migrated_from_the_database_of_the_rest_server(fixture, target):
    fill(fixture.catalog, tables=1)
    summary = target.migrate("--from", "sql", "--source", fixture.database)
    assert counted(summary)["tables"] == (2, 0, 0, 0)
    assert_same(fixture.catalog, target.catalog, tables=1)


@pytest.fixture
def sql(sources):
    directory = sources / "pyiceberg"
    directory.mkdir()
    database = directory / "catalog.db"
    return database, SqlCatalog("mine", uri=f"sqlite:///{database}", warehouse=f"file://{directory}")


def test_sql_catalog_is_migrated_and_a_catalog_must_be_selected_if_there_are_several(sql, target, second_target):
    database, source = sql
    fill(source)
    from_sql = ("--from", "sql", "--source", database)
    summary = target.migrate(*from_sql)
    assert counted(summary) == {"namespaces": (2, 0, 0, 0), "tables": (4, 0, 0, 0), "views": (0, 0, 0, 0)}
    assert_same(source, target.catalog)
    assert counted(target.migrate(*from_sql))["tables"] == (0, 4, 0, 0)
    below = second_target.migrate(*from_sql, "--below", "old.ones", "--source-catalog", "mine")
    assert counted(below) == {"namespaces": (4, 0, 0, 0), "tables": (4, 0, 0, 0), "views": (0, 0, 0, 0)}
    assert len(second_target.catalog.load_table(("old", "ones", "sales", "eu", "t0")).scan().to_arrow()) == 3
    SqlCatalog("other", uri=f"sqlite:///{database}", warehouse="file:///nowhere").create_namespace("x")
    words = [os.environ["SLATEBERG_BIN"], "migrate", "--url", target._server.uri, *map(str, from_sql)]
    environment = {**os.environ, "SLATEBERG_API_KEY": target._server.admin_key, "NO_PROXY": "127.0.0.1"}
    refused = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert refused.returncode == 1 and "set --source-catalog to one of mine, other" in refused.stderr


def test_tables_are_migrated_from_directories_and_from_a_list(sql, target, second_target, sources):
    _, source = sql
    fill(source)
    directory = sources / "pyiceberg"
    summary = target.migrate("--from", "locations", "--source", directory)
    assert counted(summary)["tables"] == (4, 0, 0, 0), summary
    # PyIceberg names the directory of a nested namespace by its dotted name.
    found = {".".join(levels) for levels in target.catalog.list_namespaces()}
    assert found == {"sales", "sales.eu"}, found
    listed = sources / "list.tsv"
    location = source.load_table(("sales", "eu", "t1")).metadata_location
    listed.write_text(f"# one\nlisted.t\t{location}\nlisted.gone\tfile://{sources}/nowhere.metadata.json\n")
    from_list = ("--from", "locations", "--source", listed)
    summary = second_target.migrate(*from_list, fails=True)
    assert counted(summary)["tables"] == (1, 0, 0, 1)
    assert len(second_target.catalog.load_table(("listed", "t")).scan().to_arrow()) == 3
    # In the first catalog, the listed table exists under another name.
    summary = target.migrate(*from_list, fails=True)
    assert counted(summary)["tables"] == (0, 0, 0, 2)
    assert len([note for note in summary["notes"] if "it overlaps with the location of another table" in note]) == 1
