"""The resources of a pod's container without those that Kubernetes has added to the ones of its template. Pure.

The API server requests what is limited, if the template requests nothing, and a LimitRange adds its own defaults. Both
happen only to pods, so a pod never has exactly the resources of its template.
"""

import re
from typing import Any

Object = dict[str, Any]

_LIMITED = "kubernetes.io/limit-ranger"
"""Annotation of a pod with what a LimitRange has added: `cpu, memory request for container node; …`."""
_ADDED = re.compile(r"([a-z0-9./, -]+) (request|limit) for (?:init )?container (\S+)")


def resources_without_defaults(container: Object, pod: Object, template: Object) -> Object:
    """The resources of a container of `pod`, which may also be the template itself."""
    found: Object = container.get("resources") or {}
    if pod is template:
        return found
    name = container.get("name")
    given: Object = next(
        (
            each.get("resources") or {}
            for each in template["spec"].get("containers", [])
            if each.get("name") == name
        ),
        {},
    )
    added = _added(pod, name)
    limits = found.get("limits") or {}

    def is_default(kind: str, resource: str, value: Any) -> bool:
        if resource in (given.get(kind) or {}):
            return False
        copied = kind == "requests" and limits.get(resource) == value
        return copied or (kind, resource) in added

    kept = {
        kind: {key: each for key, each in part.items() if not is_default(kind, key, each)}
        if kind in ("requests", "limits")
        else part
        for kind, part in found.items()
    }
    return {kind: part for kind, part in kept.items() if part}


def _added(pod: Object, container: str | None) -> set[tuple[str, str]]:
    """What a LimitRange has added to a container, as kind and resource."""
    text = (pod["metadata"].get("annotations") or {}).get(_LIMITED) or ""
    return {
        (f"{found[2]}s", resource.strip())
        for part in text.partition(":")[2].split(";")
        if (found := _ADDED.fullmatch(part.strip())) is not None and found[3] == container
        for resource in found[1].split(",")
    }
