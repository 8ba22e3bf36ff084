"""What a modelled API server refuses: quotas, absent webhooks, unknown accounts and priorities, invalid affinities, larger claims."""

from collections.abc import Iterable
from typing import Any

from quorum_operator.kube.errors import ApiError, Forbidden, Invalid, classify
from quorum_operator.quantity import value_of
from support.modelled_cluster.store import Object, Store

_COUNTED = {
    "count/statefulsets.apps": "statefulsets",
    "pods": "pods",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "configmaps": "configmaps",
}
DEFAULT_CLASS = "standard"


class Admission:
    """Of one namespace. `space`: its path."""

    def __init__(self, store: Store, space: str) -> None:
        self._store, self._space = store, space
        store.admission += [self._quota, self._webhook, self._valid, self._defaults]

    def _quota(self, verb: str, plural: str, made: Object, before: Object | None) -> None:
        own = self._space.rpartition("/")[2]
        if verb != "create" or made["metadata"].get("namespace", own) != own:
            return
        for each in self._store.of(f"{self._space}/resourcequotas"):
            for what in each["spec"]["hard"]:
                if _COUNTED.get(what) == plural:
                    name = made["metadata"]["name"]
                    raise Forbidden(
                        403,
                        "Forbidden",
                        f'{plural} "{name}" is forbidden: exceeded quota: by-hand, requested: {what}=1, '
                        f"used: {what}=3, limited: {what}=0",
                    )

    def _webhook(self, verb: str, plural: str, made: Object, before: Object | None) -> None:
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        if plural == "pods" and before is not None and _is_binding(made, before):
            return
        for each in self._store.of(path):
            rules = [rule for hook in each["webhooks"] for rule in hook["rules"]]
            if any(plural in rule["resources"] for rule in rules):
                message = 'Internal error occurred: failed calling webhook "by-hand.example.com": connection refused'
                raise classify(500, "InternalError", message)

    def _valid(self, verb: str, plural: str, made: Object, before: Object | None) -> None:
        if verb == "delete":
            return
        if plural == "statefulsets":
            _check_affinity(made["spec"]["template"]["spec"])
        if plural == "pods" and verb == "create":
            self._check_pod(made)
        if plural == "persistentvolumeclaims" and before is not None:
            old, new = _size(before), _size(made)
            if old is not None and new is not None and new > old:
                text = "only dynamically provisioned pvc can be resized and the storageclass that provisions it must support resize"
                raise Forbidden(403, "Forbidden", f"persistentvolumeclaims is forbidden: {text}")
            if new != old:
                raise Invalid(422, "Invalid", "spec is immutable after creation")

    def _check_pod(self, pod: Object) -> None:
        spec, name = pod["spec"], pod["metadata"]["name"]
        account = spec.get("serviceAccountName", "default")
        if account != "default":
            raise Forbidden(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: error looking up service account {account}: serviceaccount "{account}" not found',
            )
        priority = spec.get("priorityClassName")
        if priority:
            raise Forbidden(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: no PriorityClass with name {priority} was found',
            )

    def _defaults(self, verb: str, plural: str, made: Object, before: Object | None) -> None:
        if plural == "persistentvolumeclaims" and verb == "create":
            made["spec"].setdefault("storageClassName", DEFAULT_CLASS)
            made.setdefault("status", {"phase": "Pending"})
        if plural == "pods" and verb == "create":
            made.setdefault("status", {"phase": "Pending"})
            self._default_resources(made)

    def _default_resources(self, pod: Object) -> None:
        """Requests are those of the limits, and a LimitRange adds both, with an annotation."""
        added = []
        for each in pod["spec"]["containers"]:
            resources = each.setdefault("resources", {})
            _complete(resources, "requests", resources.get("limits") or {})
            added += [
                f"{', '.join(keys)} {kind[:-1]} for container {each['name']}"
                for limits in self._limits()
                for kind in ("requests", "limits")
                if (keys := _complete(resources, kind, limits))
            ]
        if added:
            notes = pod["metadata"].setdefault("annotations", {})
            notes["kubernetes.io/limit-ranger"] = f"LimitRanger plugin set: {'; '.join(added)}"

    def _limits(self) -> Iterable[dict[str, Any]]:
        for each in self._store.of(f"{self._space}/limitranges"):
            yield each["spec"]["limits"][0]["default"]


def _complete(resources: Object, kind: str, defaults: Object) -> list[str]:
    """Add missing resources of a kind. Returns their names."""
    there = resources.get(kind) or {}
    missing = sorted(defaults.keys() - there.keys())
    if missing:
        resources[kind] = {**there, **{key: defaults[key] for key in missing}}
    return missing


def _check_affinity(pod: Object) -> None:
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is not None and not required.get("nodeSelectorTerms"):
        path = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        raise Invalid(422, "Invalid", f"StatefulSet is invalid: {path}: Required value")


def _is_binding(made: Object, before: Object) -> bool:
    """The scheduler writes the subresource pods/binding, which no rule of an act names."""
    return not before["spec"].get("nodeName") and bool(made["spec"].get("nodeName"))


def _size(claim: Object) -> Any:
    return value_of(str(claim["spec"]["resources"]["requests"]["storage"]))


__all__ = ["DEFAULT_CLASS", "Admission", "ApiError"]
