"""Paths of the Kubernetes API for the kinds that the operator uses."""

from urllib.parse import quote

from quorum_operator.crd import GROUP, PLURAL, VERSION
from quorum_operator.reassignment_crd import REASSIGNMENT_PLURAL

_GROUPS = {
    "certificates": "/apis/cert-manager.io/v1",
    "configmaps": "/api/v1",
    "cronjobs": "/apis/batch/v1",
    "events": "/api/v1",
    "jobs": "/apis/batch/v1",
    "persistentvolumeclaims": "/api/v1",
    "pods": "/api/v1",
    "secrets": "/api/v1",
    "services": "/api/v1",
    "statefulsets": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    PLURAL: f"/apis/{GROUP}/{VERSION}",
    REASSIGNMENT_PLURAL: f"/apis/{GROUP}/{VERSION}",
}
NODES = "/api/v1/nodes"
DEFINITION = f"/apis/{GROUP}/{VERSION}"
"""Lists the kinds of the operator's API group, once one is defined. Every account may read it."""


def namespaced(plural: str, namespace: str, name: str | None = None) -> str:
    """Path of a collection, or of one object in it."""
    path = f"{_GROUPS[plural]}/namespaces/{quote(namespace)}/{plural}"
    return path if name is None else f"{path}/{quote(name)}"


def volume(name: str) -> str:
    """Path of a PersistentVolume."""
    return f"/api/v1/persistentvolumes/{quote(name)}"


def storage_class(name: str) -> str:
    """Path of a StorageClass."""
    return f"/apis/storage.k8s.io/v1/storageclasses/{quote(name)}"


_PLURALS = {
    "Certificate": "certificates",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Secret": "secrets",
    "Service": "services",
    "StatefulSet": "statefulsets",
}


def plural_of(kind: str) -> str:
    """Plural of a kind that the operator creates."""
    return _PLURALS[kind]
