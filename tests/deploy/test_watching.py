"""Alerts and the dashboard: their queries are correct and use existing metrics."""

import json
import re

import pytest
import yaml
from certificates import Authority
from conftest import CHART, ROOT, checked, run

RULES = CHART / "alerts/slateberg.yaml"
DASHBOARD = CHART / "dashboards/slateberg.json"
# Metrics of Prometheus itself.
OF_PROMETHEUS = {"up"}
# Metrics of a member of a cluster, which these tests do not start.
OF_CLUSTER = {
    f"slateberg_cluster_{name}"
    for name in ("role", "term", "paused", "forwards_total", "resends_total", "settings_different")
}
# A metric of buckets. The servers of these tests have local directories.
OF_BUCKETS = {"slateberg_object_store_hedged_puts_total"}


@pytest.fixture(scope="module")
def rules():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def queries():
    """The queries of the dashboard, with values for Grafana's variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [query.replace("$__rate_interval", "5m").replace("$namespace", ".*") for query in found]


def test_rules_are_valid():
    checked("promtool", "check", "rules", "--lint-fatal", RULES)


def test_alerts_fire_when_they_should_and_keep_still_when_not():
    checked("promtool", "test", "rules", ROOT / "helm/tests/alerts.test.yaml")


def test_every_alert_is_tried(rules):
    tried = (ROOT / "helm/tests/alerts.test.yaml").read_text()
    for name in (rule["alert"] for rule in rules if "alert" in rule):
        assert re.search(rf"alertname: {name}\s+eval_time: \S+\s+exp_alerts:", tried), f"{name} never fires in a test"


def test_every_alert_has_a_runbook(rules):
    operations = (ROOT / "docs/operations.md").read_text()
    for rule in rules:
        if "alert" in rule:
            assert f"\n### {rule['alert']}\n" in operations
            assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"


def test_queries_of_the_dashboard_are_promql(queries, tmp_path):
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked("promtool", "check", "rules", file)


def test_panels_do_not_lie_on_one_another():
    taken = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_what_is_asked_for_is_measured(rules, queries, serve, tmp_path):
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    Authority(tmp_path / "ca").issue(certificate, key)
    tls = f"[server.tls]\ncertificate_file = '{certificate}'\nkey_file = '{key}'\n"
    server = serve(tls + "[server.management]\nlisten = '127.0.0.1:0'\nplain_http = true\n")
    status, text = server.get("/metrics", uri=server.operators_uri)
    assert status == 200
    measured = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    recorded = {rule["record"] for rule in rules if "record" in rule}
    known = measured | recorded | OF_PROMETHEUS | OF_CLUSTER | OF_BUCKETS
    for expression in [rule["expr"] for rule in rules] + queries:
        bare = re.sub(r'"[^"]*"', "", expression)
        asked = re.findall(r"([a-z][\w:]*)\s*\{", bare) + re.findall(r"slateberg:[\w:]+", bare)
        assert asked
        for name in asked:
            assert re.sub("_(bucket|count|sum)$", "", name) in known or name in known, f"{name} in {expression}"


def test_metrics_are_in_a_form_that_prometheus_takes(serve):
    status, text = serve("").get("/metrics")
    assert status == 200
    # SlateDB's metrics have SlateDB's names, which violate some conventions of Prometheus.
    checked("promtool", "check", "metrics", input=re.sub("(?m)^(# (HELP|TYPE) )?slatedb_.*\n", "", text))
    complaints = run("promtool", "check", "metrics", input=text).stderr.splitlines()
    assert all(re.match(r"slatedb_\w+ (metric names should not|non-histogram)", line) for line in complaints)
