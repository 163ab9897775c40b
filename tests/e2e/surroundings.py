"""The environment of an installation: store, KMS, issuer, collector, and a third-party catalog."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow
from emulator import REGION, Emulator
from iceberg_fixture import Fixture
from minio import PASSWORD, USER, Minio
from watching import Collector
from web import request

STATE, LAKE, ARCHIVE = "example-catalog", "example-lake", "example-archive"
# Location of the third-party catalog. config/production.example.toml allows to register its tables.
IMPORTED = f"s3://{ARCHIVE}/imported"
ROWS = pyarrow.table({"id": [1, 2, 3], "item": ["ice", "slate", "berg"]})
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


class Surroundings:
    """All services, each in its own directory. Only Keycloak is not started here."""

    def __init__(self, directory, keycloak):
        self.keycloak = keycloak
        for name in ("minio", "kms", "watching", "other"):
            (directory / name).mkdir(parents=True)
        self.watching = directory / "watching"
        # Stop the started services if a later one fails to start.
        with ExitStack() as started:

            def start(part):
                started.callback(part.stop)
                return part

            self.store = start(Minio(directory / "minio", (STATE, LAKE, ARCHIVE)))
            self.kms = start(Emulator(directory / "kms"))
            self.key = self.kms.make_key()
            self.collector = start(Collector(self.watching))
            self.other = start(OtherCatalog(directory / "other", self.store))
            self._started = started.pop_all()

    # The credentials that a process gets from a machine's role.
    credentials = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": REGION}

    def options(self):
        """The object store options of the settings."""
        return {"aws_endpoint": self.store.uri, "aws_allow_http": "true", "aws_region": REGION}

    def stop(self):
        self._started.close()


class OtherCatalog:
    """Iceberg's REST server with tables on S3. A background thread fills it."""

    def __init__(self, directory, store):
        properties = {
            "warehouse": IMPORTED,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": REGION,
            # SQLite allows only one writer.
            "clients": "1",
            "s3.endpoint": store.uri,
            "s3.path-style-access": "true",
            "s3.access-key-id": USER,
            "s3.secret-access-key": PASSWORD,
            "s3.region": REGION,
        }
        self._fixture = Fixture(directory, properties, os.environ["ICEBERG_FIXTURE_S3_JARS"])
        self.uri = self._fixture.uri
        self._filling = None
        self._failure = None

    def fill(self, namespaces, tables_each):
        """Starts to create namespaces `legacy0`, `legacy1`, ... with tables `t0`, `t1`, ... The
        first table has rows."""
        self._filling = threading.Thread(target=self._fill, args=(namespaces, tables_each), daemon=True)
        self._filling.start()

    def _fill(self, namespaces, tables_each):
        try:
            for number in range(namespaces):
                request("POST", f"{self.uri}/v1/namespaces", json_body={"namespace": [f"legacy{number}"]}).expect(200)
            self._fixture.catalog.create_table("legacy0.t0", schema=ROWS.schema).append(ROWS)
            names = [(n, f"t{t}") for n in range(namespaces) for t in range(tables_each) if (n, t) != (0, 0)]
            with ThreadPoolExecutor(4) as threads:
                for made in threads.map(self._make, names):
                    made.expect(200)
        except Exception as error:  # Raised again in the waiting thread.
            self._failure = error

    def _make(self, name):
        namespace, table = name
        body = {"name": table, "schema": SCHEMA}
        return request("POST", f"{self.uri}/v1/namespaces/legacy{namespace}/tables", json_body=body)

    def wait_until_filled(self, timeout_s=240):
        self._filling.join(timeout_s)
        assert not self._filling.is_alive(), f"it is not filled after {timeout_s} s"
        if self._failure:
            raise self._failure

    def stop(self):
        self._fixture.stop()
