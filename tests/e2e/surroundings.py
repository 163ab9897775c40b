"""What an operator finds before slateberg is there: a store, a KMS, an issuer, a collector, and a catalog of others."""

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
# Where the other catalog keeps its tables; config/production.example.toml lets them be registered from there.
IMPORTED = f"s3://{ARCHIVE}/imported"
ROWS = pyarrow.table({"id": [1, 2, 3], "item": ["ice", "slate", "berg"]})
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


class Surroundings:
    """All of them, each in a directory of its own. Keycloak is started by whoever needs it besides."""

    def __init__(self, directory, keycloak):
        self.keycloak = keycloak
        for name in ("minio", "kms", "watching", "other"):
            (directory / name).mkdir(parents=True)
        self.watching = directory / "watching"
        # Those that have started end, too, if a later one does not start.
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

    # What a machine's role would give to a process that runs on it.
    credentials = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": REGION}

    def options(self):
        """How an object store is reached, as settings have it."""
        return {"aws_endpoint": self.store.uri, "aws_allow_http": "true", "aws_region": REGION}

    def stop(self):
        self._started.close()


class OtherCatalog:
    """Iceberg's REST server with its tables on S3. It is filled beside whatever else happens."""

    def __init__(self, directory, store):
        properties = {
            "warehouse": IMPORTED,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": REGION,
            # SQLite has one writer.
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
        """Begins to make namespaces `legacy0`, `legacy1`, ... with tables `t0`, `t1`, ...; the first one has rows."""
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
        except Exception as error:  # It is told to whoever waits for it.
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
