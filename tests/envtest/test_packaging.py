"""Chart and plain manifests on a real API server of their own: installed, upgraded, uninstalled.

No pod runs here; that the operator works with what is installed is shown by tests/e2e.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from support import chart
from support.envtest.kube_api import ApiError, Json
from support.kind import ControlPlane
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.testbed import TestbedError, programs, run
from support.kind_env.waiting import wait_for
from support.yaml_text import read_yaml

pytestmark = pytest.mark.envtest

_DEFINITION = f"{kube.CRDS}/metadataquorums.metadataquorum.dev"
_DEFINITIONS = (_DEFINITION, f"{kube.CRDS}/partitionreassignments.metadataquorum.dev")
_DEPLOYMENT = kube.apps(chart.NAMESPACE, "deployments", chart.RELEASE)
_QUORUM = {
    "apiVersion": kube.API_VERSION,
    "kind": "MetadataQuorum",
    "metadata": {"name": "q"},
    "spec": {"replicas": 3},
}

_MONITORING_GROUP = "monitoring.coreos.com"
_MONITORING = {"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}


_NOT_READY = 429
_GONE_S = 240.0
"""The API server's own patience with what it deletes is a minute, and it tries again."""


def monitoring_definition(plural: str, kind: str) -> Json:
    """A definition that accepts every object of the kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_MONITORING_GROUP}"},
        "spec": {
            "group": _MONITORING_GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


class Empty:
    """An API server on which nothing was installed before."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.api = Kube(kubeconfig)
        self._helm = [str(programs.helm()), "--kubeconfig", str(kubeconfig)]
        self._helm += ["--namespace", chart.NAMESPACE]
        self._kubectl = [str(programs.kubectl()), "--kubeconfig", str(kubeconfig)]

    def install(self, *settings: str, adopt: bool = False) -> None:
        command = [*self._helm, "upgrade", "--install", "--create-namespace"]
        command += ["--take-ownership"] if adopt else []
        for setting in settings:
            command += ["--set", setting]
        run([*command, chart.RELEASE, str(chart.CHART)], timeout_s=60)

    def uninstall(self) -> None:
        run([*self._helm, "uninstall", chart.RELEASE, "--wait"], timeout_s=60)

    def kubectl(self, *arguments: str) -> None:
        run([*self._kubectl, *arguments], timeout_s=60)

    def add_quorum(self) -> None:
        self._wait_listed(kube.quorums)  # the condition Established is earlier
        self.api.create(kube.quorums("default"), _QUORUM)

    def has_quorum(self) -> bool:
        return self.api.find(kube.quorums("default", "q")) is not None

    def _wait_listed(self, *kinds: Callable[[str], str]) -> None:
        def listed() -> bool:
            try:
                return all(self.api.list(of("default")) is not None for of in kinds)
            except ApiError as error:
                if error.status in {404, _NOT_READY}:
                    return False
                raise

        wait_for("resources are listed", listed, timeout_s=60)

    def wait_listed(self) -> None:
        """Until resources of each kind can be listed. The deletion of a definition before that is retried with backoff,
        as the API server can't list its remaining resources.
        """
        self._wait_listed(kube.quorums, kube.reassignments)

    def wait_gone(self) -> None:
        """A definition goes after its last resource, and a namespace after its last object: one with
        a finalizer would hold them."""
        for path in (*_DEFINITIONS, f"{kube.NAMESPACES}/{chart.NAMESPACE}"):
            wait_for(
                f"no {path}",
                lambda path=path: self.api.find(path) is None,
                timeout_s=_GONE_S,
                seen=lambda path=path: self._state_of(path),
            )

    def define_monitoring(self) -> None:
        """The two kinds of the Prometheus operator that the chart uses, and no more of them than their names."""
        for plural, kind in _MONITORING.items():
            name = f"{plural}.{_MONITORING_GROUP}"
            self.api.create(kube.CRDS, monitoring_definition(plural, kind))
            wait_for(f"{kind} is served", partial(self._is_served, name), timeout_s=60)

    def _is_served(self, definition: str) -> bool:
        found = self.api.find(f"{kube.CRDS}/{definition}") or {}
        conditions = found.get("status", {}).get("conditions") or []
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return False
        try:
            return self.api.list(self._of_monitoring(definition.partition(".")[0])) == []
        except ApiError as error:
            if error.status not in {404, _NOT_READY}:
                raise
            return False

    @staticmethod
    def _of_monitoring(plural: str) -> str:
        return f"/apis/{_MONITORING_GROUP}/v1/namespaces/{chart.NAMESPACE}/{plural}"

    def monitoring(self) -> dict[str, Json]:
        """The specs of the monitors by name, and that of the rules as `NAME rules`."""
        found = {}
        for plural, kind in _MONITORING.items():
            for each in self.api.list(self._of_monitoring(plural)):
                name = each["metadata"]["name"]
                found[f"{name} rules" if kind == "PrometheusRule" else name] = each["spec"]
        return found

    def _state_of(self, path: str) -> object:
        """The conditions that block it, as the API server reports them."""
        found = self.api.find(path) or {}
        return found.get("metadata", {}).get("finalizers"), found.get("status")


