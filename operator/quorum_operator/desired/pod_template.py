"""Additions of `spec.podTemplate` to the pod of a member. Pure.

Without the field, templates and their hashes stay the same: `tests/unit/operator_desired/test_pod_template.py`.
"""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import USER_ID
from quorum_operator.pod_template_crd import PodTemplateSpec, ZoneSpread

_ZONE_TOPOLOGY = "topology.kubernetes.io/zone"
_POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
"""Label of each pod of a StatefulSet, set by its controller."""
_NOTHING = PodTemplateSpec()

Object = dict[str, Any]


def template_of(spec: MetadataQuorumSpec) -> PodTemplateSpec:
    """The resource's podTemplate."""
    return spec.pod_template or _NOTHING


def of_pod(spec: MetadataQuorumSpec) -> Object:
    """Fields of the pod, including those that every pod has."""
    wanted = template_of(spec)
    made: Object = {
        "serviceAccountName": wanted.service_account_name or "default",
        "securityContext": _security(wanted),
    }
    if wanted.image_pull_secrets:
        made["imagePullSecrets"] = [{"name": each.name} for each in wanted.image_pull_secrets]
    if wanted.priority_class_name:
        made["priorityClassName"] = wanted.priority_class_name
    return made


def of_container(spec: MetadataQuorumSpec) -> Object:
    """Fields of the node's container."""
    variables = template_of(spec).env
    if not variables:
        return {}
    return {"env": [_plain(each) for each in variables]}


def with_metadata(
    spec: MetadataQuorumSpec, labels: dict[str, str], notes: dict[str, str]
) -> Object:
    """Metadata of the template; the operator's own labels and annotations take precedence."""
    wanted = template_of(spec)
    return {
        "labels": {**(wanted.labels or {}), **labels},
        "annotations": {**(wanted.annotations or {}), **notes},
    }


def zones(spec: MetadataQuorumSpec, selector: Object, former: str | None) -> list[Object]:
    """The constraint that spreads members over zones, if any. `former`: pod of the member whose place this one takes. It
    may still run, but is not counted: otherwise the zone that it leaves would seem to be occupied, and would have one
    member too few afterwards.
    """
    spread = template_of(spec).zone_spread
    if spread is None or spread is ZoneSpread.NONE:
        return []
    required = spread is ZoneSpread.REQUIRED
    if former is not None:
        others = {"key": _POD_NAME_LABEL, "operator": "NotIn", "values": [former]}
        selector = {**selector, "matchExpressions": [others]}
    return [
        {
            "maxSkew": 1,
            "topologyKey": _ZONE_TOPOLOGY,
            "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
            "labelSelector": selector,
        }
    ]


def restarts(spec: MetadataQuorumSpec) -> list[object]:
    """The parts for which a running pod is restarted; empty if there are none."""
    wanted = template_of(spec)
    parts: Object = {}
    if wanted.service_account_name and wanted.service_account_name != "default":
        parts["serviceAccountName"] = wanted.service_account_name
    if wanted.env:
        parts.update(of_container(spec))
    if wanted.security_context is not None:
        parts["securityContext"] = _security(wanted)
    return [parts] if parts else []


def _security(wanted: PodTemplateSpec) -> Object:
    always: Object = {"runAsNonRoot": True}
    last: Object = {
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if wanted.security_context is None:
        ids: Object = {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID}
        return {**always, **ids, **last}
    return {**always, **_plain(wanted.security_context), **last}


def _plain(model: Any) -> Object:
    found: Object = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found
