"""Unmodified observability tools: an OpenTelemetry collector, Jaeger and Prometheus."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from processes import Process
from web import free_port


def get_json(url):
    """The JSON at a URL. `None` while the server is not reachable."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)
    except (urllib.error.URLError, ConnectionError):
        return None


class Collector:
    """An OpenTelemetry collector that writes what it receives to files."""

    def __init__(self, directory):
        self._directory = directory
        port = free_port()
        self.uri = f"http://127.0.0.1:{port}"
        config = directory / "otelcol.yaml"
        config.write_text(json.dumps(self._config(port)))
        command = [os.environ["OTELCOL_BIN"], "--config", f"file:{config}"]
        self._process = Process(command, directory / "otelcol.log")
        self._process.wait_until(lambda: "Everything is ready" in self._process.said(), 60)

    def _config(self, port):
        files = {signal: {"path": str(self._directory / f"{signal}.jsonl")} for signal in ("traces", "metrics")}
        exporters = {f"file/{signal}": file for signal, file in files.items()}
        return {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": exporters,
            "service": {
                "pipelines": {
                    "traces": {"receivers": ["otlp"], "exporters": ["file/traces"]},
                    "metrics": {"receivers": ["otlp"], "exporters": ["file/metrics"]},
                },
                "telemetry": {"metrics": {"level": "none"}},
            },
        }

    def _lines(self, signal):
        file = self._directory / f"{signal}.jsonl"
        # The last line may be incomplete.
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def metrics(self):
        """The latest value of each metric, with the attributes of the server's resource."""
        metrics, resource = {}, {}
        for line in self._lines("metrics"):
            for of_resource in line["resourceMetrics"]:
                resource = {it["key"]: it["value"]["stringValue"] for it in of_resource["resource"]["attributes"]}
                for scope in of_resource["scopeMetrics"]:
                    metrics.update({metric["name"]: metric for metric in scope["metrics"]})
        return metrics, resource

    def spans(self, trace_id=None):
        """The received spans, of one trace or of all."""
        return [
            span
            for line in self._lines("traces")
            for of_resource in line["resourceSpans"]
            for scope in of_resource["scopeSpans"]
            for span in scope["spans"]
            if trace_id in (None, span["traceId"])
        ]

    def wait_until(self, is_there, timeout_s):
        return self._process.wait_until(is_there, timeout_s)

    def stop(self):
        self._process.stop()


class Jaeger:
    """A Jaeger with in-memory storage. It receives OTLP over HTTP and serves the API of its UI."""

    def __init__(self, directory):
        take, query, grpc = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.otlp_uri = f"http://{take}"
        self._api = f"http://{query}/api"
        config = directory / "jaeger.yaml"
        config.write_text(json.dumps(self._config(take, query, grpc)))
        command = [os.environ["JAEGER_BIN"], "--config", f"file:{config}"]
        self._process = Process(command, directory / "jaeger.log")
        self._process.wait_until(lambda: "Everything is ready" in self._process.said(), 60)

    @staticmethod
    def _config(take, query, grpc):
        query_extension = {
            "storage": {"traces": "memory"},
            "http": {"endpoint": query},
            "grpc": {"endpoint": grpc},
            # Jaeger would otherwise export its own traces to a default collector.
            "enable_tracing": False,
        }
        return {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": take}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
            "extensions": {
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 10000}}}},
                "jaeger_query": query_extension,
            },
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }

    def trace(self, trace_id):
        """A trace as in Jaeger's UI. `None` while Jaeger has none of its spans."""
        found = get_json(f"{self._api}/traces/{trace_id}")
        if found is None:
            return None
        (trace,) = found["data"]
        return trace

    def search(self, service, **asked):
        """The ids of the traces that a search for a service finds."""
        found = get_json(f"{self._api}/traces?{urllib.parse.urlencode({'service': service, **asked})}")
        return {trace["traceID"] for trace in found["data"]}

    def wait_until(self, is_there, timeout_s):
        return self._process.wait_until(is_there, timeout_s)

    def stop(self):
        self._process.stop()


class Prometheus:
    """A Prometheus that scrapes one server and loads the rules of the chart. For HTTPS it trusts
    the CA in `ca_file`."""

    def __init__(self, directory, server_uri, rules, ca_file=None):
        scheme, _, target = server_uri.partition("://")
        tls = {"tls_config": {"ca_file": str(ca_file)}} if ca_file else {}
        port = free_port()
        self._uri = f"http://127.0.0.1:{port}"
        config = directory / "prometheus.yaml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(Path(rules).resolve())],
                    "scrape_configs": [
                        {
                            "job_name": "slateberg",
                            "scheme": scheme,
                            "static_configs": [{"targets": [target]}],
                            **tls,
                        }
                    ],
                }
            )
        )
        command = [os.environ["PROMETHEUS_BIN"], f"--config.file={config}"]
        command += [f"--storage.tsdb.path={directory / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
        self._process = Process(command, directory / "prometheus.log")
        self._process.wait_until(lambda: self.ask("vector(1)"), 60)

    def ask(self, query):
        """The series that a query returns."""
        found = get_json(f"{self._uri}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        return found and found["data"]["result"]

    def targets(self):
        return get_json(f"{self._uri}/api/v1/targets")["data"]["activeTargets"]

    def rules(self):
        groups = get_json(f"{self._uri}/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def wait_until(self, is_there, timeout_s):
        return self._process.wait_until(is_there, timeout_s)

    def stop(self):
        self._process.stop()
