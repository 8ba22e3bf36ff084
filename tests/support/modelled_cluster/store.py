"""The objects of a modelled API server, and its rules: versions, generations, finalizers, preconditions, immutable objects.

Knows no clients and no controllers. Raises the operator's own errors, as its client would. Server-side apply is a merge: only one
manager applies.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from quorum_operator.crd import GROUP, PLURAL, VERSION
from quorum_operator.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
)
from support.in_memory_kube_api import as_stored, copied

Object = dict[str, Any]
Admission = Callable[[str, str, Object, Object | None], None]
"""Verb, plural, new object, object before. Raises ApiError."""

_WITH_GENERATION = (PLURAL, "statefulsets", "poddisruptionbudgets")
_VERSION = re.compile(rf"/apis/{re.escape(GROUP)}/[^/]+/")
_PROTECTION = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


def time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plural_in(path: str) -> str:
    return path.rpartition("/")[0].rpartition("/")[2]


def stored_path(path: str) -> str:
    """All versions of a resource are one object."""
    return _VERSION.sub(f"/apis/{GROUP}/{VERSION}/", path.rstrip("/"))


class Store:
    """`clock`: seconds since 1970. `changed`: called with the path of each change."""

    def __init__(self, clock: Callable[[], float], changed: Callable[[str], None]) -> None:
        self._clock, self._changed = clock, changed
        self.objects: dict[str, Object] = {}
        self.admission: list[Admission] = []
        self.ended: set[str] = set()
        """UIDs of pods whose processes have ended: their deletion can be completed."""
        self._serial = 100

    # ---- Reading; the objects themselves

    def get(self, path: str) -> Object | None:
        return self.objects.get(stored_path(path))

    def of(self, collection: str) -> list[Object]:
        """All objects of a collection, in order of creation."""
        return list(self.within(collection).values())

    def within(self, collection: str) -> dict[str, Object]:
        prefix = stored_path(collection) + "/"
        return {
            path: each
            for path, each in self.objects.items()
            if path.startswith(prefix) and "/" not in path[len(prefix) :]
        }

    def find(
        self, collection: str, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        found = self.of(collection)
        if labels:
            found = [each for each in found if _has(each["metadata"].get("labels") or {}, labels)]
        if fields:
            key, _, value = fields.partition("=")
            found = [each for each in found if _at(each, key) == value]
        return found

    def uids(self) -> set[str]:
        return {each["metadata"]["uid"] for each in self.objects.values()}

    # ---- Changing

    def create(self, collection: str, body: Object) -> Object:
        path = f"{stored_path(collection)}/{body['metadata']['name']}"
        plural = plural_in(path)
        if path in self.objects:
            raise AlreadyExists(
                409, "AlreadyExists", f'{plural} "{body["metadata"]["name"]}" already exists'
            )
        made: Object = as_stored(body)
        _encode(made)
        self._admit("create", plural, made, None)
        self._serial += 1
        meta: Object = {
            "labels": {},
            **{key: value for key, value in made["metadata"].items() if value is not None},
            "uid": str(UUID(int=(1 << 100) + self._serial)),
            "generation": 1,
            "resourceVersion": str(self._serial),
            "creationTimestamp": time_text(self._clock()),
        }
        parts = path.split("/")
        if "namespaces" in parts:
            meta["namespace"] = parts[parts.index("namespaces") + 1]
        if plural in _PROTECTION:
            meta["finalizers"] = [*(meta.get("finalizers") or []), _PROTECTION[plural]]
        made["metadata"] = meta
        if plural in (PLURAL, "statefulsets"):
            made.pop("status", None)
        self.objects[path] = made
        self._changed(path)
        return made

    def replace(self, path: str, body: Object, *, subresource: str = "") -> Object:
        """Raises Conflict if the object is not the one that `body` was made from."""
        path = stored_path(path)
        before = self._there(path)
        meta = body["metadata"]
        for key in ("uid", "resourceVersion"):
            if meta.get(key) not in (None, before["metadata"][key]):
                raise Conflict(409, "Conflict", f"{path}: {key} of the object has changed")
        made: Object = as_stored(body)
        _encode(made)
        fixed = ("name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp")
        kept = {key: before["metadata"][key] for key in fixed if key in before["metadata"]}
        made["metadata"] = {**made["metadata"], **kept}
        plural = plural_in(path)
        if subresource == "status":
            made = {**before, "status": made.get("status")}
        else:
            self._check_immutable(path, before, made)
            self._admit("update", plural, made, before)
        if made == before:
            return before
        self._serial += 1
        made["metadata"] = {**made["metadata"], "resourceVersion": str(self._serial)}
        if plural in _WITH_GENERATION and made.get("spec") != before.get("spec"):
            made["metadata"]["generation"] = before["metadata"]["generation"] + 1
        self.objects[path] = made
        self._changed(path)
        self._finish(path)
        return made

    def merge(self, path: str, patch: Object) -> Object:
        """A merge patch, also of the subresources status and scale."""
        place, _, last = stored_path(path).rpartition("/")
        if last == "scale":
            return self.merge(place, {"spec": {"replicas": patch["spec"]["replicas"]}})
        is_status = last == "status" and place in self.objects
        before = self._there(place if is_status else stored_path(path))
        for key in ("uid", "resourceVersion"):
            value = (patch.get("metadata") or {}).get(key)
            if value is not None and value != before["metadata"][key]:
                raise Conflict(409, "Conflict", f"{path}: {key} of the object has changed")
        if is_status:
            made = merged(before, {"status": patch.get("status")})
            return self.replace(place, made, subresource="status")
        plain = {key: value for key, value in patch.items() if key != "status"}
        return self.replace(path, merged(before, plain))

    def apply(self, path: str, body: Object) -> Object:
        found = self.get(path)
        if found is None:
            return self.create(path.rpartition("/")[0], body)
        mine = body["metadata"].get("ownerReferences") or []
        uids = {each["uid"] for each in mine}
        there = found["metadata"].get("ownerReferences") or []
        owners = [each for each in there if each["uid"] not in uids] + mine
        meta = {**body["metadata"], "ownerReferences": owners or None}
        return self.replace(path, merged(found, {**body, "metadata": meta}))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """A JSON patch with `test`, `add` and `replace`."""
        made = copied(self._there(stored_path(path)))
        for each in operations:
            *parents, last = (
                part.replace("~1", "/") for part in each["path"].strip("/").split("/")
            )
            at = made
            for part in parents:
                at = at.setdefault(part, {})
            if each["op"] == "test":
                if at.get(last) != each["value"]:
                    raise Conflict(422, "Invalid", f"{path}: the test of the patch failed")
            else:
                at[last] = as_stored(each.get("value"))
        return self.replace(path, made)

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: float | None = None,
        orphan: bool = False,
    ) -> None:
        path = stored_path(path)
        before = self._there(path)
        meta = before["metadata"]
        if uid not in (None, meta["uid"]) or version not in (None, meta["resourceVersion"]):
            raise Conflict(409, "Conflict", f"{path}: the object has changed")
        self._admit("delete", plural_in(path), before, before)
        if orphan:
            self._orphan(meta["uid"])
        if plural_in(path) == "pods" and (grace_s == 0 or not before["spec"].get("nodeName")):
            self.ended.add(meta["uid"])
        if "deletionTimestamp" not in meta:
            self._serial += 1
            meta = {
                **meta,
                "deletionTimestamp": time_text(self._clock()),
                "resourceVersion": str(self._serial),
            }
            self.objects[path] = {**before, "metadata": meta}
            self._changed(path)
        self._finish(path)

    def end(self, path: str) -> None:
        """A pod's processes have ended."""
        found = self.objects.get(path)
        if found is not None:
            self.ended.add(found["metadata"]["uid"])
            self._finish(path)

    def set_status(self, path: str, status: Object) -> None:
        """As a controller of Kubernetes does."""
        found = self.get(path)
        if found is not None and (found.get("status") or {}) != status:
            self.replace(path, {**found, "status": status}, subresource="status")

    def edit(self, path: str, change: Callable[[Object], None]) -> None:
        """Change an object as a controller of Kubernetes does."""
        made = copied(self._there(stored_path(path)))
        change(made)
        self.replace(path, made)

    # ---- Rules

    def _there(self, path: str) -> Object:
        found = self.objects.get(path)
        if found is None:
            raise NotFound(404, "NotFound", f"{path} not found")
        return found

    def _admit(self, verb: str, plural: str, made: Object, before: Object | None) -> None:
        for each in self.admission:
            each(verb, plural, made, before)
        owners = made["metadata"].get("ownerReferences") or []
        if sum(1 for each in owners if each.get("controller")) > 1:
            raise Invalid(422, "Invalid", "Only one reference can have Controller set to true")

    def _check_immutable(self, path: str, before: Object, made: Object) -> None:
        if before.get("immutable") and any(
            before.get(key) != made.get(key) for key in ("data", "immutable")
        ):
            raise Invalid(422, "Invalid", f"{path}: field is immutable when `immutable` is set")
        if plural_in(path) == "pods" and _but_image(before) != _but_image(made):
            raise Invalid(422, "Invalid", f"{path}: pod updates may not change fields")

    def _orphan(self, uid: str) -> None:
        for path, each in list(self.objects.items()):
            owners = each["metadata"].get("ownerReferences") or []
            if any(owner["uid"] == uid for owner in owners):
                kept = [owner for owner in owners if owner["uid"] != uid]
                meta = {**each["metadata"], "ownerReferences": kept}
                if not kept:
                    del meta["ownerReferences"]
                self.objects[path] = {**each, "metadata": meta}
                self._changed(path)

    def _finish(self, path: str) -> None:
        found = self.objects[path]
        meta = found["metadata"]
        if "deletionTimestamp" not in meta or meta.get("finalizers"):
            return
        if plural_in(path) == "pods" and meta["uid"] not in self.ended:
            return
        del self.objects[path]
        self._changed(path)