@contextlib.contextmanager
def running_operator(kubeconfig: Path, log: Path) -> Iterator[None]:
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "WATCH_NAMESPACE": "default",
        "METADATAQUORUM_OPERATOR_LISTEN": "127.0.0.1:0",
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "quorum_operator"],
            env={**os.environ, **settings},
            stdout=file,
            stderr=file,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def empty() -> Iterator[Empty]:
    """One for each test: what a busy API server deletes may take it minutes, and the next test would wait for that."""
    with ControlPlane() as running:
        made = Empty(running.kubeconfig)
        yield made
        made.api.close()


@pytest.mark.requirement("OP-02")
def test_helm_installs_and_upgrades_and_its_uninstall_keeps_quorums(empty: Empty) -> None:
    empty.install()
    assert empty.api.find(_DEPLOYMENT)
    empty.add_quorum()
    empty.install("replicaCount=2")
    assert empty.api.get(_DEPLOYMENT)["spec"]["replicas"] == 2
    empty.uninstall()
    assert empty.api.find(_DEPLOYMENT) is None
    assert empty.has_quorum(), "the uninstall deleted a quorum"
    empty.install()
    assert empty.has_quorum(), "the later release does not reconcile"
    empty.uninstall()
    for definition in _DEFINITIONS:
        assert empty.api.find(definition), "the chart's values keep the definition"


@pytest.mark.requirement("OP-02")
def test_plain_manifests_install_and_uninstall_with_one_command_each(empty: Empty) -> None:
    empty.kubectl("apply", "-f", str(chart.PLAIN))
    assert empty.api.find(_DEPLOYMENT)
    empty.add_quorum()
    empty.kubectl("apply", "-f", str(chart.PLAIN))
    empty.wait_listed()
    empty.kubectl("delete", "-f", str(chart.PLAIN), "--wait=false")
    empty.wait_gone()


@pytest.mark.long
def test_helm_adopts_an_installation_from_plain_manifests(empty: Empty) -> None:
    empty.kubectl("apply", "-f", str(chart.PLAIN))
    empty.add_quorum()
    with pytest.raises(TestbedError, match="ownership"):
        empty.install()
    empty.install(adopt=True)
    assert empty.has_quorum()


