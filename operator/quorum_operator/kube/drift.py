"""Detects changes by other clients to objects that the operator owns.

Compares an existing object with the wanted one. The API server adds defaults, and other controllers add annotations.
All wanted fields must be present, and an addition counts only if it changes the object's effect. Pure.
"""

from typing import Any

from quorum_operator.desired.names import RETENTION_FIELD
from quorum_operator.quantity import canonical

Object = dict[str, Any]

_EXACT = {
    "ConfigMap": ("data", "binaryData"),
    "Service": (
        *("spec.selector", "spec.externalIPs", "spec.externalName"),
        "spec.trafficDistribution",
    ),
    "NetworkPolicy": ("spec",),
    "PodDisruptionBudget": ("spec.selector", "spec.minAvailable", "spec.maxUnavailable"),
}
"""Parts of a kind in which any addition counts."""

_WITHOUT_DEFAULT = frozenset(
    {
        *("activeDeadlineSeconds", "affinity", "command", "dnsConfig", "env", "envFrom"),
        *("hostAliases", "hostIPC", "hostname", "hostnameOverride", "hostNetwork", "hostPID"),
        *("hostUsers", "initContainers", "lifecycle", "limits", "nodeName", "nodeSelector"),
        *("os", "overhead", "preemptionPolicy", "priorityClassName", "readinessGates"),
        *("resourceClaims", "resources", "restartPolicyRules", "runtimeClassName"),
        *("schedulingGates", "setHostnameAsFQDN", "shareProcessNamespace", "stdin", "subdomain"),
        *("tolerations", "topologySpreadConstraints", "tty", "volumeDevices", "workingDir"),
        # Of ports, mounts, volumes and probes.
        *("hostIP", "hostPort", "mountPropagation", "recursiveReadOnly", "subPath", "subPathExpr"),
        *("items", "medium", "host", "httpHeaders", "initialDelaySeconds"),
        # Of security contexts.
        *("add", "appArmorProfile", "privileged", "runAsGroup", "runAsNonRoot", "runAsUser"),
        *("seLinuxOptions", "supplementalGroups", "sysctls"),
    }
)
"""Fields of a pod template without API server defaults: if one is set, another client has changed the pod."""

