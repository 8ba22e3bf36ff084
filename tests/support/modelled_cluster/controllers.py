"""Kubernetes' controllers in a modelled cluster: StatefulSets and the garbage collector."""

import hashlib
import json

from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from support.in_memory_kube_api import copied
from support.modelled_cluster.store import Object, Store, controller_of, owners_of, time_text

RETRY_S = 1.0
DELETE = "Delete"


def revision_of(owned: Object) -> str:
    text = json.dumps(owned["spec"]["template"], sort_keys=True)
    return f"{owned['metadata']['name']}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def controlled_by(owned: Object) -> Object:
    meta = owned["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class StatefulSets:
    """The controller of one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store, self._namespace = store, namespace
        self._retry_at: dict[str, float] = {}
        self._revisions: dict[tuple[str, int], str] = {}

    def _path(self, plural: str, name: str | None = None) -> str:
        return paths.namespaced(plural, self._namespace, name)

    def step(self, now: float) -> None:
        pods = self._store.of(self._path("pods"))
        for owned in self._store.of(self._path("statefulsets")):
            if "deletionTimestamp" not in owned["metadata"]:
                self._sync(owned, pods, now)

    def _sync(self, owned: Object, pods: list[Object], now: float) -> None:
        meta, spec = owned["metadata"], owned["spec"]
        name, uid = meta["name"], meta["uid"]
        place = uid, meta["generation"]
        revision = self._revisions.setdefault(place, revision_of(owned))
        self._store.set_status(
            self._path("statefulsets", name),
            {"observedGeneration": meta["generation"], "updateRevision": revision},
        )
        selector = spec["selector"]["matchLabels"].items()
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = {f"{name}-{at}" for at in range(start, start + spec.get("replicas", 1))}
        for pod in pods:
            self._keep(owned, pod, selector, wanted)
        for each in sorted(wanted):
            found = self._store.get(self._path("pods", each))
            if found is None:
                self._make(owned, each, revision, now)
            elif controller_of(found) is not None:
                self._own_claim(owned, each)

    def _keep(self, owned: Object, pod: Object, selector: object, wanted: set[str]) -> None:
        meta = pod["metadata"]
        name, path = meta["name"], self._path("pods", meta["name"])
        if self._store.get(path) is None or not name.startswith(f"{owned['metadata']['name']}-"):
            return
        controller, uid = controller_of(pod), owned["metadata"]["uid"]
        fits = (meta.get("labels") or {}).items() >= selector  # type: ignore[operator]
        mine = controller is not None and controller["uid"] == uid
        if mine and not fits:
            kept = [each for each in owners_of(pod) if each["uid"] != uid]
            self._store.merge(path, {"metadata": {"ownerReferences": kept or None}})
        elif mine and name not in wanted and "deletionTimestamp" not in meta:
            self._try_delete(path)
        elif mine and pod["status"].get("phase") in ("Failed", "Succeeded"):
            self._store.end(path)
            self._try_delete(path)
        elif controller is None and fits and "deletionTimestamp" not in meta:
            owners = [*owners_of(pod), controlled_by(owned)]
            self._try(lambda: self._store.merge(path, {"metadata": {"ownerReferences": owners}}))

    def _try_delete(self, path: str) -> None:
        if self._store.get(path) is not None:
            self._try(lambda: self._store.delete(path))

    def _try(self, change: object) -> None:
        try:
            change()  # type: ignore[operator]
        except ApiError:
            pass  # An admission webhook, or another owner: it is tried again.

    def _make(self, owned: Object, name: str, revision: str, now: float) -> None:
        if now < self._retry_at.get(name, 0.0):
            return
        try:
            if not self._made_claim(owned, name):
                return
            pod = copied(owned["spec"]["template"])
            labels = {**(pod["metadata"].get("labels") or {}), "controller-revision-hash": revision}
            pod["metadata"] |= {
                "name": name,
                "labels": labels,
                "ownerReferences": [controlled_by(owned)],
            }
            pod["spec"] |= {"hostname": name, "subdomain": owned["spec"]["serviceName"]}
            claim = {"claimName": f"data-{name}"}
            pod["spec"]["volumes"] = [
                *(pod["spec"].get("volumes") or []),
                {"name": "data", "persistentVolumeClaim": claim},
            ]
            self._store.create(self._path("pods"), {"apiVersion": "v1", "kind": "Pod", **pod})
            self._own_claim(owned, name)
            self._event(owned, "SuccessfulCreate", f"create Pod {name} successful", now)
        except ApiError as error:
            self._retry_at[name] = now + RETRY_S
            what = "Claim data-" if "persistentvolumeclaims" in error.message else "Pod "
            text = f"create {what}{name} in StatefulSet {owned['metadata']['name']} failed error: {error.message}"
            self._event(owned, "FailedCreate", text, now)

    def _made_claim(self, owned: Object, pod: str) -> bool:
        """Whether its claim exists and is not being deleted."""
        path = self._path("persistentvolumeclaims", f"data-{pod}")
        found = self._store.get(path)
        if found is not None:
            return "deletionTimestamp" not in found["metadata"]
        (template,) = owned["spec"]["volumeClaimTemplates"]
        body = copied(template)
        labels = {
            **(body["metadata"].get("labels") or {}),
            **owned["spec"]["selector"]["matchLabels"],
        }
        body["metadata"] |= {"name": f"data-{pod}", "labels": labels}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self._store.create(self._path("persistentvolumeclaims"), {**kind, **body})
        return True

    def _own_claim(self, owned: Object, pod: str) -> None:
        """Retention: with `whenDeleted: Delete` the StatefulSet owns the claims of its pods."""
        path = self._path("persistentvolumeclaims", f"data-{pod}")
        claim = self._store.get(path)
        if claim is None:
            return
        policy = owned["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        uid = owned["metadata"]["uid"]
        owns = any(each["uid"] == uid for each in owners_of(claim))
        if owns == (policy.get("whenDeleted") == DELETE):
            return
        others = [each for each in owners_of(claim) if each["uid"] != uid]
        mine = [] if owns else [controlled_by(owned)]
        owners = [*others, *mine]
        self._try(
            lambda: self._store.merge(path, {"metadata": {"ownerReferences": owners or None}})
        )

    def _event(self, owned: Object, reason: str, message: str, now: float) -> None:
        meta = owned["metadata"]
        name = f"{meta['name']}.{reason}"
        involved = {"kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "metadata": {"name": name},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "lastTimestamp": time_text(now),
        }
        self._store.apply(self._path("events", name), body)


class Collector:
    """The garbage collector: deletes what has no owner any more. `after_s`: how long such an object is left alone."""

    def __init__(self, store: Store, after_s: float) -> None:
        self._store, self._after_s = store, after_s
        self._since: dict[str, float] = {}

    def step(self, now: float) -> None:
        uids = self._store.uids()
        orphans = {}
        for path, each in self._store.objects.items():
            owners = each["metadata"].get("ownerReferences")
            if owners and any(owner["uid"] not in uids for owner in owners):
                orphans[path] = [owner for owner in owners if owner["uid"] in uids]
        self._since = {path: self._since.get(path, now) for path in orphans}
        for path, alive in orphans.items():
            found = self._store.get(path)
            if found is None or now - self._since[path] < self._after_s:
                continue
            try:
                if alive:
                    self._store.merge(path, {"metadata": {"ownerReferences": alive}})
                elif "deletionTimestamp" not in found["metadata"]:
                    self._store.delete(path)
            except ApiError:
                continue
