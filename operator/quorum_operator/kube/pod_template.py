"""Whether a pod was created from a different template than its StatefulSet has now, and which differences matter.

A running pod is restarted only for a different program. A pod that can't start is replaced for any difference,
because the old template may be the cause, and so may be an edit of the pod. The withdrawn permission of the founder to format is not a difference.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from quorum_operator.desired import names
from quorum_operator.kube.facts import overrides_in
from quorum_operator.kube.node_container import made_from_template
from quorum_operator.kube.pod_resources import resources_without_defaults
from quorum_operator.object_store_crd import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN
from quorum_operator.planner.member_problems import IMAGE_FAULTS
from quorum_operator.planner.observed import PodFacts

Object = dict[str, Any]

_PROGRAM = ("name", "image", "command", "args", "env", "envFrom")
_DOES_NOT_STAY_UP = ("CrashLoopBackOff", "RunContainerError", "CreateContainerError")
"""Waiting reasons of a container that ends, or can't be started, again and again."""
_PLACEMENT = ("nodeSelector", "affinity", "topologySpreadConstraints")
_ADDED_TOLERATIONS = "node.kubernetes.io/"
"""Keys of tolerations that the API server adds to every pod."""


def with_template(seen: PodFacts, pod: Object, owned: Object) -> PodFacts:
    """The pod with its relation to the StatefulSet's current template; unchanged if the controller has not observed
    it yet.
    """
    meta, status = owned["metadata"], owned.get("status") or {}
    current = status.get("updateRevision")
    made_from = (pod["metadata"].get("labels") or {}).get("controller-revision-hash")
    if current is None:
        return seen
    if _has_other_name(pod, owned):
        return replace(seen, outdated=True, runs_other=True)
    if made_from in (None, current):  # None: another client has removed the label.
        template = owned["spec"]["template"]
        edited = _has_edited_image(seen, pod, template) or _has_edited_program(seen, pod, template)
        return replace(seen, outdated=edited)
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        return seen
    template = owned["spec"]["template"]
    other = _program(pod, template) != _program(template, template)
    withdrawn = _may_format(pod) and not _may_format(template)
    if withdrawn and not other and _is_placed_alike(pod["spec"], template["spec"]):
        # The kubelet restarts it after a crash. A new pod would run the same program with the same placement.
        return seen
    return replace(seen, outdated=True, runs_other=other)


def _has_other_name(pod: Object, owned: Object) -> bool:
    """Whether an earlier StatefulSet of this name created it, with the DNS name of another Service. A younger pod with one has
    it from an admission webhook, and a new pod would have it again.
    """
    made_at, owned_since = (each["metadata"].get("creationTimestamp", "") for each in (pod, owned))
    other = (pod["spec"].get("subdomain") or None) != (owned["spec"].get("serviceName") or None)
    return other and made_at < owned_since


def _has_edited_image(seen: PodFacts, pod: Object, template: Object) -> bool:
    """Whether the pod can't pull an image that differs from the template; a new pod has the right one. A running pod is
    not replaced, because an admission webhook may rewrite images.
    """
    if seen.waiting_reason not in IMAGE_FAULTS:
        return False
    images = [
        [each.get("image") for each in made_from_template(one, template)] for one in (pod, template)
    ]
    return images[0] != images[1]


def _has_edited_program(seen: PodFacts, pod: Object, template: Object) -> bool:
    """Whether the container does not stay up, and another client has changed its image or resources since the pod was
    created; a new pod has the right ones. Since Kubernetes 1.33 a pod has a generation. It is 1 until then, whatever
    an admission webhook rewrites when the pod is created.
    """
    if seen.waiting_reason not in _DOES_NOT_STAY_UP or pod["metadata"].get("generation", 0) <= 1:
        return False
    return _program(pod, template) != _program(template, template)


def _may_format(pod: Object) -> bool:
    """Whether its process has the founder's permission to format."""
    return any(key.startswith(names.FORMATION_KEYS) for key in overrides_in(pod["spec"]))


def _program(pod: Object, template: Object) -> list[Object]:
    """The program of each container that is in the template."""
    programs = [
        {part: _lasting(each[part]) for part in _PROGRAM if each.get(part)}
        | {"resources": resources_without_defaults(each, pod, template)}
        for each in made_from_template(pod, template)
    ]
    return [{part: value for part, value in each.items() if value} for each in programs]


def _lasting(part: Any) -> Any:
    """The part without the founder's permission to format and its variables for an object store."""
    if not isinstance(part, list):
        return part
    if not all(isinstance(each, str) for each in part):
        return [each for each in part if not _is_for_a_restore(each)]
    pairs = pairwise([*part, ""])
    given = {
        at
        for at, (option, value) in enumerate(pairs)
        if option in names.FORMATION_OPTIONS
        or (option == "--override" and str(value).startswith(names.FORMATION_KEYS))
    }
    return [each for at, each in enumerate(part) if not {at, at - 1} & given]


def _is_for_a_restore(variable: Object) -> bool:
    """Whether it is one of the founder's variables for an object store (desired/object_store.py)."""
    if variable.get("name") == "AWS_CA_BUNDLE":
        return str(variable.get("value", "")).startswith(names.STORE_CA_PATH)
    refers = "secretKeyRef" in (variable.get("valueFrom") or {})
    return refers and variable.get("name") in (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN)


def _is_placed_alike(pod: Object, template: Object) -> bool:
    """Whether the template has the same scheduling requirements as this pod."""
    if any((pod.get(part) or None) != (template.get(part) or None) for part in _PLACEMENT):
        return False
    wanted, tolerated = template.get("tolerations") or [], pod.get("tolerations") or []
    lost = [
        each
        for each in tolerated
        if each not in wanted and not str(each.get("key", "")).startswith(_ADDED_TOLERATIONS)
    ]
    return not lost and all(each in tolerated for each in wanted)
