"""The servers that are compared: how each is installed, started and stopped.

Each server is a class with the same three methods. `install` may take minutes, does nothing the second
time, and raises InstallError if a component cannot be installed. `start` gets an empty directory, to
which the server writes all of its files. The directories of all servers are on the same disk.
"""

import hashlib
import hmac
import json
import os
import re
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import install
from process import Process, free_port

START_SECONDS = 120
SLATEBERG = os.environ.get("SLATEBERG_BIN", "slateberg")
# Cargo builds the load generator into the same directory as the server.
LOAD_GENERATOR = str(Path(SLATEBERG).with_name("slateberg-bench"))


def answers(url: str) -> bool:
    """Whether a GET of the URL gets status 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def digest(*files: Path) -> str:
    """Returns a hash that distinguishes versions of files of the checkout."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class Server:
    """The base of all servers: a name in the tables, and after `start` a process and a URL."""

    name = ""
    warehouse = None
    token = None
    # The configuration of this server, as far as readers of the results need to know it.
    notes = ""
    # Whether the first install takes so long that the quick run omits this server.
    long_install = False

    def __init__(self):
        self.process = None
        self.url = None

    def install(self) -> None:
        raise NotImplementedError

    def start(self, directory: Path) -> None:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def urls(self) -> list[str]:
        return [self.url]

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None

    def argument(self) -> str:
        """Returns the server in the notation of the load generator's option --server."""
        words = [f"{self.name}={'+'.join(self.urls)}", *(f"pid={pid}" for pid in self.pids)]
        words += [f"warehouse={self.warehouse}"] if self.warehouse else []
        words += [f"token={self.token}"] if self.token else []
        return ",".join(words)


class Cluster(Server):
    """Several servers that clients use as one: the connections of a measurement go to all members in turn."""

    def __init__(self):
        super().__init__()
        self.members = []

    @property
    def pids(self) -> list[int]:
        return [member.pid for member in self.members]

    @property
    def urls(self) -> list[str]:
        return [member.url for member in self.members]

    def rotate(self) -> None:
        """Moves the first member to the end, because a single client only uses the first member."""
        self.members.append(self.members.pop(0))

    def stop(self) -> None:
        for member in self.members:
            member.stop()


class Slateberg(Server):
    """slateberg with its state and its warehouse in a local directory, and an fsync for every commit."""

    name = "slateberg"
    notes = "state and warehouse in a local directory, fsync"

    def __init__(self):
        super().__init__()
        self.binary = SLATEBERG
        self.environment = {}
        # Milliseconds from the start of the process to the first response with status 200.
        self.ready_ms = None

    def install(self) -> None:
        if not Path(self.binary).exists():
            raise install.InstallError(f"no {self.binary}: cargo build --release --locked -p slateberg -p slateberg-bench")

    def start(self, directory: Path) -> None:
        words = [self.binary, "serve", "--insecure-no-auth", "--listen", "127.0.0.1:0", "--data-dir", directory / "data"]
        words += self.options(directory)
        for old in directory.glob("*.log"):
            old.unlink()
        self.process = Process(words, directory, self.environment)
        self.process.wait_for(self.found_url, START_SECONDS, pause=0.0005)
        self.process.wait_for(lambda: answers(f"{self.url}/v1/config"), START_SECONDS, pause=0.0005)
        self.ready_ms = (time.perf_counter() - self.process.began) * 1000

    def options(self, _directory: Path) -> list:
        return []

    def found_url(self) -> bool:
        """Finds the server's URL in its banner."""
        found = re.search(r"http://127\.0\.0\.1:\d+", self.process.output())
        self.url = found and found[0]
        return bool(found)


class SlatebergDelayed(Slateberg):
    """slateberg on an object store in its own memory, where each request takes 20 ms."""

    name = "slateberg-20ms"
    notes = "object store in memory, every request to it takes 20 ms"
    latency_ms = 20

    def __init__(self):
        super().__init__()
        self.binary = LOAD_GENERATOR

    def options(self, _directory: Path) -> list:
        return ["--latency-ms", str(self.latency_ms), "--memory"]


class SlatebergRebasing(SlatebergDelayed):
    """The same, but with its warehouse in a directory, where the load generator writes manifests of appends."""

    name = "slateberg-rebasing"
    notes = "state in memory, warehouse in a directory, every request to them takes 20 ms; rebases appends"

    def __init__(self):
        super().__init__()
        self.environment = {
            "SLATEBERG__CATALOG__APPEND_REBASE": "all",
            "SLATEBERG__CATALOG__MAINTENANCE": "declared",
        }

    def options(self, _directory: Path) -> list:
        return ["--latency-ms", str(self.latency_ms), "--memory-state"]


