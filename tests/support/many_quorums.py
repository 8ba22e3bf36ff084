"""Many quorums on the real reconciles, with an API server, controllers and nodes that are never busy.

Owns a model in which every call takes the same time, however many there are at once: what takes longer when more happens
at once has waited within the operator. It runs in virtual time, so that the machine has no part in it either.
The clients of both sides are the operator's own, down to their HTTP; nodes are those of `simulated_quorum.py`.
"""

import asyncio
import copy
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from kubernetes.client import Configuration

from quorum_node.api import AddVoterRequest, ApiModel, ErrorBody
from quorum_node.records.identity import uuid_text
from quorum_operator.crd import KIND, PLURAL, MetadataQuorumSpec
from quorum_operator.desired import base_objects, identity, names, stateful_set, token_secret
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import JSON_PATCH, MERGE_PATCH, KubeApi
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.rate_limit import USUAL_LIMITS, RateLimiter
from quorum_operator.metrics import Metrics
from quorum_operator.planner.observed import Identity
from quorum_operator.quorum_client import QuorumClient
from quorum_operator.reconcile import Reconciler
from quorum_operator.workers import Workers
from support.envtest.simulated_quorum import Key, SimulatedQuorum
from support.in_memory_kube_api import InMemoryKubeApi

Object = dict[str, Any]
SPACE = "space"
API_CALL_S = 0.02
NODE_CALL_S = 0.01
WATCH_S = 0.02
"""In seconds: delay until the operator receives a change."""
POD_S = 0.5
"""In seconds: from a StatefulSet to the running process of its pod."""
LONG_AGO_S = 99_999
_SETS, _PODS = "statefulsets", "pods"


