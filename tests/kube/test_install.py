"""The chart on a real API server: objects are admitted and stored completely, and the release can
be upgraded, rolled back and removed."""

import copy
import json
import re

import pytest
import yaml
from conftest import CHART, Refused


def workload(release):
    (found,) = [one for one in release.rendered() if one["kind"] in ("Deployment", "StatefulSet")]
    return release.kubernetes.held(found, release.namespace)


def settings_of(release):
    return workload(release)["spec"]["template"]["metadata"]["annotations"]["checksum/config"]


def expect_held(rendered, held, path):
    """Expects that the server stored all rendered fields unchanged. The server may add defaults."""
    if isinstance(rendered, dict):
        for key, value in rendered.items():
            # The server may omit empty values.
            if value not in (None, [], {}, ""):
                assert key in held, f"{path}.{key} was dropped"
                expect_held(value, held[key], f"{path}.{key}")
    elif isinstance(rendered, list):
        assert len(rendered) == len(held), path
        for number, (ours, theirs) in enumerate(zip(rendered, held)):
            expect_held(ours, theirs, f"{path}[{number}]")
    else:
        assert rendered == held, f"{path}: {rendered} became {held}"


def test_the_server_is_what_the_chart_is_tried_against(kubernetes):
    # The version of the module from which the server was built. helm compares it with the chart's
    # constraint.
    module = (CHART.parents[1] / "tests/kube/servers/go.mod").read_text()
    assert kubernetes.ask("GET", "/version")["gitVersion"] == re.search(r"k8s.io/kubernetes (v\S+)", module)[1]


def test_a_dry_run_asks_the_server_and_leaves_nothing(case, release):
    before = release.all()
    told = release.install(case, "--dry-run=server")
    assert "STATUS: pending-install" in told
    # helm has only queried which kinds are available, so the test submits each object in a dry run.
    manifest = told[told.index("MANIFEST:") + len("MANIFEST:") : told.index("NOTES:")]
    objects = [found for found in yaml.safe_load_all(manifest) if found]
    assert len(objects) >= 3
    for found in objects:
        admitted = release.kubernetes.try_out(found, release.namespace)
        expect_held(found, admitted, found["kind"])
    assert release.all() == before
    assert release.helm("status", release.NAME).returncode != 0


def test_what_the_schemas_cannot_know_is_refused(release, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"extraVolumeMounts": [{"name": "nowhere", "mountPath": "/nowhere"}]}))
    done = release.helm("install", release.NAME, CHART, "--values", CHART / "ci/bucket.yaml", "--values", values)
    assert done.returncode != 0 and 'Not found: "nowhere"' in done.stderr, done.stderr


def test_what_is_installed_is_held_whole(case, release):
    release.install(case)
    rendered = release.rendered()
    for found in rendered:
        expect_held(found, release.kubernetes.held(found, release.namespace), found["kind"])
    assert release.all() == sorted((found["kind"], found["metadata"]["name"]) for found in rendered)


def is_cluster(workload):
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return "SLATEBERG__CLUSTER__ENABLED" in {variable["name"] for variable in container.get("env", [])}


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def test_there_is_one_writer_and_it_is_replaced_and_not_doubled(case, release):
    release.install(case)
    spec = workload(release)["spec"]
    if case == "cluster":
        # The members elect the writer.
        assert is_cluster(workload(release))
        assert (spec["replicas"], spec["strategy"]) == (3, ROLLING)
        return
    assert spec["replicas"] == (0 if case == "google" else 1)
    if case == "disk":
        # Pods are replaced in sequence and keep their disk.
        assert spec["podManagementPolicy"] == "OrderedReady"
        assert spec["updateStrategy"]["type"] == "RollingUpdate"
        assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    else:
        assert spec["strategy"] == {"type": "Recreate"}


def test_its_pod_is_let_in_where_only_the_strictest_standard_is(case, release):
    release.install(case)
    found = workload(release)
    template = copy.deepcopy(found["spec"]["template"])
    if case == "minio":
        # These values refer to a service account that must already exist.
        metadata = {"name": "existing", "namespace": release.namespace}
        release.kubernetes.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, release.namespace)
    # Create the pod as a controller would.
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "writer"}}
    pod["spec"] = template["spec"]
    for claim in found["spec"].get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        pod["spec"]["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": f"{name}-writer"}})
    admitted = release.kubernetes.try_out(pod, release.namespace)
    # The pod has no Kubernetes token, and runs with the configured service account.
    mounted = [volume for volume in admitted["spec"]["volumes"] if volume["name"].startswith("kube-api-access")]
    assert not mounted
    assert admitted["spec"]["serviceAccountName"] == template["spec"]["serviceAccountName"]
    # Verify that the standard is enforced.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="violates PodSecurity") as refused:
        release.kubernetes.try_out(pod, release.namespace)
    assert refused.value.status == 403


def selected(selector, labels):
    return selector.items() <= labels.items()


