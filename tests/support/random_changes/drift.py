"""Compares the operator's objects with what it created. Pure: which fields of an object must not stay changed, and which differ.

The spec changes in a round, so fields that follow from it are left out; marks that acts leave are looked for.
"""

from collections.abc import Mapping

from support.envtest.kube_api import Json

BY_HAND = "by-hand"
"""Stands in all that acts write into an object."""

_LABELS = "app.kubernetes.io/"
# clusterIP changes when a service is recreated, and minAvailable follows the voters: neither is
# compared.
_SPECS = ("selector", "ports", "type", "maxUnavailable")


def essence(found: Json) -> Json:
    """Labels, owners, selectors, and marks of manual changes."""
    meta, spec = found["metadata"], found.get("spec") or {}
    labels = meta.get("labels") or {}
    return {
        "labels": {key: labels[key] for key in sorted(labels) if key.startswith(_LABELS)},
        "owners": sorted(each["uid"] for each in meta.get("ownerReferences") or []),
        "spec": {key: spec[key] for key in _SPECS if key in spec},
        "marked": BY_HAND in str(found.get("data")) or BY_HAND in str(spec),
    }


def drifted(before: Mapping[str, Json], now: Mapping[str, Json | None]) -> list[str]:
    """Missing and changed objects in words, by readable name."""
    return [words for name in before if (words := _differs(name, before[name], now[name]))]


def _differs(name: str, before: Json, found: Json | None) -> str:
    if found is None:
        return f"{name} is missing"
    now = essence(found)
    other = [f"{key} {now[key]}, was {before[key]}" for key in before if now[key] != before[key]]
    return f"{name} is not as it was: {'; '.join(other)}" if other else ""


def of_members(sets: list[Json], pods: list[Json], labels: Mapping[str, str]) -> list[str]:
    """StatefulSets and pods of members that should run: their labels, replicas, and nothing written by hand;
    and pods without a StatefulSet.
    """
    reported = []
    for kind, found in [
        *(("StatefulSet", each) for each in sets),
        *(("Pod", each) for each in pods),
    ]:
        meta, spec = found["metadata"], found["spec"]
        if kind == "StatefulSet" and spec["replicas"] == 0:
            continue
        has = meta.get("labels") or {}
        lacks = [key for key, value in labels.items() if has.get(key) != value]
        if lacks:
            reported.append(f"{kind} {meta['name']} has no labels {', '.join(lacks)}")
        if spec.get("replicas", 1) > 1:
            reported.append(f"{kind} {meta['name']} has {spec['replicas']} replicas")
        if kind == "StatefulSet" and BY_HAND in str(spec["template"]):
            reported.append(f"{kind} {meta['name']} has a template that was written by hand")
    names = {each["metadata"]["name"] for each in sets}
    strays = (each["metadata"]["name"] for each in pods)
    reported += [
        f"Pod {name} has no StatefulSet" for name in strays if name.removesuffix("-0") not in names
    ]
    return reported
