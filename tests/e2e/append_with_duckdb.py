"""A writer with DuckDB: `append_with_duckdb.py URI KEY TABLE ID...` commits a row for each id."""

import importlib.util
import sys

import duckdb


def extension_file(name):
    """The extension file in the installed Python package."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations[0]
    return f"{found}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"


def connect(uri, key, warehouse="default"):
    """A session in which the warehouse is the database `lake`."""
    session = duckdb.connect()
    for extension in ["avro", "httpfs", "iceberg"]:
        session.load_extension(extension_file(extension))
    session.sql(f"CREATE SECRET lake (TYPE iceberg, TOKEN '{key}')")
    session.sql(f"ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{uri}', SECRET lake)")
    return session


if __name__ == "__main__":
    uri, key, name, *ids = sys.argv[1:]
    session = connect(uri, key)
    for id in ids:
        session.sql(f"INSERT INTO lake.{name} VALUES ({id})")
