"""manifests/install.yaml: complete, in order, and nothing in it that an operator does not need."""

import re
from typing import Any

import pytest

from quorum_operator.crd import GROUP, PLURAL
from quorum_operator.desired.names import ADMIN_PORT
from quorum_operator.kube import paths
from quorum_operator.owned_objects import RECREATED
from quorum_operator.reassignment_crd import REASSIGNMENT_PLURAL
from quorum_operator.settings import Settings, from_environment
from support import chart
from support.chart import Json
from support.yaml_text import read_yaml

PLAIN = chart.plain()
ROLES = chart.of_kind(PLAIN, "Role", "ClusterRole")
GRANTED = chart.granted(ROLES)


def pod_spec() -> Json:
    spec: Json = chart.the(PLAIN, "Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Json:
    (only,) = pod_spec()["containers"]
    found: Json = only
    return found


def environment() -> dict[str, str]:
    """What has a value in the manifest itself."""
    return {entry["name"]: entry["value"] for entry in container()["env"] if "value" in entry}


def test_every_copy_of_the_crds_equals_the_generated_ones() -> None:
    for file in chart.CRDS:
        copy = chart.CHART / "files" / file.name
        assert copy.read_text() == file.read_text(), "make crds"
    assert len(list((chart.CHART / "files").iterdir())) == len(chart.CRDS) == 2
    copies = chart.of_kind(PLAIN, "CustomResourceDefinition")
    generated = [read_yaml(file.read_text()) for file in chart.CRDS]
    assert copies == generated, "make manifests"


def test_manifests_are_ordered_by_dependency() -> None:
    """kubectl applies from top to bottom."""
    order = ["Namespace", "ServiceAccount", *["CustomResourceDefinition"] * 2]
    order += [
        "ClusterRole",
        "ClusterRoleBinding",
        *["Role"] * 2,
        *["RoleBinding"] * 2,
        "Deployment",
    ]
    assert [document["kind"] for document in PLAIN] == order


def test_all_objects_are_in_the_created_namespace() -> None:
    made = chart.the(PLAIN, "Namespace")["metadata"]
    assert made["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for document in PLAIN:
        if document["kind"] in chart.CLUSTER_SCOPED:
            assert "namespace" not in document["metadata"]
        else:
            assert document["metadata"]["namespace"] == made["name"]


def test_pod_satisfies_the_restricted_pod_security_standard() -> None:
    pod, one = pod_spec(), container()
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        assert name not in pod
    assert [list(volume) for volume in pod["volumes"]] == [["name", "emptyDir"]]


def test_pod_has_limits_and_probes() -> None:
    one = container()
    assert one["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in one["resources"]["limits"]
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert one[probe]["httpGet"]["path"] == "/healthz"
        assert one[probe]["httpGet"]["port"] in ports


def test_image_has_a_fixed_tag() -> None:
    repository, _, tag = container()["image"].rpartition(":")
    assert repository
    assert re.fullmatch(r"\d+\.\d+\.\d+", tag)
    assert container()["imagePullPolicy"] == "IfNotPresent"


def test_environment_variables_are_those_of_the_operator() -> None:
    lease = (chart.NAMESPACE, chart.RELEASE)
    assert from_environment(environment()) == Settings(
        (chart.NAMESPACE,), lease=lease, home=chart.NAMESPACE
    )
    listening = int(environment()["METADATAQUORUM_OPERATOR_LISTEN"].rpartition(":")[2])
    assert [port["containerPort"] for port in container()["ports"]] == [listening] == [ADMIN_PORT]


def test_deployment_selects_its_own_pods() -> None:
    spec = chart.the(PLAIN, "Deployment")["spec"]
    wanted = spec["selector"]["matchLabels"].items()
    assert wanted
    assert wanted <= spec["template"]["metadata"]["labels"].items()


def test_roles_are_bound_to_the_service_account_of_the_pod() -> None:
    account = chart.the(PLAIN, "ServiceAccount")["metadata"]
    subject = {
        "kind": "ServiceAccount",
        "name": account["name"],
        "namespace": account["namespace"],
    }
    assert pod_spec()["serviceAccountName"] == account["name"]
    bound = set()
    for binding in chart.of_kind(PLAIN, "RoleBinding", "ClusterRoleBinding"):
        assert binding["subjects"] == [subject]
        bound.add((binding["roleRef"]["kind"], binding["roleRef"]["name"]))
    assert bound == {(role["kind"], role["metadata"]["name"]) for role in ROLES}


@pytest.mark.requirement("OP-02")
def test_cluster_role_only_reads_cluster_scoped_resources() -> None:
    of_cluster = chart.granted(chart.of_kind(PLAIN, "ClusterRole"))
    assert {verb for *_, verb in of_cluster} <= chart.READ_VERBS
    kinds = {(group, resource) for group, resource, _ in of_cluster}
    assert kinds == {("", "nodes"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")}


def test_kinds_that_the_operator_recreates_may_be_deleted() -> None:
    """Each is deleted, and then applied: an apply (patch) of a missing object creates it."""
    assert {"ConfigMap", "Service"} == RECREATED, "kinds of the core group"
    for kind in RECREATED:
        verbs = {
            verb
            for group, plural, verb in GRANTED
            if (group, plural) == ("", paths.plural_of(kind))
        }
        assert verbs >= {"get", "delete", "create", "patch"}, kind


def test_another_namespace_is_watched_with_the_same_rights() -> None:
    own = {
        (each["kind"], each["metadata"]["name"]): each
        for each in chart.of_kind(PLAIN, "Role", "RoleBinding")
    }
    made = chart.objects(chart.WATCHED.read_text())
    kinds = []
    for document in made:
        assert "namespace" not in document["metadata"], "kubectl gets the namespace by -n"
        expected = own[document["kind"], document["metadata"]["name"]]
        document["metadata"]["namespace"] = chart.NAMESPACE
        assert document == expected
        kinds.append(document["kind"])
    assert kinds == ["Role", "RoleBinding"]


def test_no_rule_has_wildcards() -> None:
    assert not [rule for rule in GRANTED if "*" in rule]
    for role in ROLES:
        assert not [rule for rule in role["rules"] if "nonResourceURLs" in rule]


@pytest.mark.parametrize(
    ("group", "resource", "verbs"),
    [
        ("", "secrets", {"get", "create", "patch"}),
        ("", "persistentvolumeclaims", {"get", "list", "watch", "patch"}),
        (
            "networking.k8s.io",
            "networkpolicies",
            {"get", "list", "watch", "create", "patch", "delete"},
        ),
        ("", "persistentvolumes", {"get", "list", "watch"}),
        ("", "nodes", {"list", "watch"}),
        ("", "pods", {"get", "list", "watch", "patch", "delete"}),
        (GROUP, PLURAL, {"get", "list", "watch"}),
        (GROUP, f"{PLURAL}/status", {"patch"}),
        (GROUP, REASSIGNMENT_PLURAL, {"get", "list", "watch"}),
        (GROUP, f"{REASSIGNMENT_PLURAL}/status", {"patch"}),
    ],
)
def test_dangerous_rights_are_restricted(group: str, resource: str, verbs: set[str]) -> None:
    assert {verb for g, r, verb in GRANTED if (g, r) == (group, resource)} == verbs


def _group_and_resource(path: str) -> tuple[str, str]:
    parts = path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[0] == "namespaces":
        rest = rest[2:]
    return group, rest[0]


def _named_by_the_operator() -> set[tuple[str, str]]:
    """Every kind that the operator has a path for."""
    plurals: Any = paths._GROUPS
    named = {_group_and_resource(paths.namespaced(plural, "x", "y")) for plural in plurals}
    named |= {_group_and_resource(path) for path in (paths.NODES, paths.volume("x"))}
    return named | {_group_and_resource(paths.storage_class("x"))}


def test_roles_contain_exactly_the_resources_used_by_the_operator() -> None:
    """The verbs are tried in tests/envtest, where the operator acts as its own account."""
    named = {(group, resource) for group, resource, _ in GRANTED}
    statuses = {(GROUP, f"{plural}/status") for plural in (PLURAL, REASSIGNMENT_PLURAL)}
    # Granted by the chart if enabled: test_chart.py.
    optional = {("cert-manager.io", "certificates")}
    assert named - statuses == _named_by_the_operator() - optional
