"""The three Services: one name per pod, the admin API, and the Kafka protocol."""

from typing import Any

from quorum_operator.desired.names import (
    CONTROLLER_PORT,
    LABEL_INSTANCE,
    LABEL_NAME,
    Owner,
    metadata,
)
from quorum_operator.desired.tls import admin_port

_CONTROLLER = {"name": "controller", "port": CONTROLLER_PORT, "targetPort": "controller"}


def _admin(secured: bool) -> dict[str, Any]:
    return {"name": "admin", "port": admin_port(secured), "targetPort": "admin"}


def build_nodes(owner: Owner, *, secured: bool) -> dict[str, Any]:
    """Headless; not-ready pods are published, because formation needs them to find each other."""
    spec = {"type": "ClusterIP", "clusterIP": "None", "publishNotReadyAddresses": True}
    return _service(owner, owner.nodes_service, [_CONTROLLER, _admin(secured)], spec)


def build_admin(owner: Owner, *, secured: bool) -> dict[str, Any]:
    """Admin API of the ready pods."""
    return _service(owner, owner.admin_service, [_admin(secured)], {"type": "ClusterIP"})


def build_bootstrap(owner: Owner) -> dict[str, Any]:
    """Kafka protocol of the ready pods."""
    return _service(owner, owner.bootstrap_service, [_CONTROLLER], {"type": "ClusterIP"})


def _service(
    owner: Owner, name: str, ports: list[dict[str, Any]], spec: dict[str, Any]
) -> dict[str, Any]:
    selector = {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, name),
        "spec": {**spec, "ports": [{**port, "protocol": "TCP"} for port in ports]}
        | {"selector": selector},
    }
