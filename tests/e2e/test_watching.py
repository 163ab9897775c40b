"""Observability: a PyIceberg commit is one trace in a collector and in Jaeger, metrics arrive in
the collector and in Prometheus, and an unreachable collector delays no request."""

import json
import re
import secrets
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from processes import Slateberg
from pyiceberg.catalog.rest import RestCatalog
from watching import Collector, Jaeger, Prometheus
from web import free_port

RULES = Path(__file__).resolve().parents[2] / "helm/slateberg/alerts/slateberg.yaml"
SETTINGS = """
[telemetry.otlp]
endpoint = "{endpoint}"
metrics = {metrics}
metrics_interval_ms = 500
sample_ratio = {sample_ratio}
flush_ms_max = 2000
[telemetry.otlp.resource_attributes]
"deployment.environment.name" = "test"
[log]
level = "warn,slateberg=debug"
format = "json"
"""
# The spans of a commit, in addition to those of requests.
PHASES = {"authenticate", "authorize", "commit", "wal.put", "metadata.put"}
PHASES |= {"commit.wait", "commit.evaluate", "commit.apply"}
ROUTE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


@pytest.fixture
def collector(tmp_path):
    collector = Collector(tmp_path)
    yield collector
    collector.stop()


@pytest.fixture
def jaeger(tmp_path):
    jaeger = Jaeger(tmp_path)
    yield jaeger
    jaeger.stop()


