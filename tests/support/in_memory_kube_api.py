"""A Kubernetes API that keeps its objects in a dictionary, for tests of the real reconcile in one process.

`InMemoryKubeApi` has the calls of `KubeApi`; it refuses calls for which `refuse` raises. No controller creates the pods of StatefulSets:
`running_quorum` creates what the operator and the controllers would have created long ago. The operator's calls are tested with a real
API server in `tests/envtest`.
"""

import asyncio
import marshal
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, identity, names, stateful_set, token_secret
from quorum_operator.kube import paths
from quorum_operator.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from quorum_operator.metrics import Metrics
from quorum_operator.planner.observed import Identity, Key, NodeReport, ReplicaView
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.quorum_client import Described
from quorum_operator.reconcile import Reconciler
from support.observed_quorum import view_of

Object = dict[str, Any]
SPACE, NAME = "space", "demo"
_WITHOUT_SHARED_PARTS = 2
"""The format of `marshal` in which an object that is found twice becomes two."""
OWNER = names.Owner(NAME, SPACE, "uid-of-demo")
IDENTITY = Identity(1, "c1", 1, "U1", 3, formed=True, resource_version="1")


def time_text(seconds_ago: float) -> str:
    at = datetime.now(UTC).timestamp() - seconds_ago
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_stored(given: Any) -> Any:
    """A copy of a JSON value of a caller, of the types that JSON is read to."""
    if isinstance(given, dict):
        return {str(key): as_stored(each) for key, each in given.items()}
    if isinstance(given, list | tuple):
        return [as_stored(each) for each in given]
    return str(given) if isinstance(given, str) else given


def copied(stored: Any) -> Any:
    """A copy of a stored value. `copy.deepcopy` takes twenty times as long, and this API mostly copies."""
    return marshal.loads(marshal.dumps(stored, _WITHOUT_SHARED_PARTS))


