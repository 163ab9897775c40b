"""The Helm chart: its output is valid, hardened, has a single writer or a cluster, and is accepted by
the server."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from conftest import CHART, KUBERNETES, ROOT, Rendered, checked, run

# Disabled checks of kube-score, with reasons.
NOT_SCORED = {
    # There is a single writer, and an upgrade must not start a second one at the same time.
    "deployment-strategy",
    "deployment-replicas",
    # The check requires a headless service, by which pods find each other. There is only one pod.
    "statefulset-has-servicename",
    # Release tags are immutable, and a pull at each start would depend on the registry.
    "container-image-pull-policy",
    # Off by default, because the chart cannot know the ports of a private store.
    "pod-networkpolicy",
}


def test_the_chart_is_clean(case):
    checked("helm", "lint", "--strict", CHART, "--values", case, "--kube-version", "1.33.0")


@pytest.fixture(scope="session")
def schemas(tmp_path_factory):
    """Schemas of Kubernetes and of the Prometheus operator, in kubeconform's layout."""
    directory = tmp_path_factory.mktemp("schemas")
    theirs = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    for version in KUBERNETES:
        below = directory / f"v{version}"
        below.mkdir()
        for file in (theirs / f"v{version}-local-strict").iterdir():
            # The schemas refer to each other by the publisher's absolute path.
            text = file.read_text().replace('"/api/_definitions.json', f'"file://{below}/_definitions.json')
            (below / file.name).write_text(text.replace('"_definitions.json', f'"file://{below}/_definitions.json'))
    operator = Path(os.environ["SLATEBERG_CACHE"]) / "tools/prometheus-operator/example/prometheus-operator-crd"
    for kind in ("servicemonitor", "prometheusrule"):
        definition = yaml.safe_load((operator / f"monitoring.coreos.com_{kind}s.yaml").read_text())
        (version,) = [found for found in definition["spec"]["versions"] if found["storage"]]
        schema = strict(version["schema"]["openAPIV3Schema"])
        (directory / f"{kind}-monitoring-v1.json").write_text(json.dumps(schema))
    return directory


