"""One pod on one node: prepares its files, runs its containers, reports its status.

Owns the pod's life from binding to the end of its processes. The kubelet decides when it starts and
stops; the containers own the processes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx

from support.envtest import sandbox
from support.envtest.container import Container, Launch, now_text
from support.envtest.kube_api import ApiError, Json, KubeApi
from support.envtest.pod_files import MountFailed, ObjectMissing, PodFiles, expand
from support.envtest.sandbox import Mount
from support.warm_process import WarmStart

_RETRY_S = 0.2
_RENEWAL_S = 1.0
_LAST_WORDS_S = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """The program of an image: its command, and arguments for a pod's address.

    All pods share one loopback device, so `extra` makes a program listen on its pod's address only. It gets the
    arguments of the container.
    """

    entrypoint: Sequence[str]
    extra: Callable[[str, Sequence[str]], Sequence[str]] = lambda address, given: ()
    module: str | None = None
    """What the entrypoint runs, where it is to begin as a copy of a process that has it loaded."""


class PodRuntime:
    """`address` is the pod IP, `folder` the pod's private directory."""

    def __init__(
        self,
        api: KubeApi,
        pod: Json,
        address: str,
        folder: Path,
        hosts_file: Path,
        programs: Mapping[str, Program],
    ) -> None:
        self.pod = pod
        self.address = address
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self.node: str = pod["spec"]["nodeName"]
        self.containers: list[Container] = []
        self.waiting_for = ""
        self._api = api
        self._folder = folder
        self._hosts_file = hosts_file
        self._programs = programs
        self._files = PodFiles(api, pod, folder, address, self.node)
        self._dirty = asyncio.Event()
        self._started_at = now_text()
        self._silent = False
        self._conditions: dict[str, Json] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._dirty.set()
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._report())]

    async def stop(self, grace_s: float) -> None:
        """End every process; the pod's status is not reported any more."""
        run, report = self._tasks
        if not self.containers:
            run.cancel()
        await asyncio.gather(*(container.stop(grace_s) for container in self.containers))
        await asyncio.wait([run], timeout=_LAST_WORDS_S)
        self._silent = True
        for task in (run, report):
            task.cancel()
        await asyncio.gather(run, report, return_exceptions=True)

    async def _run(self) -> None:
        variables = await self._prepared()
        spec = self.pod["spec"]
        if spec.get("initContainers"):
            raise NotImplementedError("the harness runs no init containers")
        self.containers = [
            self._container(container, variables[container["name"]])
            for container in spec["containers"]
        ]
        renewing = asyncio.create_task(self._renew_files())
        try:
            await asyncio.gather(*(container.run() for container in self.containers))
        finally:
            renewing.cancel()

    async def _renew_files(self) -> None:
        """Update the files of Secrets as long as the pod runs; a kubelet needs up to a minute for it."""
        while self._files.has_certificates:
            await asyncio.sleep(_RENEWAL_S)
            with contextlib.suppress(ObjectMissing, ApiError, httpx.HTTPError):
                await self._files.renew()

    async def _prepared(self) -> dict[str, dict[str, str]]:
        """Wait until the volumes and variables of every container are available."""
        while True:
            try:
                await self._files.prepare()
                found = {}
                for container in self.pod["spec"]["containers"]:
                    found[container["name"]] = await self._files.variables(container)
                self.waiting_for = ""
                return found
            except (ObjectMissing, ApiError, httpx.HTTPError) as missing:
                if self.waiting_for != str(missing):
                    self.waiting_for = str(missing)
                    self._dirty.set()
                    if isinstance(missing, MountFailed):
                        with contextlib.suppress(ApiError, httpx.HTTPError):
                            await self._report_mount_failure(str(missing))
                await asyncio.sleep(_RETRY_S)

    def _container(self, spec: Json, variables: dict[str, str]) -> Container:
        folder = self._folder / spec["name"]
        folder.mkdir()

        def prepare(root: Path) -> Launch | WarmStart:
            program = self._programs[spec["image"]]
            command = list(spec.get("command") or program.entrypoint)
            given = spec.get("args", [])
            words = [*given, *program.extra(self.address, given)]
            words = [expand(word, variables) for word in words]
            message = spec.get("terminationMessagePath", "/dev/termination-log")
            mounts = [
                *self._files.mounts(spec),
                Mount(folder / "termination-message", PurePosixPath(message)),
                Mount(self._hosts_file, PurePosixPath("/etc/hosts"), read_only=True),
            ]
            environment = sandbox.environment({**variables, "HOSTNAME": self.name})
            if program.module is not None and command == program.entrypoint:
                view = sandbox.view(root, mounts)
                log = folder / "log"
                return WarmStart(program.module, words, log, environment, view=view)
            command = [expand(word, variables) for word in command]
            return Launch(sandbox.command(root, mounts, [*command, *words]), environment)

        return Container(spec, self.address, folder, prepare, self._dirty.set)

    async def _report(self) -> None:
        path = f"{_path(self.namespace, self.name)}/status"
        while not self._silent:
            await self._dirty.wait()
            self._dirty.clear()
            # The UID makes the patch fail when the name is already another pod's.
            body = {"metadata": {"uid": self.uid}, "status": self._status()}
            try:
                await self._api.merge(path, body)
            except (ApiError, httpx.HTTPError) as error:
                refused = isinstance(error, ApiError) and error.status in (404, 409)
                if refused and await self._is_gone():
                    return
                # The API server restarts or is busy, or others change the pod again and again.
                self._dirty.set()
                await asyncio.sleep(_RETRY_S)

    async def _is_gone(self) -> bool:
        """Whether the API server has no such pod, or another one of this name."""
        try:
            found = await self._api.get(_path(self.namespace, self.name))
        except (ApiError, httpx.HTTPError):
            return False
        return found is None or found["metadata"]["uid"] != self.uid

    def _status(self) -> Json:
        ready = bool(self.containers) and all(each.ready for each in self.containers)
        statuses = [each.status() for each in self.containers] or [
            self._not_created(spec) for spec in self.pod["spec"]["containers"]
        ]
        ran = any("waiting" not in s["state"] or s["lastState"] for s in statuses)
        return {
            "phase": "Running" if ran else "Pending",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "hostIP": "127.0.0.1",
            "startTime": self._started_at,
            "containerStatuses": statuses,
            "conditions": [
                self._condition("PodScheduled", True),
                self._condition("Initialized", True),
                self._condition("ContainersReady", ready),
                self._condition("Ready", ready),
            ],
        }

    def _condition(self, kind: str, holds: bool) -> Json:
        """A condition with the time of its last change, which is kept while the status is unchanged."""
        made = _condition(kind, holds)
        known = self._conditions.get(kind)
        if known is None or known["status"] != made["status"]:
            self._conditions[kind] = known = made
        return known

    async def _report_mount_failure(self, message: str) -> None:
        """The event that a kubelet posts, once per pod and message."""
        now = now_text()
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{self.name}-"},
            "involvedObject": involved,
            "reason": "FailedMount",
            "message": message,
            "type": "Warning",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "harness"},
        }
        await self._api.create(f"/api/v1/namespaces/{self.namespace}/events", event)

    def _not_created(self, spec: Json) -> Json:
        waiting = {"reason": "ContainerCreating", "message": self.waiting_for}
        return {
            "name": spec["name"],
            "image": spec["image"],
            "imageID": "",
            "state": {"waiting": waiting},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
        }


def _path(namespace: str, name: str) -> str:
    """Of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _condition(kind: str, holds: bool) -> Json:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "lastTransitionTime": now_text(),
    }


def unschedulable(message: str) -> Json:
    """The status of a pod that no node can take."""
    condition = _condition("PodScheduled", False)
    condition |= {"reason": "Unschedulable", "message": message}
    return {"status": {"phase": "Pending", "conditions": [condition]}}