class InMemoryKubeApi:
    """Objects by path. `writes`: verb and path of all changes except events and the status."""

    def __init__(self, spec: Object) -> None:
        self.objects: dict[str, Object] = {}
        self.hands_out = False
        """Readers get the kept objects themselves, as those of the operator's watches are read."""
        self.refuse: Callable[[str, str], None] = lambda verb, path: None
        self.calls: Counter[str] = Counter()
        self.writes: list[tuple[str, str]] = []
        self.events: list[Object] = []
        self.resource_path = paths.namespaced("metadataquorums", SPACE, NAME)
        self._serial = 1
        self.objects[self.resource_path] = {
            "metadata": {**self._meta(NAME), "uid": OWNER.uid},
            "spec": spec,
        }

    @property
    def resource(self) -> Object:
        return self.objects[self.resource_path]

    @property
    def status(self) -> Object:
        found: Object = self.resource.get("status") or {}
        return found

    def condition(self, kind: str) -> Object:
        """A condition of the status; empty without one."""
        found = self.status.get("conditions", [])
        return next((each for each in found if each["type"] == kind), {})

    def change_spec(self, **changes: object) -> None:
        """Change the spec as `kubectl apply` does."""
        self.resource["spec"].update(changes)
        self.resource["metadata"]["generation"] += 1
        self.touch(self.resource)

    def created(self, plural: str) -> list[str]:
        """Names of the created objects of a kind."""
        return [
            path.rpartition("/")[2]
            for verb, path in self.writes
            if verb == "create" and f"/{plural}/" in path
        ]

    async def get(self, path: str) -> Object | None:
        await self._called("get", path)
        found = self.objects.get(path)
        return found if self.hands_out else copied(found)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        await self._called("list", path)
        found = [each for key, each in self.objects.items() if key.rpartition("/")[0] == path]
        if labels is not None:
            wanted = dict(each.split("=") for each in labels.split(","))
            found = [each for each in found if wanted.items() <= each["metadata"]["labels"].items()]
        if fields is not None and fields.startswith("metadata.name="):
            found = [each for each in found if each["metadata"]["name"] == fields.partition("=")[2]]
        elif fields is not None:
            found = [each for each in found if fields == _of_object(each)]
        return found if self.hands_out else copied(found)

    async def names(self, path: str) -> frozenset[str]:
        await self._called("list", path)
        places = (each.rpartition("/") for each in self.objects)
        return frozenset(name for place, _, name in places if place == path)

    async def create(self, path: str, body: Object) -> Object:
        if path.endswith("/events"):
            await self._called("create", path)
            self.events.append(body)
            return body
        place = f"{path}/{body['metadata']['name']}"
        await self._changing("create", place)
        if place in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{place} already exists")
        return self._keep(place, body)

    async def apply(self, path: str, body: Object) -> Object:
        """Other owners are kept, as server-side apply merges them by their UID."""
        await self._changing("apply", path)
        found = self.objects.get(path, {"metadata": {}})
        mine = body["metadata"].get("ownerReferences") or []
        uids = {each["uid"] for each in mine}
        there = found["metadata"].get("ownerReferences") or []
        owners = [each for each in there if each["uid"] not in uids] + mine
        meta = {**body["metadata"], "ownerReferences": owners}
        return self._keep(path, _merged(found, {**body, "metadata": meta}))

    async def merge(self, path: str, body: Object) -> Object:
        if path.endswith("/status"):
            await self._called("merge", path)
            self.refuse("merge", path)
            place = path.removesuffix("/status")
            self._check_version(place, body)
            self.objects[place] = _merged(self.objects[place], {"status": body["status"]})
            self.touch(self.objects[place])
            written: Object = copied(self.objects[place])
            return written
        await self._changing("merge", path)
        self._check_version(path, body)
        reported = {
            key: value for key, value in body["metadata"].items() if key != "resourceVersion"
        }
        return self._keep(path, _merged(self.objects[path], {**body, "metadata": reported}))

    def _check_version(self, path: str, body: Object) -> None:
        """Raises ApiError if the object is gone, or is not the one that `body` was made from."""
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        version = body["metadata"].get("resourceVersion")
        if version not in (None, self.objects[path]["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", f"{path} has been modified")

    async def patch(self, path: str, operations: list[Object]) -> Object:
        await self._changing("patch", path)
        found = copied(self.objects[path])
        for each in operations:
            if each["op"] == "test":
                continue
            *parents, last = (
                part.replace("~1", "/") for part in each["path"].strip("/").split("/")
            )
            at = found
            for part in parents:
                at = at[part]
            at[last] = as_stored(each.get("value"))
        return self._keep(path, found)

    async def delete(self, path: str, **conditions: object) -> None:
        await self._changing("delete", path)
        if self.objects.pop(path, None) is None:
            raise NotFound(404, "NotFound", path)

    async def _called(self, verb: str, path: str) -> None:
        self.calls[verb] += 1
        await asyncio.sleep(0)
        if verb in {"get", "list"}:
            self.refuse(verb, path)

    async def _changing(self, verb: str, path: str) -> None:
        await self._called(verb, path)
        self.refuse(verb, path)
        self.writes.append((verb, path))

    def _meta(self, name: str) -> Object:
        self._serial += 1
        return {
            "name": name,
            "namespace": SPACE,
            "uid": f"uid-{self._serial}",
            "generation": 1,
            "resourceVersion": str(self._serial),
            "creationTimestamp": time_text(0),
        }

    def _keep(self, path: str, body: Object) -> Object:
        kept = as_stored(body)
        owners = kept["metadata"].get("ownerReferences") or []
        if sum(1 for each in owners if each.get("controller")) > 1:
            raise Invalid(422, "Invalid", "Only one reference can have Controller set to true")
        plain = kept.pop("stringData", {})
        if plain:
            encoded = {key: b64encode(each.encode()).decode() for key, each in plain.items()}
            kept["data"] = (kept.get("data") or {}) | encoded
        kept["metadata"] = {**self._meta(path.rpartition("/")[2]), **kept["metadata"]}
        self.touch(kept)
        self.objects[path] = kept
        answered: Object = copied(kept)
        return answered

    def touch(self, found: Object) -> None:
        self._serial += 1
        found["metadata"]["resourceVersion"] = str(self._serial)


def _of_object(event: Object) -> str:
    """The field selector that finds an event."""
    return f"involvedObject.uid={event.get('involvedObject', {}).get('uid')}"


def _merged(old: Object, new: Object) -> Object:
    result: Object = copied(old)
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merged(result[key], value)
        else:
            result[key] = as_stored(value)
    return result


class HealthyNodes:
    """Calls of `QuorumClient`: every pod serves, the first one leads; the `silent` ones have not fetched for long, and do not lead."""

    def __init__(self, members: int, silent: tuple[int, ...] = ()) -> None:
        self.members, self.silent = members, silent
        self.refusing: set[str] = set()
        """Addresses of nodes that do not accept the token."""
        self.asked_with: list[str] = []

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        if node_id in self.silent:
            return None
        role = "leader" if node_id == self._leader else "follower"
        return NodeReport(f"U{node_id}", "c1", role, True, True, "ok")

    @property
    def _leader(self) -> int:
        return next((n for n in range(1, self.members + 1) if n not in self.silent), 1)

    async def takes_token(self, ip: str, token: str) -> bool | None:
        self.asked_with.append(token)
        return ip not in self.refusing

    async def describe(self, ips: list[str]) -> Described:
        voters = tuple(
            ReplicaView(Key(each, f"U{each}"), each not in self.silent, each not in self.silent)
            for each in range(1, self.members + 1)
        )
        if not ips:
            return Described(None, None)
        view = view_of(
            voters, leader=Key(self._leader, f"U{self._leader}"), voters_offset=17, initial_voters=3
        )
        return Described(view, None)


def running_quorum(
    members: int = 3, *, tls: bool = False, tls_spec: Object | None = None, **spec: object
) -> InMemoryKubeApi:
    """All objects of a quorum that has been running for long, with local volumes.

    `tls`: it was formed with certificates; there are none yet. `tls_spec`: its spec of certificates.
    """
    document = {
        "replicas": members,
        "storage": {"size": "1Gi", "storageClassName": "local"},
        **({} if tls_spec is None else {"tls": tls_spec}),
        **spec,
    }
    model = MetadataQuorumSpec.model_validate(document)
    stage = TlsStage.CLOSED if tls else TlsStage.PLAIN
    api = InMemoryKubeApi(document)
    born = identity.build(
        OWNER, index=1, cluster_id="c1", founder_id=1, founder_uuid="U1", initial_voters=3, tls=tls
    )
    born["metadata"]["annotations"] = {names.ANNOTATION_FORMED: "true"}
    _put(api, paths.namespaced("configmaps", SPACE), born)
    for each in base_objects.build_all(OWNER, model, stage):
        _put(api, base_objects.path_of(each).rpartition("/")[0], each)
    _put(api, paths.namespaced("secrets", SPACE), token_secret.build(OWNER, "old"))
    _put(
        api,
        paths.storage_class("local").rpartition("/")[0],
        {"metadata": {"name": "local", "labels": {}}},
    )
    for node_id in range(1, members + 1):
        _add_member(api, model, node_id, tls=tls)
    api.writes.clear()
    return api


def set_path(node_id: int, number: int = 1) -> str:
    return paths.namespaced("statefulsets", SPACE, OWNER.member(node_id, number))


def pod_path(node_id: int, number: int = 1) -> str:
    return paths.namespaced("pods", SPACE, f"{OWNER.member(node_id, number)}-0")


def _put(api: InMemoryKubeApi, collection: str, body: Object) -> None:
    api._keep(f"{collection}/{body['metadata']['name']}", body)


def start_pod(api: InMemoryKubeApi, owned: Object, node_id: int) -> None:
    """Create a pod as the StatefulSet controller and the kubelet do: from the present template."""
    pod = copied(owned["spec"]["template"])
    name = f"{owned['metadata']['name']}-0"
    pod["metadata"].update(name=name, creationTimestamp=time_text(99_999))
    pod["spec"] |= {"nodeName": f"h{node_id}", "subdomain": owned["spec"]["serviceName"]}
    pod["status"] = {
        "phase": "Running",
        "podIP": f"10.0.0.{node_id}",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"state": {"running": {}}}],
    }
    _put(api, paths.namespaced("pods", SPACE), pod)


