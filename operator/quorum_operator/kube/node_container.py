"""Finds the member's container in a pod.

An admission webhook may inject other containers, such as the proxy of a service mesh. The kubelet sorts the states of
containers by name, so the member's is not always the first. The other containers are irrelevant for the member's disk.
"""

from typing import Any

from quorum_operator.desired.names import CONTAINER

Object = dict[str, Any]


def node_container(pod: Object) -> Object:
    """The state of the member's container; empty while the kubelet has reported none."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in statuses if each.get("name", CONTAINER) == CONTAINER), {})


def made_from_template(pod: Object, template: Object) -> list[Object]:
    """The containers of a pod that are in its template, without injected ones."""
    wanted = {each.get("name") for each in template["spec"].get("containers", [])}
    return [each for each in pod["spec"].get("containers", []) if each.get("name") in wanted]