def strict(schema):
    """Rejects unknown fields, which the API server would drop silently."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        if schema.get("type") == "object" and "properties" in schema and "metadata" not in schema["properties"]:
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [strict(item) for item in schema]
    return schema


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_knows_what_is_rendered(case, kubernetes, schemas):
    rendered = Rendered("--values", case, kubernetes=kubernetes)
    locations = [f"{schemas}/v{kubernetes}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"]
    locations += [f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"]
    words = ["kubeconform", "-strict", "-summary", "-output", "json", "-kubernetes-version", kubernetes]
    for location in locations:
        words += ["-schema-location", location]
    summary = json.loads(checked(*words, input=rendered.text))["summary"]
    assert summary == {"valid": len(rendered.objects), "invalid": 0, "errors": 0, "skipped": 0}


def test_the_schemas_find_what_is_wrong(case, schemas):
    wrong = Rendered("--values", case).text.replace("enableServiceLinks", "enableServiceLink")
    location = f"{schemas}/v1.33.0/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    done = run("kubeconform", "-strict", "-schema-location", location, "-ignore-missing-schemas", input=wrong)
    assert done.returncode != 0 and "enableServiceLink" in done.stdout


def test_the_pod_is_hardened(case):
    words = ["kube-score", "score", "-", "--kubernetes-version", "v1.33", "--output-format", "json"]
    # A CPU limit increases tail latencies and has no benefit.
    words += ["--ignore-container-cpu-limit"]
    for test in NOT_SCORED:
        words += ["--ignore-test", test]
    scored = json.loads(run(*words, input=Rendered("--values", case).text).stdout)
    bad = [
        f"{found['object_name']}: {check['check']['name']}: {check['comments']}"
        for found in scored
        for check in found["checks"]
        if not check["skipped"] and check["grade"] < 7
    ]
    assert scored and not bad, "\n".join(bad)


def test_pods_outside_of_a_cluster_are_never_more_than_one(case):
    rendered = Rendered("--values", case)
    workload = rendered.workload
    if cluster_variables(rendered):
        assert case.stem == "cluster"
        return
    assert workload["spec"]["replicas"] in (0, 1)
    if workload["kind"] == "Deployment":
        assert workload["spec"]["strategy"] == {"type": "Recreate"}
    else:
        assert workload["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"


BUCKET = ["--values", CHART / "ci/bucket.yaml"]
CLUSTER = ["--values", CHART / "ci/cluster.yaml"]


def cluster_variables(rendered):
    """The variables of the section [cluster], by key."""
    prefix = "SLATEBERG__CLUSTER__"
    variables = {variable["name"]: variable.get("value") for variable in rendered.container.get("env", [])}
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


def template_of(*arguments, **options):
    return Rendered(*arguments, **options).workload["spec"]["template"]


def test_several_pods_are_members_with_their_own_address_and_name():
    rendered = Rendered(*CLUSTER)
    assert rendered.workload["kind"] == "Deployment"
    assert rendered.workload["spec"]["replicas"] == 3
    members = {"ENABLED": "true", "ADVERTISE": "$(POD_IP):9182", "NAME": "$(POD_NAME)"}
    assert cluster_variables(rendered) == members
    env = rendered.container["env"]
    fields = {found["name"]: found["valueFrom"]["fieldRef"]["fieldPath"] for found in env if "valueFrom" in found}
    assert fields == {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
    # Kubernetes expands $(NAME) only if the variable NAME is above.
    names = [variable["name"] for variable in env]
    assert names.index("POD_IP") < names.index("SLATEBERG__CLUSTER__ADVERTISE")
    assert names.index("POD_NAME") < names.index("SLATEBERG__CLUSTER__NAME")


def test_port_for_members_is_a_port_of_the_pod_and_not_of_the_service():
    rendered = Rendered(*CLUSTER)
    ports = {port["name"]: port["containerPort"] for port in rendered.container["ports"]}
    assert ports == {"http": 8181, "members": 9182}
    assert [port["name"] for port in rendered.one("Service")["spec"]["ports"]] == ["http"]


def test_one_pod_is_a_member_only_if_the_cluster_is_enabled():
    assert cluster_variables(Rendered(*BUCKET)) == {}
    assert cluster_variables(Rendered(*BUCKET, "--set", "replicas=0")) == {}
    enabled = [*BUCKET, "--set", "cluster.enabled=true"]
    assert cluster_variables(Rendered(*enabled))["ENABLED"] == "true"
    assert Rendered(*enabled).workload["spec"]["strategy"]["type"] == "RollingUpdate"


def test_number_of_members_does_not_change_their_pods():
    """So Kubernetes adds pods, and replaces none."""
    one, three = [template_of(*BUCKET, "--set", f"cluster.enabled=true,replicas={count}") for count in (1, 3)]
    assert one == three == template_of(*BUCKET, "--set", "replicas=3")


def test_members_are_replaced_one_after_the_other():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert Rendered(*CLUSTER).workload["spec"]["strategy"] == rolling
    assert Rendered(*CLUSTER).one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_strategy_for_the_change_to_a_cluster_can_be_set():
    recreate = Rendered(*CLUSTER, "--set", "cluster.strategy=Recreate")
    assert recreate.workload["spec"]["strategy"] == {"type": "Recreate"}
    assert recreate.workload["spec"]["template"] == template_of(*CLUSTER)
    single = Rendered(*BUCKET, "--set", "cluster.strategy=RollingUpdate")
    assert single.workload["spec"]["strategy"] == {"type": "Recreate"}


def test_members_leave_the_service_before_they_stop_and_have_time_to_drain():
    pod = template_of(*CLUSTER, "--set", "config.server.drain_seconds_max=60,closeSeconds=40")["spec"]
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    assert pod["terminationGracePeriodSeconds"] == 5 + 60 + 40
    # Kubernetes 1.29 knows this action, but rejects it by default.
    old = template_of(*CLUSTER, kubernetes="1.29.0")["spec"]
    assert "lifecycle" not in old["containers"][0]
    assert old["terminationGracePeriodSeconds"] == 30 + 30
    single = template_of(*BUCKET)["spec"]
    assert "lifecycle" not in single["containers"][0]
    assert single["terminationGracePeriodSeconds"] == 30 + 30


def test_member_accepts_requests_once_it_is_ready():
    container = Rendered(*CLUSTER).container
    for probe in ("startupProbe", "readinessProbe"):
        assert (container[probe]["httpGet"]["path"], container[probe]["httpGet"]["port"]) == ("/ready", "http")
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"


def test_members_prefer_different_nodes_and_zones():
    pod = template_of(*CLUSTER)
    anti = pod["spec"]["affinity"]["podAntiAffinity"]
    (preferred,) = anti["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert preferred["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (zones,) = pod["spec"]["topologySpreadConstraints"]
    assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
    assert zones["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    single = template_of(*BUCKET)["spec"]
    assert "affinity" not in single and "topologySpreadConstraints" not in single


def test_affinity_of_the_values_is_kept(tmp_path):
    values = tmp_path / "values.yaml"
    nodes = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    constraint = {"maxSkew": 2, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
    values.write_text(yaml.safe_dump({"affinity": nodes, "topologySpreadConstraints": [constraint]}))
    pod = template_of(*CLUSTER, "--values", values)["spec"]
    assert pod["affinity"].keys() == {"nodeAffinity", "podAntiAffinity"}
    (found,) = pod["topologySpreadConstraints"]
    assert constraint.items() <= found.items() and "matchLabelKeys" not in found
    values.write_text(yaml.safe_dump({"affinity": {"podAntiAffinity": {}}}))
    assert template_of(*CLUSTER, "--values", values)["spec"]["affinity"] == {"podAntiAffinity": {}}


def test_only_members_reach_the_port_for_members():
    policy = Rendered(*CLUSTER).one("NetworkPolicy")["spec"]
    peer = {"podSelector": policy["podSelector"]}
    assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "lake"
    (into,) = [rule for rule in policy["ingress"] if rule["ports"][0]["port"] == "members"]
    assert into == {"ports": [{"port": "members", "protocol": "TCP"}], "from": [peer]}
    (out,) = [rule for rule in policy["egress"] if rule["ports"][0]["port"] == 9182]
    assert out == {"ports": [{"port": 9182, "protocol": "TCP"}], "to": [peer]}
    single = Rendered(*BUCKET, "--set", "networkPolicy.enabled=true").one("NetworkPolicy")["spec"]
    rules = single["ingress"] + single["egress"]
    assert not {"members", 9182} & {port["port"] for rule in rules for port in rule["ports"]}


def environment_of_a_pod(rendered):
    """The variables of the section [cluster] as Kubernetes expands them."""
    expanded = {"$(POD_IP)": "10.2.3.4", "$(POD_NAME)": "lake-slateberg-6d5f7c9b8-x2x7k"}
    environment = {}
    for key, value in cluster_variables(rendered).items():
        for reference, text in expanded.items():
            value = value.replace(reference, text)
        environment[f"SLATEBERG__CLUSTER__{key}"] = value
    return environment


def test_server_reads_the_variables_of_a_member(tmp_path):
    rendered = Rendered(*CLUSTER)
    file = tmp_path / "slateberg.toml"
    file.write_text(rendered.settings.replace("/var/cache/slateberg", str(tmp_path / "cache")))
    words = [os.environ["SLATEBERG_BIN"], "config", "show", "--config", file, "--output", "json"]
    shown = json.loads(checked(*words, env={**os.environ, **environment_of_a_pod(rendered)}))
    settings = {setting["key"]: setting["value"] for setting in shown["settings"]}
    assert settings["cluster.enabled"] is True
    assert settings["cluster.advertise"] == "10.2.3.4:9182"
    assert settings["cluster.name"] == "lake-slateberg-6d5f7c9b8-x2x7k"


def test_server_becomes_a_member_with_the_rendered_settings(serve, tmp_path):
    """Replaces locations by in-memory ones, because there is no bucket."""
    rendered = Rendered(*CLUSTER)
    settings = rendered.settings.replace("/var/cache/slateberg", str(tmp_path / "cache"))
    settings = settings.replace('aws_region = "eu-central-1"', "")
    for bucket in ("s3://example-catalog", "s3://example-lake"):
        settings = settings.replace(bucket, "memory://")
    environment = environment_of_a_pod(rendered) | {"SLATEBERG__CLUSTER__LISTEN": "127.0.0.1:0"}
    server = serve(settings, environment)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert server.get(rendered.container[probe]["httpGet"]["path"])[0] == 200
    assert 'slateberg_cluster_role{role="writer"} 1' in server.get("/metrics", server.key)[1]


def expect_within(part, whole, path="config"):
    for key, value in part.items():
        if isinstance(value, dict):
            expect_within(value, whole[key], f"{path}.{key}")
        else:
            assert whole[key] == value and type(whole[key]) is type(value), f"{path}.{key}"


def test_settings_are_those_of_the_values(case):
    settings = tomllib.loads(Rendered("--values", case).settings)
    expect_within(yaml.safe_load(case.read_text()).get("config", {}), settings)
    assert settings["server"]["listen"] == "0.0.0.0:8181"


AWKWARD = {
    "server": {"requests_in_flight_max": 9007199254740991, "drain_seconds_max": 0},
    "authn": {"issuers": {"corporate": {"issuer": 'https://id/"quoted"\\', "audiences": ["a", "ü\n\t", ""]}}},
    "authz": {"stored_policies": False},
    "catalog": {"local_warehouse_dirs": []},
    "state": {"url": "s3://b/p"},
    "warehouses": {
        "default": {"location": "s3://lake/w", "client_defaults": {"s3.endpoint": "http://m:9000", "a b": "<&>'"}},
        "dotted.name": {"location": "s3://lake/x"},
    },
}


def test_awkward_texts_and_long_numbers_arrive(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": AWKWARD}))
    expect_within(AWKWARD, tomllib.loads(Rendered("--values", values).settings))


def test_the_program_takes_what_the_chart_renders(serve):
    rendered = Rendered("--values", CHART / "ci/disk.yaml", "--set", "config.catalog.page_size_max=7")
    server = serve(rendered.settings)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert server.get(rendered.container[probe]["httpGet"]["path"])[0] == 200
    assert server.json("/v1/config")["endpoints"]
    assert server.get("/v1/namespaces")[0] == 401


def test_the_program_takes_all_that_the_chart_can_say(serve, tmp_path):
    """Replaces locations by in-memory ones, because there is no bucket, and omits files on
    volumes."""
    without = "tls.secretName=,tls.clientCa.secretName=,config.server.tls.client_certificates=off"
    rendered = Rendered("--values", CHART / "ci/production.yaml", "--set", without)
    settings = rendered.settings
    for bucket in ("s3://example-catalog", "s3://example-lake"):
        settings = settings.replace(bucket, "memory://")
    settings = settings.replace('aws_region = "eu-central-1"', "")
    # The layout of a mounted config map: symbolic links into a directory named after a time.
    policies = tmp_path / "policies"
    (policies / "..2026").mkdir(parents=True)
    (policies / "..data").symlink_to("..2026")
    (found,) = [data["data"] for data in rendered.all("ConfigMap") if data["metadata"]["name"].endswith("policies")]
    for file, text in found.items():
        (policies / "..2026" / file).write_text(text)
        (policies / file).symlink_to(f"..data/{file}")
    settings = settings.replace("/etc/slateberg/policies", str(policies))
    settings = settings.replace("/var/cache/slateberg", str(tmp_path / "cache"))
    key = checked(os.environ["SLATEBERG_BIN"], "key", "generate").strip()
    (tmp_path / "key").write_text(key)
    settings = settings.replace("/etc/slateberg/bootstrap/key", str(tmp_path / "key"))
    assert tomllib.loads(settings)["server"]["management"] == {"listen": "0.0.0.0:9181", "plain_http": True}
    settings = settings.replace("0.0.0.0:9181", "127.0.0.1:0")
    environment = {variable["name"]: "from-a-secret" for variable in rendered.container["env"]}
    server = serve(settings, environment, key)
    told = server.json("/management/v1/warehouses", server.operators_uri)
    names = [warehouse["name"] for warehouse in told["warehouses"]]
    assert names == ["lake"]
    assert server.json("/v1/config?warehouse=lake")["defaults"]["client.region"] == "eu-central-1"
    assert server.get("/metrics", uri=server.operators_uri)[0] == 401
    assert server.get("/metrics", key)[0] == 404


def test_secrets_are_referred_to_and_nowhere_else():
    rendered = Rendered("--values", CHART / "ci/minio.yaml")
    (secret,) = rendered.container["env"]
    assert secret == {
        "name": "SLATEBERG__STATE__OPTIONS__AWS_SECRET_ACCESS_KEY",
        "valueFrom": {"secretKeyRef": {"name": "minio", "key": "secret"}},
    }
    assert not rendered.all("Secret")


def test_probes_ask_where_operators_do_and_only_connect_where_that_takes_a_certificate():
    container = Rendered("--values", CHART / "ci/google.yaml").container
    assert container["readinessProbe"]["tcpSocket"] == {"port": "http"}
    production = ["--values", CHART / "ci/production.yaml"]
    probe = Rendered(*production).container["readinessProbe"]["httpGet"]
    assert (probe["scheme"], probe["port"]) == ("HTTP", "management")
    probe = Rendered(*production, "--set", "config.server.management.plain_http=false").container["readinessProbe"]
    assert (probe["httpGet"]["scheme"], probe["httpGet"]["port"]) == ("HTTPS", "management")
    alone = "management.enabled=false,config.server.management.plain_http=false,networkPolicy.managementFrom=null"
    probe = Rendered(*production, "--set", alone).container["readinessProbe"]["httpGet"]
    assert (probe["scheme"], probe["port"]) == ("HTTPS", "http")


def test_a_cache_on_the_nodes_disk_is_asked_for():
    with_cache = Rendered("--values", CHART / "ci/bucket.yaml", "--set", "cache.sizeGib=20")
    assert with_cache.container["resources"]["limits"]["ephemeral-storage"] == "21Gi"
    assert tomllib.loads(with_cache.settings)["store"]["object_cache_bytes"] == 20 * 2**30 * 9 // 10
    without = Rendered("--values", CHART / "ci/azure.yaml")
    assert without.container["resources"]["limits"]["ephemeral-storage"] == "1Gi"
    assert "store" not in tomllib.loads(without.settings)


def test_a_change_of_settings_is_a_new_pod_and_one_of_policies_is_not():
    def annotations(*arguments):
        rendered = Rendered("--values", CHART / "ci/production.yaml", *arguments)
        return rendered.workload["spec"]["template"]["metadata"]["annotations"]

    assert annotations() != annotations("--set", "config.log.format=text")
    assert annotations() == annotations("--set", r"policies.lake\.cedar=permit(principal\,action\,resource);")


def test_identities_are_on_the_service_account():
    def account(name):
        return Rendered("--values", CHART / f"ci/{name}.yaml").one("ServiceAccount")["metadata"]["annotations"]

    assert account("production") == {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/slateberg"}
    assert account("google") == {"iam.gke.io/gcp-service-account": "slateberg@example.iam.gserviceaccount.com"}
    azure = Rendered("--values", CHART / "ci/azure.yaml")
    assert azure.workload["spec"]["template"]["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_the_network_policy_lets_out_to_where_identities_come_from():
    def let_out(case):
        rules = Rendered("--values", CHART / f"ci/{case}.yaml").one("NetworkPolicy")["spec"]["egress"]
        named = [rule for rule in rules if "to" in rule]
        return {(to["ipBlock"]["cidr"], port["port"]) for rule in named for to in rule["to"] for port in rule["ports"]}

    everywhere = {("169.254.169.254/32", 80), ("169.254.170.23/32", 80)}
    assert let_out("azure") == everywhere
    # Without Dataplane V2, a policy on GKE applies to the metadata server's actual address, not to
    # the one that the pod requests.
    assert let_out("google") == everywhere | {("169.254.169.252/32", 988)}


def test_operators_have_a_port_of_their_own_if_one_wants():
    rendered = Rendered("--values", CHART / "ci/production.yaml")
    ports = {port["name"]: port["containerPort"] for port in rendered.container["ports"]}
    assert ports == {"http": 8181, "management": 9181}
    assert {port["name"]: port["targetPort"] for port in rendered.one("Service")["spec"]["ports"]} == {
        "http": "http",
        "management": "management",
    }
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert rendered.container[probe]["httpGet"]["port"] == "management"
        assert rendered.container[probe]["httpGet"]["scheme"] == "HTTP"
    (endpoint,) = rendered.one("ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("management", "http")
    http, management = rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert http["ports"][0]["port"] == "http" and management["ports"][0]["port"] == "management"
    assert http["from"] != management["from"]
    assert tomllib.loads(rendered.settings)["server"]["management"] == {"listen": "0.0.0.0:9181", "plain_http": True}


def test_operators_ask_where_clients_do_by_default():
    rendered = Rendered("--values", CHART / "ci/bucket.yaml")
    assert [port["name"] for port in rendered.one("Service")["spec"]["ports"]] == ["http"]
    assert rendered.container["readinessProbe"]["httpGet"]["port"] == "http"
    assert "management" not in tomllib.loads(rendered.settings)["server"]


def test_the_first_key_comes_out_of_a_secret():
    rendered = Rendered("--values", CHART / "ci/production.yaml")
    volumes = {volume["name"]: volume for volume in rendered.workload["spec"]["template"]["spec"]["volumes"]}
    assert volumes["bootstrap"]["secret"]["secretName"] == "slateberg-bootstrap"
    (mount,) = [mount for mount in rendered.container["volumeMounts"] if mount["name"] == "bootstrap"]
    file = tomllib.loads(rendered.settings)["authn"]["bootstrap_key_file"]
    assert file == f"{mount['mountPath']}/{volumes['bootstrap']['secret']['items'][0]['path']}"


@pytest.mark.parametrize(
    "arguments, says",
    [
        ("", "config.state.url is not set"),
        ("config.state.url=s3://b/p,config.server.management.plain_http=true", "needs management.enabled"),
        ("config.state.url=s3://b/p,config.authn.bootstrap_key=sb_x", "bootstrap_key"),
        ("config.state.url=s3://b/p,persistence.enabled=true", "are both set"),
        ("persistence.enabled=true,config.default_warehouse=lake", "there is no warehouse 'lake'"),
        ("persistence.enabled=true,replicas=2", "replicas: 2: a cluster requires a state in a bucket"),
        ("persistence.enabled=true,cluster.enabled=true", "cluster.enabled: a cluster requires a state in a bucket"),
        ("config.state.url=file:///srv/state,replicas=2", "but config.state.url is file:///srv/state"),
        ("config.state.url=memory://state,cluster.enabled=true", "but config.state.url is memory://state"),
        ("config.state.url=s3://b/p,replicas=2,containerPort=9182", "connect to each other on port 9182"),
        ("config.state.url=s3://b/p,replicas=2,config.cluster.enabled=true", "enabled"),
        ("config.state.url=s3://b/p,replicas=2,config.cluster.advertise=a:1", "advertise"),
        ("config.state.url=s3://b/p,replicas=-1", "replicas"),
        ("config.state.url=s3://b/p,replicas=1.5", "replicas"),
        ("config.state.url=s3://b/p,cluster.strategy=OnDelete", "strategy"),
        ("persistence.enabled=true,config.server.listen=0.0.0.0:1", "listen"),
        ("persistence.enabled=true,config.server.tls.certificate_file=/x", "certificate_file"),
        ("persistence.enabled=true,config.catalog.page_size=7", "page_size"),
        ("persistence.enabled=true,config.catalog.page_size_max=many", "page_size_max"),
        ("persistence.enabled=true,config.log.format=xml", "format"),
        ("persistence.enabled=true,resource.limits=1", "resource"),
        ("persistence.enabled=true,containerPort=80", "containerPort"),
        ("persistence.enabled=true,tls.clientCa.secretName=ca", "tls.clientCa needs tls.secretName"),
        ("persistence.enabled=true,config.server.tls.client_certificates=required", "the CA that signs them"),
        ("persistence.enabled=true,secretSettings.STATE.name=a,secretSettings.STATE.key=b", "STATE"),
        ("persistence.enabled=true,serviceAccount.create=false,identity.azureClientId=a", "annotate it yourself"),
        ("persistence.enabled=true,ingress.enabled=true", "name at least one host"),
        ("persistence.enabled=true,tls.secretName=t,metrics.serviceMonitor.enabled=true", "certificate is trusted"),
    ],
)
def test_what_would_not_work_is_refused(arguments, says):
    words = ["helm", "template", "lake", CHART, "--kube-version", "1.33.0"]
    done = run(*words, *(["--set", arguments] if arguments else []))
    assert done.returncode != 0 and says in done.stderr, done.stderr


def test_the_schema_has_every_setting_of_the_program():
    checked("python3", ROOT / "helm/schema.py", "--check")


def test_notes_say_how_one_gets_in(case, tmp_path):
    # helm only shows the notes on an installation. Therefore render them as an object in a copy of
    # the chart.
    chart = shutil.copytree(CHART, tmp_path / "slateberg")
    notes = (chart / "templates/NOTES.txt").read_text()
    (chart / "templates/_notes.tpl").write_text('{{- define "notes" -}}' + notes + "{{- end -}}")
    (chart / "templates/notes.yaml").write_text('kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    notes = Rendered("--values", case, chart=chart).one("Notes")["text"]
    assert "slateberg key create admin" in notes and "slateberg key revoke" in notes
    assert ("No pod runs" in notes) == (case.stem == "google")
    assert ("slateberg cluster status" in notes) == (case.stem == "cluster")


def test_the_chart_is_packed_without_what_is_for_its_checks(tmp_path):
    checked("helm", "package", CHART, "--destination", tmp_path)
    shutil.unpack_archive(next(tmp_path.glob("*.tgz")), tmp_path)
    assert (tmp_path / "slateberg/alerts/slateberg.yaml").is_file()
    assert not (tmp_path / "slateberg/ci").exists()