def _add_member(api: InMemoryKubeApi, spec: MetadataQuorumSpec, node_id: int, *, tls: bool) -> None:
    member = stateful_set.Member(node_id, 1, replace(IDENTITY, tls=tls), founder=node_id == 1)
    owned = stateful_set.build(OWNER, spec, member)
    name = owned["metadata"]["name"]
    owned["metadata"]["creationTimestamp"] = time_text(99_999)
    owned["metadata"]["annotations"][names.ANNOTATION_UUID] = f"U{node_id}"
    _put(api, paths.namespaced("statefulsets", SPACE), owned)
    start_pod(api, owned, node_id)
    claim = {
        "metadata": {
            "name": f"data-{name}-0",
            "labels": stateful_set.claim_labels(OWNER, node_id, 1, 1),
        },
        "spec": {"volumeName": f"pv{node_id}"},
        "status": {"phase": "Bound"},
    }
    _put(api, paths.namespaced("persistentvolumeclaims", SPACE), claim)
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"h{node_id}"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    volume = {
        "metadata": {"name": f"pv{node_id}", "labels": {}},
        "spec": {"nodeAffinity": affinity},
        "status": {"phase": "Bound"},
    }
    _put(api, paths.volume("x").rpartition("/")[0], volume)
    host = {
        "metadata": {"name": f"h{node_id}", "labels": {"kubernetes.io/hostname": f"h{node_id}"}}
    }
    _put(api, paths.NODES, host)


def reconciler(api: InMemoryKubeApi, nodes: Any, *, writes_alone: bool = False) -> Reconciler:
    """The operator's own reconciler, on these objects. `writes_alone`: as the holder of a lease."""
    unchecked: Any = api
    return Reconciler(unchecked, nodes, Metrics(), writes_alone=writes_alone)


def repeat(operator: Reconciler, times: int) -> None:
    """Reconcile the quorum so many times. Raises what a reconcile raises."""

    async def run() -> None:
        for _ in range(times):
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())


def reconcile(
    api: InMemoryKubeApi, nodes: Any = None, *, silent: tuple[int, ...] = (), times: int = 3
) -> Reconciler:
    """The same by a new operator, for three nodes unless others are given; returns the operator."""
    made = reconciler(api, HealthyNodes(3, silent) if nodes is None else nodes)
    repeat(made, times)
    return made