@pytest.mark.long
def test_operator_that_starts_before_its_crd_waits_for_it(empty: Empty, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_operator(empty.kubeconfig, log):
        wait_for(
            "a word of it",
            lambda: "the custom resource definitions are missing" in log.read_text(),
            timeout_s=30,
        )
        empty.kubectl("apply", *[f"--filename={file}" for file in chart.CRDS])
        empty.add_quorum()
        identity = kube.core("default", "configmaps", "q-identity")
        wait_for("its work", lambda: empty.api.find(identity), timeout_s=30, seen=log.read_text)


@pytest.mark.long
def test_quorums_are_reconciled_without_the_reassignment_crd(empty: Empty, tmp_path: Path) -> None:
    """As after an upgrade of the operator alone."""
    (quorums,) = (file for file in chart.CRDS if file.stem == "metadataquorums")
    empty.kubectl("apply", "-f", str(quorums))
    empty.add_quorum()
    log = tmp_path / "log"
    with running_operator(empty.kubeconfig, log):
        path = kube.quorums("default", "q")
        wait_for(
            "its work",
            lambda: "status" in empty.api.get(path),
            timeout_s=40,
            seen=log.read_text,
        )
        assert "partitionreassignments are not watched: apply crds/" in log.read_text()


@pytest.mark.long
def test_named_namespaces_get_their_own_roles(empty: Empty) -> None:
    for name in ("blue", "green"):
        empty.api.create(
            kube.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    empty.install("watchNamespaces={blue,green}")
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    for name in ("blue", "green"):
        assert empty.api.find(f"{rbac}/{name}/roles/{chart.RELEASE}")
    account = f"system:serviceaccount:{chart.NAMESPACE}:{chart.RELEASE}"
    allowed = {name: may(empty.api, account, name) for name in ("blue", "green", "default")}
    assert allowed == {"blue": True, "green": True, "default": False}


@pytest.mark.long
@pytest.mark.requirement("OP-02")
def test_upgrade_leaves_no_quorum_without_an_operator(empty: Empty) -> None:
    """The version before watched all of the cluster by default."""
    empty.install("watchNamespaces={*}")
    empty.add_quorum()
    with pytest.raises(TestbedError, match=r"those in default without an operator") as refused:
        empty.install("replicaCount=1")  # with no value at all helm keeps those of before
    assert f"watchNamespaces={{{chart.NAMESPACE},default}}" in str(refused.value)
    empty.install(f"watchNamespaces={{{chart.NAMESPACE},default}}")
    empty.install("replicaCount=1")  # a release that was given names may be given others


@pytest.mark.long
def test_upgrade_that_would_delete_the_definitions_is_refused(empty: Empty) -> None:
    """Helm deletes what is no longer in the chart, and with the definitions every quorum."""
    empty.install("crds.keep=false")
    empty.add_quorum()
    with pytest.raises(TestbedError, match=r"crds.install: .* first upgrade with crds.keep=true"):
        empty.install("crds.install=false", "crds.keep=true")
    assert empty.has_quorum()
    empty.install("crds.keep=true")
    empty.install("crds.install=false")
    empty.wait_listed()
    assert empty.has_quorum()
    for definition in _DEFINITIONS:
        assert "deletionTimestamp" not in empty.api.get(definition)["metadata"]


@pytest.mark.long
@pytest.mark.requirement("OP-10")
def test_monitors_and_rules_appear_with_their_definitions_and_not_before(empty: Empty) -> None:
    empty.install()
    empty.define_monitoring()
    assert empty.monitoring() == {}, "created before the kinds were there"
    empty.install()
    alerts = read_yaml((chart.CHART / "monitoring" / "alerts.yaml").read_text())
    found = empty.monitoring()
    assert found.keys() == {chart.RELEASE, f"{chart.RELEASE}-members", f"{chart.RELEASE} rules"}
    (group,) = found[f"{chart.RELEASE} rules"]["groups"]
    assert [each["alert"] for each in group["rules"]] == [
        each["alert"] for each in alerts["groups"][0]["rules"]
    ]
    labels = found[chart.RELEASE]["selector"]["matchLabels"]
    pod = empty.api.get(_DEPLOYMENT)["spec"]["template"]
    assert labels.items() <= pod["metadata"]["labels"].items(), "selects no pod of the operator"
    (endpoint,) = found[chart.RELEASE]["podMetricsEndpoints"]
    ports = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    assert endpoint["port"] in ports
    empty.install("metrics.monitors.enabled=false", "metrics.rules.enabled=false")
    assert empty.monitoring() == {}


@pytest.mark.long
def test_monitors_that_are_required_without_their_definitions_refuse_the_installation(
    empty: Empty,
) -> None:
    with pytest.raises(TestbedError, match="install the Prometheus operator first"):
        empty.install("metrics.monitors.enabled=true")
    assert empty.api.find(_DEPLOYMENT) is None


def may(api: Kube, user: str, namespace: str) -> bool:
    """Whether this account may make a StatefulSet there."""
    requested = {
        "namespace": namespace,
        "group": "apps",
        "resource": "statefulsets",
        "verb": "create",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": requested},
    }
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
