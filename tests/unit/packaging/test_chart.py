"""The Helm chart: its defaults are the plain manifests, its values have their documented effect, invalid ones are
rejected with a reason.
"""

from pathlib import Path

import pytest

from quorum_operator.desired import names, network_policy
from quorum_operator.settings import from_environment
from support import chart
from support.chart import Json
from support.yaml_text import read_yaml

KEPT = {"helm.sh/resource-policy": "keep"}
LEASE_RIGHTS = {("coordination.k8s.io", "leases", verb) for verb in ("get", "patch", "create")}


def container(documents: list[Json]) -> Json:
    (only,) = chart.the(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    found: Json = only
    return found


def environment(documents: list[Json]) -> dict[str, str]:
    """What has a value in the manifest itself."""
    return {each["name"]: each["value"] for each in container(documents)["env"] if "value" in each}


def rules(documents: list[Json], *kinds: str) -> set[tuple[str, str, str]]:
    return chart.granted(chart.of_kind(documents, *kinds))


@pytest.mark.requirement("OP-02")
def test_helm_lint_reports_nothing(helm: Path) -> None:
    done = chart.run_helm(helm, "lint", "--strict", str(chart.CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("OP-02")
def test_plain_manifests_equal_the_rendered_chart(helm: Path) -> None:
    rendered = chart.by_key(chart.render(helm, "crds.keep=false", hooks=False))
    plain = chart.by_key(chart.plain())
    assert plain.pop(("Namespace", "", chart.NAMESPACE))
    assert rendered == plain, "run `make manifests`"


def test_crds_are_kept_by_default(helm: Path) -> None:
    definitions = chart.of_kind(chart.render(helm), "CustomResourceDefinition")
    for definition, file in zip(definitions, chart.CRDS, strict=True):
        assert definition["metadata"].pop("annotations") == KEPT
        assert definition == read_yaml(file.read_text())
    without = chart.render(helm, "crds.install=false")
    assert chart.of_kind(without, "CustomResourceDefinition") == []


def test_named_namespaces_restrict_all_objects_to_them(helm: Path) -> None:
    everywhere = chart.render(helm, "watchNamespaces={*}")
    named = chart.render(helm, "watchNamespaces={blue,green}")
    assert {verb for *_, verb in rules(named, "ClusterRole")} <= chart.READ_VERBS
    roles = chart.of_kind(named, "Role")
    (lease,) = (role for role in roles if role["metadata"]["name"].endswith("-lease"))
    roles.remove(lease)
    assert chart.granted([lease]) == LEASE_RIGHTS
    assert [role["metadata"]["namespace"] for role in roles] == ["blue", "green"]
    everything = rules(everywhere, "ClusterRole")
    for role in roles:
        own = chart.granted([role])
        assert own | rules(named, "ClusterRole") == everything
        assert not own & rules(named, "ClusterRole")
    bindings = chart.of_kind(named, "RoleBinding")
    spaces = [binding["metadata"]["namespace"] for binding in bindings]
    assert sorted(spaces) == ["blue", "green", chart.NAMESPACE]
    for binding in bindings:
        assert binding["subjects"][0]["namespace"] == chart.NAMESPACE
    assert from_environment(environment(named)).namespaces == ("blue", "green")


def test_operator_watches_the_release_namespace_by_default(helm: Path) -> None:
    rendered = chart.render(helm)
    assert from_environment(environment(rendered)).namespaces == (chart.NAMESPACE,)
    spaces = {role["metadata"]["namespace"] for role in chart.of_kind(rendered, "Role")}
    assert spaces == {chart.NAMESPACE}
    assert not [found for found in rules(rendered, "ClusterRole") if found[1] == "secrets"]


def test_cert_manager_rights_are_granted_if_enabled(
    helm: Path,
) -> None:
    without = chart.granted(chart.of_kind(chart.render(helm), "Role", "ClusterRole"))
    assert not [each for each in without if each[0] == "cert-manager.io"]
    enabled = chart.render(helm, "certManager.enabled=true")
    more = chart.granted(chart.of_kind(enabled, "Role", "ClusterRole")) - without
    verbs = ("get", "list", "create", "patch", "delete")
    assert more == {("cert-manager.io", "certificates", each) for each in verbs}


def test_asterisk_watches_all_namespaces(helm: Path) -> None:
    rendered = chart.render(helm, "watchNamespaces={*}")
    assert from_environment(environment(rendered)).namespaces == ()
    (lease,) = chart.of_kind(rendered, "Role")
    assert chart.granted([lease]) == LEASE_RIGHTS
    assert ("", "secrets", "get") in rules(rendered, "ClusterRole")


def test_asterisk_with_names_is_rejected_by_the_operator_as_well() -> None:
    with pytest.raises(ValueError, match=r"WATCH_NAMESPACE=blue,\*: .*all namespaces"):
        from_environment({"WATCH_NAMESPACE": "blue,*"})


def test_lease_right_covers_the_named_lease_only(helm: Path) -> None:
    rendered = chart.render(helm, "replicaCount=2")
    space, name = from_environment(environment(rendered)).lease or ("", "")
    (role,) = (
        found
        for found in chart.of_kind(rendered, "Role")
        if found["metadata"]["name"].endswith("-lease")
    )
    assert role["metadata"]["namespace"] == space == chart.NAMESPACE
    assert chart.granted([role]) == LEASE_RIGHTS
    bound = {verb: rule.get("resourceNames") for rule in role["rules"] for verb in rule["verbs"]}
    assert bound == {"get": [name], "patch": [name], "create": None}


def test_two_replicas_are_spread_and_updated_in_turn(helm: Path) -> None:
    spec = chart.the(chart.render(helm, "replicaCount=2"), "Deployment")["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate"}
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == spec["selector"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "one host must be enough"
    (identity,) = (
        e
        for e in spec["template"]["spec"]["containers"][0]["env"]
        if e["name"].endswith("_IDENTITY")
    )
    assert identity["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_image_reference_is_composed_of_its_values(helm: Path) -> None:
    rendered = chart.render(helm, "image.repository=registry.example/op", "image.tag=dev")
    assert container(rendered)["image"] == "registry.example/op:dev"


def test_two_releases_with_one_name_do_not_share_cluster_objects(helm: Path) -> None:
    shared = [
        document["metadata"]["name"]
        for document in chart.render(helm)
        if document["kind"] in chart.CLUSTER_SCOPED - {"CustomResourceDefinition"}
    ]
    assert shared
    assert all(chart.NAMESPACE in name for name in shared)


def test_existing_service_account_is_used_and_not_created(helm: Path) -> None:
    rendered = chart.render(helm, "serviceAccount.create=false", "serviceAccount.name=mine")
    assert chart.of_kind(rendered, "ServiceAccount") == []
    spec = chart.the(rendered, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "mine"
    subjects = chart.the(rendered, "ClusterRoleBinding")["subjects"]
    assert [subject["name"] for subject in subjects] == ["mine"]


def test_rbac_creation_can_be_disabled(helm: Path) -> None:
    rendered = chart.render(helm, "rbac.create=false", "watchNamespaces={blue}")
    kinds = {document["kind"] for document in rendered}
    assert kinds == {"CustomResourceDefinition", "ServiceAccount", "Deployment"}


def test_metrics_service_selects_the_pod(helm: Path) -> None:
    rendered = chart.render(helm, "metrics.service=true")
    service = chart.the(rendered, "Service")["spec"]
    labels = chart.the(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    ports = {port["name"] for port in container(rendered)["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= ports


def test_network_policy_allows_the_traffic_of_the_operator(helm: Path) -> None:
    rendered = chart.render(helm, "networkPolicy.enabled=true")
    policy = chart.the(rendered, "NetworkPolicy")["spec"]
    labels = chart.the(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    (to_nodes,) = [rule for rule in policy["egress"] if "to" in rule]
    (peer,) = to_nodes["to"]
    member = names.Owner("q", "n", "u").labels
    assert peer["podSelector"]["matchLabels"].items() <= member.items()
    wanted = [names.ADMIN_PORT, names.SECURE_ADMIN_PORT]
    assert [port["port"] for port in to_nodes["ports"]] == wanted
    dns = {(number, protocol) for number in network_policy.DNS_PORTS for protocol in ("UDP", "TCP")}
    opened = {(each["port"], each["protocol"]) for each in policy["egress"][0]["ports"]}
    assert opened == dns, "a policy applies to the port of the pod, which is 5353 on OpenShift"
    (incoming,) = policy["ingress"]
    ports = {port["name"] for port in container(rendered)["ports"]}
    assert {port["port"] for port in incoming["ports"]} == ports


def test_extra_values_are_set_in_the_pod(helm: Path) -> None:
    rendered = chart.render(
        helm,
        "imagePullSecrets[0].name=pull",
        "priorityClassName=high",
        "nodeSelector.disk=ssd",
        "tolerations[0].key=t",
        "podLabels.team=a",
        "podAnnotations.note=b",
        "env[0].name=TZ,env[0].value=UTC",
        "volumes[0].name=page,volumes[0].secret.secretName=page",
        "volumeMounts[0].name=page,volumeMounts[0].mountPath=/etc/page",
    )
    template = chart.the(rendered, "Deployment")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"] == {"note": "b"}
    spec = template["spec"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("high", {"disk": "ssd"})
    assert spec["tolerations"] == [{"key": "t"}]
    assert {"name": "TZ", "value": "UTC"} in container(rendered)["env"]
    assert {"name": "page", "secret": {"secretName": "page"}} in spec["volumes"]
    assert {"name": "page", "mountPath": "/etc/page"} in container(rendered)["volumeMounts"]


def test_large_whole_numbers_of_a_values_file_are_whole_numbers(helm: Path, tmp_path: Path) -> None:
    """Numbers of a file are floats for Helm's templates, unlike those of `--set`."""
    values = tmp_path / "values.yaml"
    values.write_text("apiCalls: {burst: 2000000, burstOfResource: 1000000}\n")
    arguments = ["template", "r", str(chart.CHART), "--kube-version", chart.KUBE_VERSION]
    done = chart.run_helm(helm, *arguments, "--values", str(values))
    limits = from_environment(environment(list(chart.objects(done.stdout)))).call_limits
    assert (limits.all.at_once, limits.resource.at_once) == (2_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("watchNamespaces={Bad_Name}", "watchNamespaces"),
        ("watchNamespaces=blue", "watchNamespaces"),
        ("watchNamespaces={*,blue}", "watchNamespaces"),
        ("image.repository=", "image"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("replicaCount=3", "replicaCount"),
        ("resyncSeconds=0", "resyncSeconds"),
        ("apiCalls.burst=0", "burst"),
        ("apiCalls.perSecond=-1", "perSecond"),
        ("apiCalls.burstOfResource=2.5", "burstOfResource"),
        ("apiCalls.qps=5", "qps"),
        ("logLevel=LOUD", "logLevel"),
        ("networkPolicy.apiServerPorts={0}", "apiServerPorts"),
        ("volumes[0].secret.secretName=page", "volumes"),
        ("volumeMounts[0].name=page", "volumeMounts"),
        ("typo=1", "typo"),
        ("crds.kep=true", "kep"),
        ("serviceAccount.create=false", "serviceAccount.name"),
        (
            r"podLabels.app\.kubernetes\.io/name=other",
            "podLabels: app.kubernetes.io/name is set by",
        ),
        (
            r"pipeline.enabled=true,pipeline.bootstrap=a:1,pipeline.podLabels.app\.kubernetes\.io/instance=other",
            "pipeline.podLabels: app.kubernetes.io/instance is set by",
        ),
    ],
)
def test_invalid_value_is_rejected_with_its_name(helm: Path, setting: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        chart.render(helm, setting)
