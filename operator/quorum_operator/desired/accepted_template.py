"""Builds a StatefulSet from a template that the API server accepted before, if it rejects the current one.

So a member with a failed disk is replaced in any case; its template is updated when the spec is corrected.
"""

import copy
from typing import Any

from quorum_operator.desired.names import ANNOTATION_RESTART, ANNOTATION_TEMPLATE

Object = dict[str, Any]


def with_accepted_template(refused: Object, accepted: Object) -> Object:
    """The rejected StatefulSet with the pod template of `accepted` (another member's), but its own arguments. It is
    marked as out of date.
    """
    made = copy.deepcopy(refused)
    template = made["spec"]["template"]
    arguments = template["spec"]["containers"][0]["args"]
    earlier = accepted["spec"]["template"]
    template["spec"] = copy.deepcopy(earlier["spec"])
    template["spec"]["containers"][0]["args"] = arguments
    notes = (earlier.get("metadata") or {}).get("annotations") or {}
    template["metadata"]["annotations"] = {ANNOTATION_RESTART: notes.get(ANNOTATION_RESTART, "")}
    made["metadata"]["annotations"][ANNOTATION_TEMPLATE] = ""
    return made
