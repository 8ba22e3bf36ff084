"""A StatefulSet from the template that the API server has accepted before, where it refuses the one that the spec makes.

A member whose disk died is replaced all the same; its template is brought up to date when the spec is corrected.
"""

import copy
from typing import Any

from quorum_operator.desired.names import ANNOTATION_RESTART, ANNOTATION_TEMPLATE

Object = dict[str, Any]


def with_accepted_template(refused: Object, accepted: Object) -> Object:
    """`refused` with the pod of `accepted`, another member's StatefulSet, and its own arguments; out of date by its marks."""
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
