"""Iceberg's own REST server with its JdbcCatalog on a SQLite file."""

import os
import socket

from processes import Process
from pyiceberg.catalog import load_catalog
from web import free_port


class Fixture:
    """Writes tables into `directory/warehouse`, or to the location in its catalog properties.
    `more_classes` (`:FILE:FILE`) extends the class path."""

    def __init__(self, directory, properties=None, more_classes=""):
        port = free_port()
        self.uri = f"http://127.0.0.1:{port}"
        self.database = directory / "jdbc.db"
        self._properties = properties or {}
        catalog = {"warehouse": str(directory / "warehouse"), "uri": f"jdbc:sqlite:{self.database}"}
        catalog |= {"jdbc.schema-version": "V1"}
        environment = {_variable(name): value for name, value in (catalog | self._properties).items()}
        with open(os.environ["ICEBERG_FIXTURE_CLASSPATH"]) as known:
            classes = known.read().strip() + more_classes
        words = ["java", "-cp", classes, "org.apache.iceberg.rest.RESTCatalogServer"]
        self._process = Process(words, directory / "fixture.log", {"CATALOG_REST_PORT": str(port), **environment})
        self._process.wait_until(lambda: _listens(port), 120)

    @property
    def catalog(self):
        """A client with the same file access as the server."""
        own = {name: value for name, value in self._properties.items() if name.startswith("s3.")}
        return load_catalog("fixture", type="rest", uri=self.uri, **own)

    def stop(self):
        self._process.stop()


def _variable(name):
    """The environment variable for a property of the server's catalog."""
    return "CATALOG_" + name.replace("-", "__").replace(".", "_").upper()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
