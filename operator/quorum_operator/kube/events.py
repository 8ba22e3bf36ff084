"""Events on the operator's resources: one per executed step of a quorum, one per phase of a reassignment."""

from datetime import UTC, datetime
from typing import Any

from quorum_operator.crd import GROUP, KIND, VERSION
from quorum_operator.desired.names import MANAGER, Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi

MESSAGE_LIMIT = 1000


async def post_event(
    api: KubeApi,
    owner: Owner,
    *,
    kind: str,
    reason: str,
    message: str,
    at: float,
    resource: str = KIND,
) -> None:
    """Post an event. `kind`: Normal or Warning; `reason`: one word in CamelCase; `at`: seconds since 1970.

    `owner`: the involved object, of the kind `resource`.
    """
    now = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{owner.name}-", "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": resource,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "reason": reason,
        "message": message[:MESSAGE_LIMIT],
        "type": kind,
        "source": {"component": MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    await api.create(paths.namespaced("events", owner.namespace), body)
