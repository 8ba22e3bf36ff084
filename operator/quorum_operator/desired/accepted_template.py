"""Builds a StatefulSet from a template that the API server accepted before, if it rejects the current one.

So a member with a failed disk is replaced in any case; its template is updated when the spec is corrected.
"""

import copy
from typing import Any

from quorum_operator.desired.names import ANNOTATION_RESTART, ANNOTATION_TEMPLATE, CONTAINER

Object = dict[str, Any]

_OWN_OF_POD = ("volumes",)
_OWN_OF_CONTAINER = (
    *("args", "ports", "volumeMounts"),
    *("startupProbe", "livenessProbe", "readinessProbe"),
)
"""Parts that no spec rejects, and that differ between members: the volume with a member's certificate is its own."""


def with_accepted_template(refused: Object, accepted: Object) -> Object:
    """The rejected StatefulSet with the pod template of `accepted` (another member's), except the parts that belong to
    this member. It is marked as out of date.
    """
    made = copy.deepcopy(refused)
    template = made["spec"]["template"]
    earlier = copy.deepcopy(accepted["spec"]["template"])
    own, pod = template["spec"], earlier["spec"]
    _take(pod, own, _OWN_OF_POD)
    _take(_node_of(pod), _node_of(own), _OWN_OF_CONTAINER)
    template["spec"] = pod
    notes = (earlier.get("metadata") or {}).get("annotations") or {}
    template["metadata"]["annotations"] = {ANNOTATION_RESTART: notes.get(ANNOTATION_RESTART, "")}
    made["metadata"]["annotations"][ANNOTATION_TEMPLATE] = ""
    return made


def _take(there: Object, own: Object, parts: tuple[str, ...]) -> None:
    for part in parts:
        there.pop(part, None)
        if part in own:
            there[part] = own[part]


def _node_of(pod: Object) -> Object:
    """The member's container. An admission webhook may have put others before it."""
    found: list[Object] = pod["containers"]
    return next((each for each in found if each.get("name") == CONTAINER), found[0])