@pytest.fixture
def tracing(jaeger):
    """The tracer of a client program, which also exports to Jaeger."""
    provider = TracerProvider(resource=Resource({"service.name": "importer"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{jaeger.otlp_uri}/v1/traces")))
    yield provider.get_tracer("importer")
    provider.shutdown()


@pytest.fixture
def start(tmp_path):
    """Starts a slateberg that exports to this endpoint."""
    started = []

    def start(endpoint, sample_ratio=1.0, metrics=True):
        asked = {"endpoint": endpoint, "sample_ratio": sample_ratio, "metrics": str(metrics).lower()}
        started.append(Slateberg(tmp_path, SETTINGS.format(**asked)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def client(server, **properties):
    return RestCatalog("slateberg", uri=server.uri, token=server.admin_key, **properties)


def rows(number):
    return pa.table({"n": pa.array(range(number), pa.int64())})


def with_table(server):
    catalog = client(server)
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", rows(1).schema)


def attributes_of(span):
    return {it["key"]: next(iter(it["value"].values())) for it in span.get("attributes", [])}


def test_commit_of_pyiceberg_is_one_trace(start, collector):
    server = start(collector.uri, sample_ratio=0.0)
    with_table(server)
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    traced = client(server, **{"header.traceparent": f"00-{trace_id}-{caller}-01"})
    traced.load_table("ns.t").append(rows(3))

    def committed():
        return any(span["name"] == f"POST {ROUTE}" for span in collector.spans(trace_id))

    collector.wait_until(committed, 30)
    spans = collector.spans(trace_id)
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    # Requests continue the client's trace. All other spans belong to a request.
    requests = [span for span in spans if span["parentSpanId"] == caller]
    assert {span["name"] for span in requests} >= {"GET /v1/config", f"GET {ROUTE}", f"POST {ROUTE}"}
    for span in spans:
        parent = by_id.get(span["parentSpanId"])
        assert (parent is None) == (span in requests), span
        assert parent is None or int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    (commit,) = (span for span in requests if span["name"] == f"POST {ROUTE}")
    inside, known = {commit["spanId"]}, 0
    while len(inside) > known:
        known = len(inside)
        inside |= {span["spanId"] for span in spans if span["parentSpanId"] in inside}
    names = {by_id[span_id]["name"] for span_id in inside}
    assert names >= PHASES, PHASES - names
    attributes = attributes_of(commit)
    assert attributes["http.request.method"] == "POST" and attributes["http.route"] == ROUTE
    assert attributes["http.response.status_code"] == "200"
    # Requests outside of this trace are not sampled.
    assert {span["traceId"] for span in collector.spans()} == {trace_id}


def parent_in_jaeger(span):
    """The id of a span's parent. `None` for the root span."""
    parents = [it["spanID"] for it in span["references"] if it["refType"] == "CHILD_OF"]
    assert len(parents) <= 1, span
    return parents[0] if parents else None


def test_program_and_its_commit_are_one_trace_in_jaeger(start, jaeger, tracing):
    server = start(jaeger.otlp_uri, sample_ratio=0.0, metrics=False)
    with_table(server)
    request_id, carried = f"import-{secrets.token_hex(4)}", {}
    with tracing.start_as_current_span("import") as importing:
        TraceContextTextMapPropagator().inject(carried)
        traced = client(server, **{"header.traceparent": carried["traceparent"], "header.X-Request-Id": request_id})
        traced.load_table("ns.t").append(rows(3))
    trace_id = f"{importing.get_span_context().trace_id:032x}"

    def committed():
        trace = jaeger.trace(trace_id)
        return trace and any(span["operationName"] == f"POST {ROUTE}" for span in trace["spans"]) and trace

    trace = jaeger.wait_until(committed, 30)
    services = {key: process["serviceName"] for key, process in trace["processes"].items()}
    by_id = {span["spanID"]: span for span in trace["spans"]}
    assert len(by_id) == len(trace["spans"])
    # A single tree with the client program's span as its root, and slateberg's spans below.
    (root,) = (span for span in trace["spans"] if parent_in_jaeger(span) is None)
    assert (root["operationName"], services[root["processID"]]) == ("import", "importer")
    parents = {span_id: parent_in_jaeger(span) for span_id, span in by_id.items() if span is not root}
    assert set(parents.values()) <= set(by_id)
    assert {services[by_id[span_id]["processID"]] for span_id in parents} == {"slateberg"}
    assert not [warning for span in trace["spans"] for warning in span["warnings"] or []]

    requests = {by_id[span_id]["operationName"] for span_id, parent in parents.items() if parent == root["spanID"]}
    assert requests >= {"GET /v1/config", f"GET {ROUTE}", f"POST {ROUTE}"}
    (commit,) = (span for span in trace["spans"] if span["operationName"] == f"POST {ROUTE}")

    def below(span_id):
        children = [child for child, parent in parents.items() if parent == span_id]
        return {span_id}.union(*map(below, children))

    names = {by_id[span_id]["operationName"] for span_id in below(commit["spanID"])}
    assert names >= PHASES, PHASES - names
    # The request id in responses, the log and the change log finds the trace. No other trace was
    # stored.
    wanted = json.dumps({"slateberg.request_id": request_id})
    assert jaeger.search("slateberg", tags=wanted) == {trace_id}
    assert jaeger.search("slateberg") == {trace_id}


def test_log_line_contains_the_ids_of_its_trace(start, collector):
    server = start(collector.uri)
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    headers = {"Authorization": "Bearer wrong", "traceparent": f"00-{trace_id}-{caller}-01", "X-Request-Id": "mine"}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(urllib.request.Request(f"{server.uri}/v1/config", headers=headers), timeout=10)
    lines = [json.loads(line) for line in server.said().splitlines() if line.startswith("{")]
    (refused,) = (line for line in lines if line["fields"]["message"] == "credential rejected")
    (request,) = collector.wait_until(lambda: [it for it in collector.spans(trace_id) if it["parentSpanId"] == caller], 30)
    assert refused["span"]["trace_id"] == trace_id
    assert refused["span"]["span_id"] == request["spanId"]
    assert refused["span"]["request_id"] == attributes_of(request)["slateberg.request_id"] == "mine"


def kind_of(metric):
    """The kind of a metric from the collector, as Prometheus names it."""
    kinds = {"sum": "counter", "gauge": "gauge", "histogram": "histogram"}
    (kind,) = (kinds[kind] for kind in kinds if kind in metric)
    return kind


def name_in_prometheus(name, metric):
    """The name of a metric in `/metrics`, as docs/operations.md describes it."""
    name = re.sub(r"\W", "_", name)
    unit = {"s": "_seconds", "By": "_bytes"}.get(metric.get("unit"), "")
    for suffix in (unit, "_total" if kind_of(metric) == "counter" else ""):
        name = name.removesuffix(suffix) + suffix
    return name


def test_metrics_are_the_same_in_the_collector_and_for_prometheus(start, collector):
    server = start(collector.uri)
    with_table(server)
    client(server).load_table("ns.t").append(rows(3))

    def page():
        """The kinds of the metrics that have a series. OTLP has no metrics without one."""
        with urllib.request.urlopen(f"{server.uri}/metrics", timeout=10) as response:
            text = response.read().decode()
        return dict(re.findall(r"^# TYPE (\w+) (\w+)\n(?=\w)", text, re.MULTILINE))

    def exported():
        return {name_in_prometheus(name, metric): kind_of(metric) for name, metric in collector.metrics()[0].items()}

    def arrived():
        # The exports lag behind the page by an interval.
        return "slateberg.commit.phase.duration" in collector.metrics()[0] and exported() == page()

    try:
        collector.wait_until(arrived, 30)
    except AssertionError:
        assert exported() == page()
    metrics, resource = collector.metrics()
    assert resource["service.name"] == "slateberg" and resource["deployment.environment.name"] == "test"
    durations = metrics["http.server.request.duration"]["histogram"]["dataPoints"]
    routes = {attributes_of(point).get("http.route") for point in durations}
    assert ROUTE in routes
    assert {0.05, 0.2} <= set(durations[0]["explicitBounds"])


def test_prometheus_scrapes_the_metrics_and_evaluates_the_rules(start, collector, tmp_path):
    server = start(collector.uri)
    with_table(server)
    prometheus = Prometheus(tmp_path, server.uri, RULES)
    try:
        assert prometheus.wait_until(lambda: prometheus.ask('up{job="slateberg"} == 1'), 60)
        (target,) = prometheus.targets()
        assert target["lastError"] == ""
        catalog = client(server)

        # A rate requires two scrapes with requests between them.
        prometheus.wait_until(
            lambda: catalog.load_table("ns.t").append(rows(1))
            or all(prometheus.ask(f"slateberg:{kind}_seconds:p99_5m > 0") for kind in ("reads", "writes")),
            60,
        )
        broken = [rule for rule in prometheus.rules() if rule["health"] == "err"]
        assert not broken
    finally:
        prometheus.stop()


def test_unreachable_collector_delays_no_request(start):
    server = start(f"http://127.0.0.1:{free_port()}")
    with_table(server)
    catalog = client(server)
    for _ in range(20):
        catalog.load_table("ns.t")
    catalog.load_table("ns.t").append(rows(1))
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 1
    # The fixture verifies that the server exits cleanly.
