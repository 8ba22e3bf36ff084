"""Hundreds of simulated nodes in one process: pods of a special image, each with its own admin API.

Owns the pods' statuses, their HTTP servers, and the mapping of claims to replicas. `simulated_quorum.py` owns the responses.
Everything else about these pods is real: StatefulSets create them, they get volumes, and are reached at their address.
"""

import asyncio
from collections import Counter
from uuid import uuid4

import httpx
from aiohttp import web

from quorum_node.api import AddVoterRequest, ApiModel, ErrorBody
from quorum_node.records.identity import uuid_text
from support.envtest.container import now_text
from support.envtest.kube_api import ApiError, Json, KubeApi
from support.envtest.simulated_quorum import Key, SimulatedQuorum

ADMIN_PORT = 8080
_INSTANCE = "app.kubernetes.io/instance"
_STORAGE_FAILED = 74
_DISK_MESSAGE = '{"reason": "StorageFailed", "message": "EIO"}'
_RETRY_S = 0.2


class SimulatedNodes:
    """All simulated nodes of a harness. `calls`: number of requests by method and path."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.quorums: dict[tuple[str, str], SimulatedQuorum] = {}
        self._pods: dict[str, SimulatedPod] = {}
        self._uuids: dict[str, str] = {}
        self._failed: set[str] = set()
        self._runner: web.AppRunner | None = None

    def pod(self, api: KubeApi, pod: Json, address: str) -> "SimulatedPod":
        """A new pod before its start."""
        return SimulatedPod(self, api, pod, address)

    async def listen(self, pod: "SimulatedPod") -> web.TCPSite:
        """Serve its admin API from now on."""
        if self._runner is None:
            app = web.Application()
            app.router.add_get("/v1/node", self._node)
            app.router.add_get("/v1/quorum", self._quorum)
            app.router.add_post("/v1/voters", self._add)
            app.router.add_delete("/v1/voters/{id}/{uuid}", self._remove)
            self._runner = web.AppRunner(app, access_log=None)
            await self._runner.setup()
        self._pods[pod.address] = pod
        site = web.TCPSite(self._runner, pod.address, ADMIN_PORT)
        await site.start()
        return site

    def forget(self, pod: "SimulatedPod") -> None:
        """Stop answering."""
        self._pods.pop(pod.address, None)

    def uuid_of(self, claim: str, founder: str | None) -> str:
        """Replica UUID of a disk, which is formatted if necessary; `claim` is its namespace and name."""
        return self._uuids.setdefault(claim, founder or uuid_text(uuid4()))

    def has_failed(self, claim: str) -> bool:
        """Whether its disk has failed."""
        return claim in self._failed

    def pod_of(self, key: Key) -> str:
        """Name of the pod of a replica."""
        return next(pod.name for pod in self._pods.values() if pod.key == key)

    def fail_disk(self, namespace: str, name: str) -> Key:
        """Make the disk of a pod fail; returns its replica."""
        pod = next(p for p in self._pods.values() if (p.namespace, p.name) == (namespace, name))
        self._failed.add(pod.claim)
        pod.die()
        return pod.key

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _asked(self, request: web.Request, what: str) -> "SimulatedPod":
        self.calls[f"{request.method} {what}"] += 1
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        return self._pods[address]

    async def _node(self, request: web.Request) -> web.Response:
        pod = self._asked(request, "/v1/node")
        return _json(pod.quorum.describe_node(pod.key))

    async def _quorum(self, request: web.Request) -> web.Response:
        pod = self._asked(request, "/v1/quorum")
        return _json(pod.quorum.describe(pod.key))

    async def _add(self, request: web.Request) -> web.Response:
        pod = self._asked(request, "/v1/voters")
        wanted = AddVoterRequest.model_validate_json(await request.read())
        return _outcome(pod.quorum.add(pod.key, wanted))

    async def _remove(self, request: web.Request) -> web.Response:
        pod = self._asked(request, "/v1/voters")
        leaving = Key(int(request.match_info["id"]), request.match_info["uuid"])
        position = int(request.query["expectedOffset"])
        return _outcome(pod.quorum.remove(pod.key, leaving, position))


class SimulatedPod:
    """One pod, with the interface that the kubelet needs."""

    def __init__(
        self, simulated_nodes: SimulatedNodes, api: KubeApi, pod: Json, address: str
    ) -> None:
        meta = pod["metadata"]
        self.pod, self.address = pod, address
        self.uid: str = meta["uid"]
        self.namespace: str = meta["namespace"]
        self.name: str = meta["name"]
        self.node: str = pod["spec"]["nodeName"]
        self.claim = f"{self.namespace}/data-{self.name}"
        words: list[str] = pod["spec"]["containers"][0]["args"]
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        founds = settings.get("formation.founder.id") == settings["node.id"]
        founder = settings["formation.founder.uuid"] if founds else None
        self.key = Key(int(settings["node.id"]), simulated_nodes.uuid_of(self.claim, founder))
        self._founds = founds
        place = self.namespace, meta["labels"][_INSTANCE]
        self.quorum = simulated_nodes.quorums.setdefault(
            place,
            SimulatedQuorum(
                settings["cluster.id"], int(settings.get("formation.initial.voters", "1"))
            ),
        )
        if founds:  # only the founder's arguments contain the number of voters
            self.quorum.initial_voters = int(settings["formation.initial.voters"])
        self._simulated_nodes, self._api = simulated_nodes, api
        self._began = now_text()
        self._dead = simulated_nodes.has_failed(self.claim)
        self._site: web.TCPSite | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run from now on, unless its disk has failed."""
        self._task = asyncio.create_task(self._run())

    def die(self) -> None:
        """Its disk has failed."""
        self._dead = True
        self.quorum.stop(self.key)
        asyncio.get_running_loop().create_task(self._end_of_process())

    async def stop(self, grace_s: float) -> None:
        """End it; its status is not reported any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.quorum.stop(self.key)
        await self._stop_answering()

    async def _run(self) -> None:
        if not self._dead:
            self._site = await self._simulated_nodes.listen(self)
            self.quorum.start(self.key, founds=self._founds)
        await self._report()

    async def _end_of_process(self) -> None:
        await self._stop_answering()
        await self._report()

    async def _stop_answering(self) -> None:
        site, self._site = self._site, None
        if site is not None:
            self._simulated_nodes.forget(self)
            await site.stop()

    async def _report(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"
        body = {"metadata": {"uid": self.uid}, "status": self._status()}
        while True:
            try:
                await self._api.merge(path, body)
                return
            except ApiError as error:
                if error.status in (404, 409):
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(_RETRY_S)

    def _status(self) -> Json:
        ready = "False" if self._dead else "True"
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        return {
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "hostIP": "127.0.0.1",
            "startTime": self._began,
            "containerStatuses": [self._container()],
            "conditions": [
                {
                    "type": kind,
                    "status": ready if "Ready" in kind else "True",
                    "lastTransitionTime": now_text(),
                }
                for kind in kinds
            ],
        }

    def _container(self) -> Json:
        image = self.pod["spec"]["containers"][0]["image"]
        found = {
            "name": "node",
            "image": image,
            "imageID": f"harness://{image}",
            "ready": not self._dead,
            "started": not self._dead,
            "restartCount": int(self._dead),
        }
        if not self._dead:
            return {**found, "state": {"running": {"startedAt": self._began}}, "lastState": {}}
        ended = {
            "exitCode": _STORAGE_FAILED,
            "reason": "Error",
            "message": _DISK_MESSAGE,
            "startedAt": self._began,
            "finishedAt": now_text(),
        }
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
        return {**found, "state": {"waiting": waiting}, "lastState": {"terminated": ended}}


def _json(document: ApiModel, status: int = 200) -> web.Response:
    text = document.model_dump_json(by_alias=True)
    return web.Response(text=text, content_type="application/json", status=status)


def _outcome(refused: ErrorBody | None) -> web.Response:
    return web.json_response({}) if refused is None else _json(refused, 409)