class SlatebergScans(Slateberg):
    """slateberg with a manifest cache for tables with a million files."""

    def __init__(self):
        super().__init__()
        self.environment = {
            "SLATEBERG__MEMORY_BYTES_MAX": str(4 << 30),
            "SLATEBERG__CATALOG__MANIFEST_CACHE_BYTES": str(1 << 30),
        }


class Minio(Server):
    """MinIO, the S3 store of servers that need one."""

    name = "minio"
    version = "v0.0.0-20260212201848-7aac2a2c5b7c"
    user, password, region = "minioadmin", "minioadmin", "us-east-1"
    bucket = "bench"
    long_install = True

    def install(self) -> None:
        # The build takes about 12 minutes with an empty cache.
        package = f"github.com/minio/minio@{self.version}"
        install.once(self.name, self.version, lambda: install.go("install", package))

    def start(self, directory: Path) -> None:
        port, console = free_port(), free_port()
        data = directory / "minio"
        data.mkdir()
        words = [install.BIN / "minio", "server", data, "--quiet"]
        words += ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{console}"]
        environment = {
            "MINIO_ROOT_USER": self.user,
            "MINIO_ROOT_PASSWORD": self.password,
            "MINIO_PROMETHEUS_AUTH_TYPE": "public",
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "HOME": str(directory),
        }
        self.process = Process(words, directory, environment)
        self.url = f"http://127.0.0.1:{port}"
        self.process.wait_for(lambda: answers(f"{self.url}/minio/health/live"), START_SECONDS)
        self.process.wait_for(self._create_bucket, START_SECONDS)

    def _create_bucket(self) -> bool:
        """Creates the bucket with a PUT that has an AWS signature (version 4) over an empty body."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        host = self.url.removeprefix("http://")
        headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": now}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"PUT\n/{self.bucket}\n\n{lines}\n{names}\n{empty}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self.password}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.user}/{scope}, "
            f"SignedHeaders={names}, Signature={key.hex()}"
        )
        url = f"{self.url}/{self.bucket}"
        try:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")).close()
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise RuntimeError(f"MinIO rejects the bucket: {error.read()[:500]}") from error
            return False
        return True

    def requests(self) -> dict[str, int]:
        """Returns the number of S3 requests so far, by API."""
        with urllib.request.urlopen(f"{self.url}/minio/v2/metrics/cluster", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(r'^minio_s3_requests_total\{api="(\w+)".*\} (\S+)$', text, re.MULTILINE)
        return {api: int(float(count)) for api, count in found}


class Toxiproxy(Server):
    """A proxy in front of MinIO that delays every response by 20 ms."""

    name = "toxiproxy"
    version = "v2.12.0"
    latency_ms = 20
    # The proxy needs MinIO, whose install takes long.
    long_install = True

    def __init__(self, upstream: Server):
        super().__init__()
        self.upstream = upstream

    def install(self) -> None:
        def build():
            install.go("install", f"github.com/Shopify/toxiproxy/v2/cmd/server@{self.version}")
            (install.BIN / "server").rename(install.BIN / "toxiproxy-server")

        install.once(self.name, self.version, build)

    def start(self, directory: Path) -> None:
        control, port = free_port(), free_port()
        words = [install.BIN / "toxiproxy-server", "-host", "127.0.0.1", "-port", control]
        self.process = Process(words, directory)
        api = f"http://127.0.0.1:{control}"
        self.process.wait_for(lambda: answers(f"{api}/version"), START_SECONDS)
        upstream = self.upstream.url.removeprefix("http://")
        proxy = {"name": "s3", "listen": f"127.0.0.1:{port}", "upstream": upstream}
        delay = {"type": "latency", "stream": "downstream", "attributes": {"latency": self.latency_ms}}
        for path, body in (("/proxies", proxy), ("/proxies/s3/toxics", delay)):
            data = json.dumps(body).encode()
            urllib.request.urlopen(urllib.request.Request(api + path, data=data)).close()
        self.url = f"http://127.0.0.1:{port}"


class SlatebergS3(Slateberg):
    """slateberg with its state and its warehouse in a bucket."""

    notes = "state and warehouse in a bucket of MinIO on the same disk"

    def __init__(self, name: str, endpoint: Server):
        super().__init__()
        self.name = name
        self.endpoint = endpoint
        self.environment = {
            "AWS_ACCESS_KEY_ID": Minio.user,
            "AWS_SECRET_ACCESS_KEY": Minio.password,
        }

    def options(self, directory: Path) -> list:
        store = self.store_options()
        lines = "".join(f'{key} = "{value}"\n' for key, value in store.items())
        # Each server has a prefix of its own, because several servers may share the bucket.
        base = f"s3://{Minio.bucket}/{self.name}"
        config = directory / "slateberg.toml"
        config.write_text(
            f'[state]\nurl = "{base}/state"\n[state.options]\n{lines}'
            f'[warehouses.default]\nlocation = "{base}/warehouse"\n'
            f"[warehouses.default.options]\n{lines}"
        )
        return ["--config", config]

    def store_options(self) -> dict[str, str]:
        return {
            "aws_endpoint": self.endpoint.url,
            "aws_allow_http": "true",
            "aws_region": Minio.region,
        }


class SlatebergCluster(Cluster):
    """A cluster of slateberg on one state in a bucket."""

    notes = "state and warehouse in a bucket of MinIO on the same disk"

    def __init__(self, size: int, endpoint: Server):
        super().__init__()
        self.name = f"slateberg-{size}"
        for number in range(size):
            member = SlatebergS3(self.name, endpoint)
            member.environment |= {
                "SLATEBERG__CLUSTER__ENABLED": "true",
                "SLATEBERG__CLUSTER__LISTEN": "127.0.0.1:0",
                "SLATEBERG__CLUSTER__NAME": f"{self.name}-{number}",
            }
            self.members.append(member)

    def start(self, directory: Path) -> None:
        for number, member in enumerate(self.members):
            own = directory / str(number)
            own.mkdir()
            member.start(own)


class JavaFixture(Server):
    """The REST server of Iceberg's own test suites, on JdbcCatalog."""

    name = "java-fixture"
    version = "1.11.0"
    notes = "JdbcCatalog on a SQLite file (WAL, synchronous=FULL); metadata files without fsync"
    classpath = install.CACHE / "java-fixture/classpath"
    flags = []
    environment = {}

    def install(self) -> None:
        pom = install.HERE / "java-fixture/pom.xml"

        def build():
            self.classpath.parent.mkdir(parents=True, exist_ok=True)
            output = f"-Dmdep.outputFile={self.classpath}"
            install.maven("-f", pom, "dependency:build-classpath", output)

        install.java()
        install.once(self.name, f"{self.version} {digest(pom)}", build)

    def start(self, directory: Path) -> None:
        port = free_port()
        pragmas = "journal_mode=WAL&synchronous=FULL&busy_timeout=30000"
        environment = {
            # The fixture reads its property a-b.c from the variable CATALOG_A__B_C.
            "CATALOG_REST_PORT": str(port),
            "CATALOG_WAREHOUSE": str(directory / "warehouse"),
            "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db?{pragmas}",
            **self.environment,
        }
        words = [install.java(), *self.flags, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        words += ["-cp", self.classpath.read_text().strip(), "org.apache.iceberg.rest.RESTCatalogServer"]
        self.process = Process(words, directory, environment)
        self.url = f"http://127.0.0.1:{port}"
        self.process.wait_for(lambda: answers(f"{self.url}/v1/config"), START_SECONDS)


class JavaFixtureScans(JavaFixture):
    """The fixture with memory for plans of a million files, and with a manifest cache as large as slateberg's."""

    flags = ["-Xmx4g"]
    environment = {
        "CATALOG_IO_MANIFEST_CACHE__ENABLED": "true",
        "CATALOG_IO_MANIFEST_CACHE_MAX__TOTAL__BYTES": str(1 << 30),
        # The default is 8 MiB, which is less than some manifests of the benchmark.
        "CATALOG_IO_MANIFEST_CACHE_MAX__CONTENT__LENGTH": str(64 << 20),
    }


class Nessie(Server):
    """Nessie's Quarkus server on RocksDB. It supports no warehouse at a file: URL, so its files are in MinIO."""

    name = "nessie"
    # The newest version whose runner is available from Maven Central.
    version = "0.99.0"
    warehouse = "warehouse"
    notes = "RocksDB, which does not sync its log; metadata files in MinIO, whose CPU is not counted"
    # Nessie is downloaded in seconds, but it needs MinIO, whose install takes long.
    long_install = True
    jar = install.CACHE / f"nessie/nessie-quarkus-{version}-runner.jar"

    def __init__(self, s3: Minio):
        super().__init__()
        self.s3 = s3

    def install(self) -> None:
        artifact = f"org.projectnessie.nessie:nessie-quarkus:{self.version}:jar:runner"
        words = [f"-Dartifact={artifact}", f"-DoutputDirectory={self.jar.parent}"]
        install.java()
        install.once(self.name, self.version, lambda: install.maven("dependency:copy", *words))

    def start(self, directory: Path) -> None:
        port = free_port()
        s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.management.port": free_port(),
            "quarkus.log.level": "ERROR",
            "quarkus.http.access-log.enabled": "false",
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "ROCKSDB",
            "nessie.version.store.persist.rocks.database-path": directory / "rocksdb",
            "nessie.catalog.default-warehouse": self.warehouse,
            f"nessie.catalog.warehouses.{self.warehouse}.location": f"s3://{Minio.bucket}/nessie",
            f"{s3}.endpoint": self.s3.url,
            f"{s3}.path-style-access": "true",
            f"{s3}.region": Minio.region,
            f"{s3}.access-key": "urn:nessie-secret:quarkus:s3-key",
            "s3-key.name": Minio.user,
            "s3-key.secret": Minio.password,
        }
        flags = [f"-D{key}={value}" for key, value in settings.items()]
        self.process = Process([install.java(), *flags, "-jar", self.jar], directory)
        self.url = f"http://127.0.0.1:{port}/iceberg"
        self.process.wait_for(lambda: answers(f"{self.url}/v1/config"), START_SECONDS)