class Objects(InMemoryKubeApi):
    """Objects with notifications of changes."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._told: Callable[[str], None] = lambda path: None
        super().__init__({})
        self.objects.clear()
        self.hands_out = True
        self._told = changed

    def put(self, collection: str, body: Object) -> None:
        """Create or change an object, as another client than the operator."""
        self._keep(f"{collection}/{body['metadata']['name']}", body)

    def _meta(self, name: str) -> Object:
        return {**super()._meta(name), "creationTimestamp": _now_text()}

    def _keep(self, path: str, body: Object) -> Object:
        kept = super()._keep(path, body)
        self._told(path)
        return kept

    async def delete(self, path: str, **conditions: object) -> None:
        await super().delete(path)
        self._told(path)


class ManyQuorums:
    """`names` are quorums of `members` each, whose operator has looked at all of them when `start` ends."""

    def __init__(self, quorums: int, members: int) -> None:
        self.names = [f"q{number}" for number in range(quorums)]
        self.metrics = Metrics()
        self.api_calls: Counter[str] = Counter()
        """By method and the kind of what is asked for."""
        self._members = members
        self._uuids = (uuid_text(UUID(int=(7 << 96) + number)) for number in count(1))
        self._quorums: dict[str, SimulatedQuorum] = {}
        self._keys: dict[str, Key] = {}
        """By address."""
        self._workers: Workers | None = None
        self._ready = False
        self.objects = Objects(self._changed)
        self.spec = {
            "replicas": members,
            "storage": {"size": "1Gi", "storageClassName": "local"},
        }
        self.objects.put("/apis/storage.k8s.io/v1/storageclasses", _bare("local"))

    async def start(self) -> None:
        """Start the parts of the operator as `Application` does."""
        for number, name in enumerate(self.names):
            self._make(number, name)
        loop = asyncio.get_running_loop()
        configuration = Configuration(host="http://api")
        api = KubeApi(configuration)
        api._http = httpx.AsyncClient(
            base_url="http://api", transport=httpx.MockTransport(self._serve_api)
        )
        api._limiter = RateLimiter(USUAL_LIMITS, loop.time)
        nodes = httpx.AsyncClient(transport=httpx.MockTransport(self._serve_node))
        reconciler = Reconciler(api, QuorumClient(nodes), self.metrics, self.objects, now_s)
        self._workers = Workers(KIND, reconciler, self.metrics, 10.0)
        self._ready = True
        for name in self.names:
            self._workers.ensure(SPACE, name)
        await asyncio.sleep(60.0)

    async def stop(self) -> None:
        assert self._workers is not None
        self._ready = False
        await self._workers.stop()

    async def repair(self, names_of: list[str]) -> list[float]:
        """A disk of each fails at the same time; returns the seconds until each has its voters again, ascending."""
        now = asyncio.get_running_loop().time
        began, took = now(), dict[str, float]()
        lost = {name: self._fail(name) for name in names_of}
        while len(took) < len(lost):
            await asyncio.sleep(0.01)
            for name in lost.keys() - took.keys():
                quorum = self._quorums[name]
                if quorum.is_whole() and lost[name] not in quorum.voters:
                    took[name] = now() - began
        return sorted(took.values())

    def _fail(self, name: str) -> Key:
        quorum = self._quorums[name]
        lost = next(key for key in quorum.voters if key != quorum.leader)
        quorum.stop(lost)
        pod = self.objects.objects[paths.namespaced(_PODS, SPACE, f"{name}-{lost.id}-1-0")]
        ended = {"exitCode": 74, "message": '{"reason": "StorageFailed", "message": "EIO"}'}
        status = {
            "phase": "Running",
            "podIP": pod["status"]["podIP"],
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": ended},
                }
            ],
        }
        self._keys.pop(pod["status"]["podIP"])
        self.objects.put(paths.namespaced(_PODS, SPACE), {**pod, "status": status})
        return lost

    # What was there.

    def _make(self, number: int, name: str) -> None:
        owner = Owner(name, SPACE, f"uid-of-{name}")
        spec = MetadataQuorumSpec.model_validate(self.spec)
        keys = [Key(each, next(self._uuids)) for each in range(1, self._members + 1)]
        resource = {"metadata": {"name": name, "uid": owner.uid}, "spec": self.spec}
        self.objects.put(paths.namespaced(PLURAL, SPACE), resource)
        born = identity.build(
            owner,
            index=1,
            cluster_id=f"c-{name}",
            founder_id=1,
            founder_uuid=keys[0].uuid,
            initial_voters=self._members,
        )
        born["metadata"]["annotations"] = {names.ANNOTATION_FORMED: "true"}
        self.objects.put(paths.namespaced("configmaps", SPACE), born)
        for each in base_objects.build_all(owner, spec):
            self.objects.put(base_objects.path_of(each).rpartition("/")[0], each)
        self.objects.put(paths.namespaced("secrets", SPACE), token_secret.build(owner, "t"))
        self._quorums[name] = SimulatedQuorum(f"c-{name}", self._members, list(keys), formed=True)
        founding = Identity(1, f"c-{name}", 1, keys[0].uuid, self._members, formed=True)
        for key in keys:
            member = stateful_set.Member(key.id, 1, founding, founder=key.id == 1)
            owned = stateful_set.build(owner, spec, member)
            owned["metadata"]["annotations"][names.ANNOTATION_UUID] = key.uuid
            self.objects.put(paths.namespaced(_SETS, SPACE), owned)
            self._run_pod(owned, key, number)

    def _run_pod(self, owned: Object, key: Key, number: int) -> None:
        """A volume, a claim, and a pod whose process runs."""
        name, incarnation = (
            owned["metadata"]["name"],
            int(owned["metadata"]["name"].rpartition("-")[2]),
        )
        address = f"10.{incarnation}.{number}.{key.id}"
        claim = copy.deepcopy(owned["spec"]["volumeClaimTemplates"][0])
        claim["metadata"]["name"] = f"data-{name}-0"
        claim["spec"]["volumeName"], claim["status"] = f"pv-{name}", {"phase": "Bound"}
        self.objects.put(paths.namespaced("persistentvolumeclaims", SPACE), claim)
        volume = {**_bare(f"pv-{name}"), "spec": {}, "status": {"phase": "Bound"}}
        self.objects.put("/api/v1/persistentvolumes", volume)
        pod = copy.deepcopy(owned["spec"]["template"])
        controller = {"kind": "StatefulSet", "name": name, "uid": "x", "controller": True}
        pod["metadata"] |= {"name": f"{name}-0", "ownerReferences": [controller]}
        pod["status"] = {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"state": {"running": {}}}],
        }
        self._keys[address] = key
        self.objects.put(paths.namespaced(_PODS, SPACE), pod)
        self._quorums[self.names[number]].start(key, founds=False)

    # What happens by itself.

    def _changed(self, path: str) -> None:
        if not self._ready:
            return
        loop = asyncio.get_running_loop()
        name = path.rpartition("/")[2].removeprefix("data-").partition("-")[0]
        if self._workers is not None and f"/{PLURAL}/" not in path:
            loop.call_later(WATCH_S, self._workers.wake, SPACE, name)
        if f"/{_SETS}/" in path:
            loop.call_later(POD_S, self._follow, path)

    def _follow(self, path: str) -> None:
        """The actions of StatefulSet controller, scheduler and kubelet."""
        owned = self.objects.objects.get(path)
        name = path.rpartition("/")[2]
        pod = paths.namespaced(_PODS, SPACE, f"{name}-0")
        wanted = owned is not None and owned["spec"].get("replicas", 1) > 0
        if owned is not None and wanted and pod not in self.objects.objects:
            quorum, node_id, _ = name.split("-")
            key = Key(int(node_id), next(self._uuids))
            self._run_pod(owned, key, self.names.index(quorum))
        elif not wanted and self.objects.objects.pop(pod, None) is not None:
            self._changed(pod)

    # What answers.

    async def _serve_api(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(API_CALL_S)
        self.api_calls[f"{request.method} {_kind(request.url.path)}"] += 1
        body = json.loads(request.content) if request.content else None
        try:
            return httpx.Response(200, json=await self._called(request, body))
        except ApiError as error:
            reported = {"reason": error.reason, "message": error.message}
            return httpx.Response(error.status, json=reported)

    async def _called(self, request: httpx.Request, body: Any) -> Object:
        path, query, kept = request.url.path, request.url.params, self.objects
        match request.method:
            case "GET" if path.rpartition("/")[2] in _COLLECTIONS:
                found = await kept.find(
                    path, labels=query.get("labelSelector"), fields=query.get("fieldSelector")
                )
                return {"items": found, "metadata": {"resourceVersion": "1"}}
            case "GET":
                one = await kept.get(path)
                if one is None:
                    raise ApiError(404, "NotFound", path)
                return one
            case "POST":
                return await kept.create(path, body)
            case "DELETE":
                await kept.delete(path)
                return {}
        kind = request.headers["Content-Type"]
        if kind == MERGE_PATCH:
            return await kept.merge(path, body)
        return await (kept.patch if kind == JSON_PATCH else kept.apply)(path, body)

    async def _serve_node(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(NODE_CALL_S)
        key = self._keys.get(request.url.host)
        if key is None:
            raise httpx.ConnectError("nobody listens", request=request)
        quorum = self._quorums[self.names[int(request.url.host.split(".")[2])]]
        match request.method, request.url.path.split("/")[2:]:
            case "GET", ["node"]:
                return _told(quorum.describe_node(key))
            case "GET", ["quorum"]:
                return _told(quorum.describe(key))
            case "POST", ["voters"]:
                wanted = AddVoterRequest.model_validate_json(request.content)
                return _outcome(quorum.add(key, wanted))
            case "DELETE", ["voters", node_id, uuid]:
                offset = int(request.url.params["expectedOffset"])
                return _outcome(quorum.remove(key, Key(int(node_id), uuid), offset))
        return httpx.Response(404)


_COLLECTIONS = {
    *("configmaps", "events", "nodes", "persistentvolumeclaims", "persistentvolumes"),
    *("pods", "statefulsets"),
}


def _kind(path: str) -> str:
    """Plural of what a path is about, with a subresource, and whether it is about one of them."""
    parts = path.partition(f"/{SPACE}/")[2].split("/") if SPACE in path else path.split("/")[3:]
    return "/".join(part if at != 1 else "NAME" for at, part in enumerate(parts))


def now_s() -> float:
    """The API server's clock: of the loop's time; before it runs it is long ago."""
    try:
        return _BEGAN_AT + asyncio.get_running_loop().time()
    except RuntimeError:
        return _BEGAN_AT - LONG_AGO_S


def _now_text() -> str:
    return datetime.fromtimestamp(now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_BEGAN_AT = time.time()


def _bare(name: str) -> Object:
    return {"metadata": {"name": name, "labels": {}}}


def _told(document: ApiModel) -> httpx.Response:
    return httpx.Response(200, content=document.model_dump_json(by_alias=True))


def _outcome(refused: ErrorBody | None) -> httpx.Response:
    if refused is None:
        return httpx.Response(200, content="{}")
    return httpx.Response(409, content=refused.model_dump_json(by_alias=True))