def test_whoever_selects_the_pod_finds_it(release):
    release.install("production")
    labels = workload(release)["spec"]["template"]["metadata"]["labels"]
    service = release.held("Service")
    assert selected(service["spec"]["selector"], labels)
    for kind, path in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert selected(release.held(kind)["spec"][path]["matchLabels"], labels), kind
    (constraint,) = workload(release)["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert selected(constraint["labelSelector"]["matchLabels"], labels)
    monitor = release.held("ServiceMonitor")["spec"]
    assert selected(monitor["selector"]["matchLabels"], service["metadata"]["labels"])
    ports = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    assert monitor["endpoints"][0]["port"] in ports
    container = workload(release)["spec"]["template"]["spec"]["containers"][0]
    assert set(ports.values()) <= {port["name"] for port in container["ports"]}
    assert release.held("PodDisruptionBudget")["spec"]["maxUnavailable"] == 0
    assert release.held("NetworkPolicy")["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (path,) = release.held("Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": "http"}}


@pytest.mark.parametrize("case", ["bucket", "disk"])
def test_a_change_of_settings_replaces_the_pod_and_a_rollback_takes_it_back(case, release):
    release.install(case)
    first, held = settings_of(release), workload(release)
    budget = release.held("PodDisruptionBudget")["metadata"]["resourceVersion"]

    release.upgrade(case)
    assert workload(release)["metadata"]["generation"] == held["metadata"]["generation"], "nothing has changed"

    release.upgrade(case, "--set", "config.catalog.page_size_max=7")
    changed = workload(release)
    assert settings_of(release) != first
    assert changed["metadata"]["generation"] == held["metadata"]["generation"] + 1
    assert changed["metadata"]["uid"] == held["metadata"]["uid"] and changed["spec"]["replicas"] == 1
    assert "page_size_max = 7" in release.held("ConfigMap")["data"]["slateberg.toml"]
    assert release.held("PodDisruptionBudget")["metadata"]["resourceVersion"] == budget

    release.done("rollback", release.NAME, "1")
    assert settings_of(release) == first
    assert "page_size_max" not in release.held("ConfigMap")["data"]["slateberg.toml"]
    assert workload(release)["metadata"]["uid"] == held["metadata"]["uid"]
    assert release.revisions() == ["superseded"] * 3 + ["deployed"]


def test_a_small_catalog_becomes_a_large_one_and_goes_back(release):
    release.install("bucket")
    before, uid = release.all(), workload(release)["metadata"]["uid"]
    release.upgrade("production")
    assert {"Ingress", "NetworkPolicy", "ServiceMonitor", "PrometheusRule"} <= {kind for kind, _ in release.all()}
    for found in release.rendered():
        expect_held(found, release.kubernetes.held(found, release.namespace), found["kind"])
    assert workload(release)["metadata"]["uid"] == uid, "the same Deployment: nobody selects other pods than before"

    release.done("rollback", release.NAME, "1")
    assert release.all() == before
    service = release.held("Service")["spec"]
    assert service["type"] == "ClusterIP" and [port["name"] for port in service["ports"]] == ["http"]
    assert workload(release)["metadata"]["uid"] == uid


def test_all_pods_of_a_single_server_stop_before_members_start_and_the_reverse(release):
    release.install("bucket")
    assert not is_cluster(workload(release))

    release.upgrade("bucket", "--set", "replicas=3")
    changed = workload(release)
    assert is_cluster(changed) and changed["spec"]["replicas"] == 3
    assert changed["spec"]["strategy"] == {"type": "Recreate"}

    release.upgrade("bucket", "--set", "replicas=3,config.catalog.page_size_max=7")
    assert workload(release)["spec"]["strategy"] == ROLLING

    release.upgrade("bucket")
    single = workload(release)
    assert not is_cluster(single) and single["spec"]["replicas"] == 1
    assert single["spec"]["strategy"] == {"type": "Recreate"}
    assert single["metadata"]["uid"] == changed["metadata"]["uid"]


def test_cluster_of_one_pod_grows_without_a_change_of_the_pod(release):
    release.install("bucket", "--set", "cluster.enabled=true")
    one = workload(release)
    assert (one["spec"]["replicas"], one["spec"]["strategy"]) == (1, ROLLING)
    release.upgrade("bucket", "--set", "cluster.enabled=true,replicas=3")
    three = workload(release)
    assert (three["spec"]["replicas"], three["spec"]["strategy"]) == (3, ROLLING)
    assert three["spec"]["template"] == one["spec"]["template"]


def test_from_a_disk_into_a_bucket_there_is_one_workload_after_another(release):
    release.install("disk")
    release.upgrade("bucket")
    assert [kind for kind, _ in release.all() if kind in ("Deployment", "StatefulSet")] == ["Deployment"]


def test_a_catalog_is_stopped_and_started(release):
    release.install("bucket")
    release.upgrade("bucket", "--set", "replicas=0")
    assert workload(release)["spec"]["replicas"] == 0
    release.upgrade("bucket")
    assert workload(release)["spec"]["replicas"] == 1


def test_a_refused_upgrade_leaves_the_catalog_as_it_was(release):
    release.install("disk")
    held = workload(release)
    words = ["upgrade", release.NAME, CHART, "--values", CHART / "ci/disk.yaml", "--set", "persistence.size=50Gi"]
    done = release.helm(*words)
    # The claims of a StatefulSet are immutable. docs/deployment.md describes how to grow a disk.
    assert done.returncode != 0 and "Forbidden: updates to statefulset spec" in done.stderr, done.stderr
    now = workload(release)
    assert now["spec"] == held["spec"] and now["metadata"]["uid"] == held["metadata"]["uid"]
    assert release.revisions() == ["deployed", "failed"]
    release.done("rollback", release.NAME, "1")
    assert release.revisions()[-1] == "deployed"


def test_a_disk_grows_as_the_documentation_says(release):
    release.install("disk")
    name = workload(release)["metadata"]["name"]
    release.kubernetes.ask("DELETE", release.kubernetes.path("apps/v1", "StatefulSet", release.namespace, name))
    release.upgrade("disk", "--set", "persistence.size=50Gi")
    (claim,) = workload(release)["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "50Gi"
    # The new StatefulSet adopts the existing claim because of its name.
    assert (claim["metadata"]["name"], workload(release)["metadata"]["name"]) == ("data", name)


def test_nothing_is_left_of_what_is_removed(case, release):
    before = release.all()
    release.install(case)
    assert release.all() != before
    release.done("uninstall", release.NAME)
    assert release.all() == before
    assert json.loads(release.done("list", "--all", "--output", "json")) == []
