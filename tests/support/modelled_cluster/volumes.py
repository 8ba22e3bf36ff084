"""Disks, PersistentVolumes and claims of a modelled cluster: binding, protection, and what a disk is like."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from quorum_operator.kube import paths
from quorum_operator.quantity import value_of
from support.kind_env.testbed import STORAGE_CLASS
from support.modelled_cluster.admission import DEFAULT_CLASS
from support.modelled_cluster.hosts import Host, Hosts
from support.modelled_cluster.store import Object, Store

CAPACITY = "300Mi"
_VOLUMES = "/api/v1/persistentvolumes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_PROTECTIONS = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")


@dataclass
class Replica:
    """What stands on a formatted disk: a replica and its log. `epoch`: of the last record; `end`: exclusive."""

    node_id: int
    uuid: str
    cluster_id: str
    end: int = 0
    epoch: int = 0
    voters: frozenset[tuple[int, str]] = frozenset()
    formed: bool = False


@dataclass
class ModelledDisk:
    """The device of one PersistentVolume."""

    failed: bool = False
    full: bool = False
    read_only: bool = False
    frozen: bool = False
    closed: bool = False
    """Only root may use it."""
    corrupt: bool = False
    replica: Replica | None = None


class Volumes:
    """Of one namespace."""

    def __init__(self, store: Store, namespace: str, hosts: Hosts, slots: int) -> None:
        self._store, self._namespace, self._hosts = store, namespace, hosts
        self.disks: dict[str, ModelledDisk] = {}
        """By the UID of the PersistentVolume."""
        self._made: Counter[str] = Counter()
        for name, mode in ((STORAGE_CLASS, "Retain"), (DEFAULT_CLASS, "Delete")):
            body = {"metadata": {"name": name}, "reclaimPolicy": mode}
            store.create(_CLASSES, body)
        for host in hosts.by_name.values():
            for slot in range(slots):
                name = f"disk-w{host.number}-s{slot}"
                self._add(name, host, STORAGE_CLASS, CAPACITY, "Retain")

    def _claims(self) -> str:
        return paths.namespaced("persistentvolumeclaims", self._namespace)

    def _add(self, name: str, host: Host, kind: str, size: str, reclaim: str) -> Object:
        rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host.name]}
        spec = {
            "capacity": {"storage": size},
            "storageClassName": kind,
            "persistentVolumeReclaimPolicy": reclaim,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
        }
        body = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}
        made = self._store.create(_VOLUMES, body)
        self.disks[made["metadata"]["uid"]] = ModelledDisk()
        return made

    # ---- For the scheduler

    def room_for(self, claim: Object, host: str) -> str | None:
        """Why this claim can't be used on the host; None if it can."""
        name = claim["spec"].get("volumeName")
        if name:
            volume = self._store.get(paths.volume(name))
            if volume is None:
                return f'persistentvolume "{name}" not found'
            return None if _host_of(volume) == host else "node(s) had volume node affinity conflict"
        kind = claim["spec"].get("storageClassName")
        if kind == DEFAULT_CLASS:
            return None
        if kind != STORAGE_CLASS:
            return f'storageclass.storage.k8s.io "{kind}" not found'
        free = next(self._free(claim, host), None)
        return None if free else "node(s) didn't find available persistent volumes to bind"

    def bind(self, claim: Object, host: str) -> None:
        """Bind the claim to a volume of this host."""
        if claim["spec"].get("volumeName"):
            return
        meta = claim["metadata"]
        size = claim["spec"]["resources"]["requests"]["storage"]
        if claim["spec"]["storageClassName"] == DEFAULT_CLASS:
            name = f"pvc-{meta['uid']}"
            self._add(name, self._hosts.by_name[host], DEFAULT_CLASS, size, "Delete")
        else:
            name = next(self._free(claim, host))
        path = paths.volume(name)
        reference = {"name": meta["name"], "uid": meta["uid"]}
        self._store.merge(path, {"spec": {"claimRef": reference}})
        self._store.set_status(path, {"phase": "Bound"})
        claimed = f"{self._claims()}/{meta['name']}"
        binding = {"volume.kubernetes.io/selected-node": host}
        self._store.merge(
            claimed, {"metadata": {"annotations": binding}, "spec": {"volumeName": name}}
        )
        volume = self._store.get(path)
        assert volume is not None
        self._store.set_status(claimed, {"phase": "Bound", "capacity": volume["spec"]["capacity"]})

    def _free(self, claim: Object, host: str) -> Iterator[str]:
        wanted = value_of(claim["spec"]["resources"]["requests"]["storage"])
        for each in self._store.of(_VOLUMES):
            spec = each["spec"]
            has = value_of(spec["capacity"]["storage"])
            fits = wanted is not None and has is not None and wanted <= has
            usable = not spec.get("claimRef") and "deletionTimestamp" not in each["metadata"]
            local = spec["storageClassName"] == STORAGE_CLASS and _host_of(each) == host
            if fits and usable and local:
                yield each["metadata"]["name"]

    # ---- The controllers of claims and volumes

    def step(self) -> None:
        used = {
            volume["persistentVolumeClaim"]["claimName"]
            for pod in self._store.of(paths.namespaced("pods", self._namespace))
            if pod["status"].get("phase") not in ("Succeeded", "Failed")
            for volume in pod["spec"].get("volumes") or []
            if "persistentVolumeClaim" in volume
        }
        claims = self._store.within(self._claims())
        for path, claim in claims.items():
            meta = claim["metadata"]
            name = claim["spec"].get("volumeName")
            if "deletionTimestamp" in meta and meta["name"] not in used:
                self._unprotect(path, claim)
            elif name and self._store.get(paths.volume(name)) is None:
                self._store.set_status(path, {**claim["status"], "phase": "Lost"})
        uids = {each["metadata"]["uid"] for each in self._store.of(self._claims())}
        for path, volume in self._store.within(_VOLUMES).items():
            self._release(path, volume, uids)

    def _release(self, path: str, volume: Object, claims: set[str]) -> None:
        reference = volume["spec"].get("claimRef")
        if reference is not None and reference["uid"] not in claims:
            self._store.set_status(path, {"phase": "Released"})
            if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                self._store.delete(path)
        bound = reference is not None and reference["uid"] in claims
        found = self._store.get(path)
        if found is not None and "deletionTimestamp" in found["metadata"] and not bound:
            self._unprotect(path, found)

    def _unprotect(self, path: str, found: Object) -> None:
        finalizers = found["metadata"].get("finalizers") or []
        kept = [each for each in finalizers if each not in _PROTECTIONS]
        if kept != finalizers:
            self._store.merge(path, {"metadata": {"finalizers": kept}})

    # ---- For pods and acts

    def claim(self, name: str) -> Object | None:
        return self._store.get(f"{self._claims()}/{name}")

    def disk_of(self, claim: Object | None) -> ModelledDisk | None:
        """The disk of a bound claim."""
        name = claim["spec"].get("volumeName") if claim is not None else None
        volume = self._store.get(paths.volume(name)) if name else None
        return None if volume is None else self.disks[volume["metadata"]["uid"]]

    def named(self, volume: str) -> ModelledDisk:
        found = self._store.get(paths.volume(volume))
        assert found is not None, volume
        return self.disks[found["metadata"]["uid"]]


def _host_of(volume: Object) -> str:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    host: str = terms[0]["matchExpressions"][0]["values"][0]
    return host
