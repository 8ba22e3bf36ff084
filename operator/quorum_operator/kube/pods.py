"""Addresses of the pods of a quorum, for simple queries."""

from typing import Any

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi

Object = dict[str, Any]


async def pod_addresses(api: KubeApi, owner: Owner) -> list[str]:
    """IPs of the running pods, ready ones first."""
    return addresses(
        await api.find(paths.namespaced("pods", owner.namespace), labels=owner.selector)
    )


def addresses(pods: list[Object]) -> list[str]:
    """IPs of the running ones of these pods, ready ones first. The address of a terminated pod may belong to another pod,
    which must not receive the token.
    """
    running = [
        pod
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    running.sort(key=lambda pod: (not _is_ready(pod), pod["metadata"]["name"]))
    return [ip for pod in running if (ip := pod["status"].get("podIP"))]


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