class Rustberg(Server):
    """Rustberg on redb, without authentication, audit log and rate limit."""

    name = "rustberg"
    version = "0.3.0"
    notes = "redb and warehouse in a local directory; no authentication, audit or rate limit"
    long_install = True

    def install(self) -> None:
        install.once(self.name, self.version, lambda: install.cargo_install("rustberg", self.version))

    def start(self, directory: Path) -> None:
        port = free_port()
        config = directory / "rustberg.toml"
        (directory / "warehouse").mkdir()
        config.write_text(
            f'[server]\nhost = "127.0.0.1"\nport = {port}\n'
            f'[storage]\ncatalog_url = "file://{directory}/catalog"\n'
            f'warehouse_location = "file://{directory}/warehouse"\n'
            "[rate_limit]\nenabled = false\n"
            "[tls]\nenabled = false\ninsecure_http = true\n"
            '[audit]\nsink = "none"\nfail_closed = false\n'
            '[logging]\nlevel = "error"\n'
        )
        words = [install.CACHE / "rustberg/bin/rustberg", "--config", config]
        # Without authentication, Rustberg only starts in development mode, which changes nothing else.
        words += ["--dev", "--no-auth", "--insecure-http", "--log-level", "error"]
        self.process = Process(words, directory)
        self.url = f"http://127.0.0.1:{port}"
        self.process.wait_for(lambda: answers(f"{self.url}/v1/config"), START_SECONDS)


