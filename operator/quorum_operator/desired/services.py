"""The three Services: one name per pod, the admin API, and the Kafka protocol."""

from typing import Any

from quorum_operator.desired.names import (
    ADMIN_PORT,
    CONTROLLER_PORT,
    LABEL_INSTANCE,
    LABEL_NAME,
    SECURE_ADMIN_PORT,
    Owner,
    metadata,
)
from quorum_operator.desired.tls import admin_port
from quorum_operator.planner.tls_stage import TlsStage

_REACHABLE = {"internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}
"""The defaults of the API server, named so that a change by another client is detected: with `Local` only clients on a
member's host reach it.
"""

_OF_READY_PODS = {"type": "ClusterIP", "publishNotReadyAddresses": False}

_CONTROLLER = {"name": "controller", "port": CONTROLLER_PORT, "targetPort": "controller"}


def _admin(stage: TlsStage) -> list[dict[str, Any]]:
    port = admin_port(stage is TlsStage.CLOSED)
    if not stage.takes_both:
        return [{"name": "admin", "port": port, "targetPort": "admin"}]
    # By number: in the previous and the next stage these port names refer to other ports.
    plain = {"name": "admin", "port": ADMIN_PORT, "targetPort": ADMIN_PORT}
    return [plain, {**plain, "name": "admin-tls"} | _both(SECURE_ADMIN_PORT)]


def _both(port: int) -> dict[str, Any]:
    return {"port": port, "targetPort": port}


def build_nodes(owner: Owner, stage: TlsStage) -> dict[str, Any]:
    """The headless Service. Pods that are not ready are published, because members have to find each other during the
    formation.
    """
    spec = {"type": "ClusterIP", "clusterIP": "None", "publishNotReadyAddresses": True}
    return _service(owner, owner.nodes_service, [_CONTROLLER, *_admin(stage)], spec)


def build_admin(owner: Owner, stage: TlsStage) -> dict[str, Any]:
    """Admin API of the ready pods."""
    return _service(owner, owner.admin_service, _admin(stage), _OF_READY_PODS)


def build_bootstrap(owner: Owner) -> dict[str, Any]:
    """Kafka protocol of the ready pods."""
    return _service(owner, owner.bootstrap_service, [_CONTROLLER], _OF_READY_PODS)


def _service(
    owner: Owner, name: str, ports: list[dict[str, Any]], spec: dict[str, Any]
) -> dict[str, Any]:
    selector = {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, name),
        "spec": {**spec, **_REACHABLE, "ports": [{**port, "protocol": "TCP"} for port in ports]}
        | {"selector": selector},
    }
