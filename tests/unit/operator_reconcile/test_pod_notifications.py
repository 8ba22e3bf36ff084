"""Pods are annotated when the Secret with their certificate has changed, so that their kubelets read it at once."""

from typing import Any

from quorum_operator.certificate_keeper import CertificateKeeper
from quorum_operator.desired.names import ANNOTATION_CERTIFICATES
from quorum_operator.kube.errors import NotFound
from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import SPACE, InMemoryKubeApi, pod_path, repeat, running_quorum
from support.secured_quorum import SecuredNodes


def settle(api: InMemoryKubeApi) -> None:
    nodes: Any = SecuredNodes(api)
    unchecked: Any = api
    clock = lambda: float(nodes.now)  # noqa: E731
    made = Reconciler(
        unchecked, nodes, Metrics(), clock=clock, certificates=CertificateKeeper(unchecked, clock)
    )
    repeat(made, 40)


def secret_of(node_id: int) -> str:
    return f"/api/v1/namespaces/{SPACE}/secrets/demo-{node_id}-1-tls"


def test_each_pod_is_annotated_with_the_version_of_its_secret() -> None:
    api = running_quorum(3, tls=True)
    settle(api)
    for node_id in (1, 2, 3):
        notes = api.objects[pod_path(node_id)]["metadata"]["annotations"]
        version = api.objects[secret_of(node_id)]["metadata"]["resourceVersion"]
        assert notes[ANNOTATION_CERTIFICATES] == version
    api.writes.clear()
    settle(api)
    assert not [path for _, path in api.writes if "/pods/" in path], "once for each change"


def test_pod_that_rejects_the_annotation_still_gets_its_certificate() -> None:
    api = running_quorum(3, tls=True)

    def refuse(verb: str, path: str) -> None:
        if verb != "get" and path == pod_path(2):
            raise NotFound(404, "NotFound", 'pods "demo-2-1-0" not found')

    api.refuse = refuse
    settle(api)
    assert api.condition("TlsReady")["reason"] == "CertificatesIssued"