class Etcd(Cluster):
    """etcd with its data on the same disk as the other servers, and with fsync (the default)."""

    name = "etcd"
    version = "3.7.3"
    driver = install.BIN / "etcd-kv"

    def __init__(self, size: int = 1):
        super().__init__()
        self.size = size
        if size > 1:
            self.name = f"etcd-{size}"

    def install(self) -> None:
        module = install.HERE / "etcd"

        def build():
            # The etcd server is a tool of the driver's Go module, so that go.mod pins the versions of both.
            server = "go.etcd.io/etcd/server/v3"
            install.go("build", "-o", install.BIN / "etcd", server, directory=module)
            install.go("build", "-o", self.driver, ".", directory=module)

        sources = digest(module / "go.mod", module / "main.go")
        install.once(Etcd.name, f"{self.version} {sources}", build)

    def start(self, directory: Path) -> None:
        peers = {f"node-{number}": f"http://127.0.0.1:{free_port()}" for number in range(self.size)}
        cluster = ",".join(f"{name}={peer}" for name, peer in peers.items())
        for name, peer in peers.items():
            node, own = Server(), directory / name
            own.mkdir()
            node.url = f"http://127.0.0.1:{free_port()}"
            words = [install.BIN / "etcd", "--name", name, "--data-dir", own / "etcd", "--log-level", "error"]
            words += ["--listen-client-urls", node.url, "--advertise-client-urls", node.url]
            words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            words += ["--initial-cluster", cluster, "--quota-backend-bytes", 8 << 30]
            node.process = Process(words, own)
            self.members.append(node)
        # A node is not ready before a majority of the nodes runs.
        for node in self.members:
            node.process.wait_for(lambda: answers(f"{node.url}/health"), START_SECONDS)