_WITH_DEFAULT = {
    "dnsPolicy": "ClusterFirst",
    "procMount": "Default",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
"""Fields of a pod template with the API server's defaults: with another value the pod may never be scheduled, find no other
member, or report no cause of its end.
"""


def drift(wanted: Object, live: Object) -> str | None:
    """Path of the first differing field; None if there is no difference."""
    found = _difference(wanted, live, "")
    if found is not None:
        return found
    for path in _EXACT.get(wanted["kind"], ()):
        there = _at(live, path)
        if _at(wanted, path) != (None if there in ({}, [], "") else there):
            return path
    return None


def removals(wanted: Object, live: Object) -> Object | None:
    """A merge patch that removes what applying `wanted` would leave; None if there is nothing to remove."""
    patch: Object = {}
    for path in _EXACT.get(wanted["kind"], ()):
        there, should = _at(live, path), _at(wanted, path)
        if there is None or there == should:
            continue
        *parents, last = path.split(".")
        at = patch
        for parent in parents:
            at = at.setdefault(parent, {})
        if isinstance(there, dict) and isinstance(should, dict):
            at[last] = _instead(there, should)
        else:
            at[last] = should
    owners, there = (_at(each, "metadata.ownerReferences") for each in (wanted, live))
    if owners and there and _difference(owners, there, "ownerReferences"):
        # Another owner would keep the object when the resource is deleted.
        patch["metadata"] = {"ownerReferences": owners}
    if wanted["kind"] == "Service" and (ports := _ports_without_additions(wanted, live)):
        patch.setdefault("spec", {})["ports"] = ports
    if wanted["kind"] == "Service" and _at(live, "spec.type") != _at(wanted, "spec.type"):
        # Some types require the fields to remove, such as externalName: the type changes with them.
        patch["spec"] = {**wanted["spec"], **patch.get("spec", {})}
    return patch or None


def _ports_without_additions(wanted: Object, live: Object) -> list[Object] | None:
    """The wanted ports if another client has added one, because apply keeps entries of other managers. Node ports are
    kept.
    """
    wanted_ports, there = _at(wanted, "spec.ports") or [], _at(live, "spec.ports") or []
    by_place = {(each["port"], each.get("protocol", "TCP")): each for each in there}
    places = [(each["port"], each.get("protocol", "TCP")) for each in wanted_ports]
    if not wanted_ports or by_place.keys() <= set(places):
        return None
    numbers = (by_place.get(place, {}).get("nodePort") for place in places)
    pairs = zip(wanted_ports, numbers, strict=True)
    return [{**each, **({"nodePort": number} if number else {})} for each, number in pairs]


def _instead(there: Any, should: Any) -> Object:
    """The wanted values, and None for additional existing ones, recursively."""
    result: Object = {key: None for key in there if key not in should}
    for key, value in should.items():
        old = there.get(key)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[key] = _instead(old, value) if both else value
    return result


def template_drift(wanted: Object, live: Any) -> str | None:
    """The first difference of a StatefulSet that affects its pods or claims."""
    if not isinstance(live, dict) or "spec" not in live:
        return None  # It was not read from an API server.
    for path in ZERO:
        if _at(live, path):
            return path
    for path in ("spec.updateStrategy", RETENTION_FIELD):
        found = _difference(_at(wanted, path), _at(live, path), path)
        if found is not None:
            return found
    path = "spec.template"
    template, there = _at(wanted, path), _at(live, path)
    return _difference(template, there, path) or _addition(template, there, path)


def immutable_drift(wanted: Object, live: Any) -> str | None:
    """A difference of a StatefulSet in an immutable field on which the name or the claim of its pod depends, as text."""
    if not isinstance(live, dict) or "spec" not in live:
        return None  # It was not read from an API server.
    service, there = (_at(each, "spec.serviceName") for each in (wanted, live))
    if there != service:
        return f"spec.serviceName is {there or 'empty'} instead of {service}"
    claims, made = (
        [each["metadata"]["name"] for each in _at(one, "spec.volumeClaimTemplates") or ()]
        for one in (wanted, live)
    )
    if made != claims:
        named = ", ".join(made) or "none"
        return f"spec.volumeClaimTemplates has {named} instead of {', '.join(claims)}"
    return None


ZERO = ("spec.ordinals.start", "spec.minReadySeconds")
"""Fields of a StatefulSet that must be missing or 0. A different first ordinal means another pod with another claim."""


def _addition(wanted: Any, live: Any, path: str) -> str | None:
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key, value in live.items():
            place = f"{path}.{key}"
            if key in wanted:
                found = _addition(wanted[key], value, place)
            else:
                found = place if _has_effect(key, value) else None
            if found is not None:
                return found
    elif isinstance(wanted, list) and isinstance(live, list):
        for index, pair in enumerate(zip(wanted, live, strict=False)):
            found = _addition(*pair, f"{path}[{index}]")
            if found is not None:
                return found
    return None


def _has_effect(key: str, value: Any) -> bool:
    """Whether a field that the wanted template does not have was set by another client."""
    if key in _WITH_DEFAULT:
        return value not in (None, _WITH_DEFAULT[key])
    return key in _WITHOUT_DEFAULT and (bool(value) or value in (0, False))


def _difference(wanted: Any, live: Any, path: str) -> str | None:
    """The first path at which `live` lacks something of `wanted`."""
    if isinstance(wanted, dict):
        there = live if isinstance(live, dict) else {}
        for key, value in wanted.items():
            found = _difference(value, there.get(key), f"{path}.{key}".strip("."))
            if found is not None:
                return found
        return None
    if path.endswith("ownerReferences"):
        mine = {each["uid"] for each in wanted}
        return None if mine == {each.get("uid") for each in live or ()} else path
    if isinstance(wanted, list):
        items = live if isinstance(live, list) else []
        if len(wanted) != len(items):
            return path
        for index, pair in enumerate(zip(wanted, items, strict=True)):
            found = _difference(*pair, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    if wanted is None or wanted == live or (not wanted and live is None):
        return None
    return None if canonical(str(wanted)) == canonical(str(live)) else path


def _at(document: Object, path: str) -> Any:
    found: Any = document
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