def merged(old: Object, new: Object) -> Object:
    """A JSON merge patch (RFC 7386)."""
    result: Object = copied(old)
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            there = result.get(key)
            result[key] = merged(there if isinstance(there, dict) else {}, value)
        else:
            result[key] = as_stored(value)
    return result


def _but_image(pod: Object) -> Object:
    """What can't be changed in a pod (validation of pod updates), as far as anybody tries."""
    spec = pod["spec"]
    containers = [{**each, "image": None} for each in spec.get("containers") or []]
    ignored = ("nodeName", "tolerations", "activeDeadlineSeconds", "containers")
    return {**{k: v for k, v in spec.items() if k not in ignored}, "containers": containers}


def _encode(body: Object) -> None:
    plain = body.pop("stringData", None)
    if plain:
        encoded = {key: b64encode(each.encode()).decode() for key, each in plain.items()}
        body["data"] = (body.get("data") or {}) | encoded


def _has(labels: dict[str, str], selector: str) -> bool:
    return all(_matches(labels, each) for each in selector.split(","))


def _matches(labels: dict[str, str], term: str) -> bool:
    key, has_value, value = term.partition("=")
    return key in labels and (not has_value or labels[key] == value)


def _at(found: Object, path: str) -> Any:
    at: Any = found
    for part in path.split("."):
        at = (at or {}).get(part)
    return at


def owners_of(found: Object) -> Iterator[Object]:
    yield from found["metadata"].get("ownerReferences") or []


def controller_of(found: Object) -> Object | None:
    return next((each for each in owners_of(found) if each.get("controller")), None)


__all__ = ["Admission", "ApiError", "Object", "Store", "controller_of", "merged", "owners_of"]
