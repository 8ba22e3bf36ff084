"""A kubelet for tests: runs the pods of a real API server as processes on this machine.

Owns the loop that compares pods with running processes, the faults that a test injects, and the heartbeat of the Node
objects. `scheduler` chooses the node of a pod; `pod_runtime` runs it.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx

from support.envtest import hosts, nodes
from support.envtest.addresses import LoopbackAddresses
from support.envtest.hosts import HostsFile
from support.envtest.kube_api import ApiError, Json, KubeApi
from support.envtest.mirror import Mirror
from support.envtest.pod_runtime import PodRuntime, Program
from support.envtest.scheduler import Scheduler, path_of
from support.envtest.simulated_nodes import SimulatedNodes, SimulatedPod
from support.envtest.volumes import Volumes

_RESYNC_S = 1.0
_HEARTBEAT_S = 8.0


class Kubelet:
    """One kubelet for all workers. `programs`: the program of each image; pods of a `SimulatedNodes` have no processes."""

    def __init__(
        self,
        api: KubeApi,
        folder: Path,
        workers: list[str],
        programs: Mapping[str, Program | SimulatedNodes],
    ) -> None:
        self.volumes = Volumes(folder / "volumes")
        self.runtimes: dict[str, PodRuntime | SimulatedPod] = {}
        self.failures: list[BaseException] = []
        self._api = api
        self._folder = folder
        self._workers = set(workers)
        self._programs = programs
        self._addresses = LoopbackAddresses()
        self._hosts: dict[str, HostsFile] = {}
        self._wake = asyncio.Event()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._pods = self._mirror("/api/v1/pods")
        self._claims = self._mirror("/api/v1/persistentvolumeclaims")
        self._pvs = self._mirror("/api/v1/persistentvolumes")
        self._nodes = self._mirror("/api/v1/nodes")
        self._services = self._mirror("/api/v1/services")
        self._scheduler = Scheduler(
            api,
            self.volumes,
            pods=self._pods,
            claims=self._claims,
            pvs=self._pvs,
            nodes=self._nodes,
        )

    def _mirror(self, path: str) -> Mirror:
        return Mirror(self._api, path, lambda: self._wake.set())

    async def start(self) -> None:
        for name in sorted(self._workers):
            await self._api.create("/api/v1/nodes", nodes.node(name))
            await self._heartbeat(name)
        mirrors = (self._pods, self._claims, self._pvs, self._nodes, self._services)
        self._tasks = [asyncio.create_task(mirror.run()) for mirror in mirrors]
        await asyncio.gather(*(mirror.synced.wait() for mirror in mirrors))
        self._tasks += [asyncio.create_task(self._loop()), asyncio.create_task(self._beat())]

    async def close(self) -> None:
        for task in (*self._tasks, *self._ending.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._ending.values(), return_exceptions=True)
        await asyncio.gather(*(runtime.stop(0) for runtime in self.runtimes.values()))
        for program in self._programs.values():
            if isinstance(program, SimulatedNodes):
                await program.close()
        for file in self._hosts.values():
            file.close()
        self._addresses.close()
        self.volumes.remove_all()

    # Faults and queries for tests.

    def runtime(self, namespace: str, pod: str) -> PodRuntime:
        """The running pod of that name. Raises LookupError."""
        for runtime in self.runtimes.values():
            found = (runtime.namespace, runtime.name) == (namespace, pod)
            if found and isinstance(runtime, PodRuntime):
                return runtime
        raise LookupError(f"pod {namespace}/{pod} does not run")

    def ready_addresses(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The addresses of the ready pods with `labels`."""
        return [
            pod["status"]["podIP"]
            for pod in self._pods.values()
            if pod["metadata"]["namespace"] == namespace
            and labels.items() <= pod["metadata"].get("labels", {}).items()
            and hosts.is_ready(pod)
        ]

    def hold(self, namespace: str, pod: str, *, held: bool = True) -> None:
        """A pod of that name that has no node yet stays Pending until it is released."""
        (self._scheduler.held.add if held else self._scheduler.held.discard)((namespace, pod))
        self._wake.set()

    async def lose_node(self, name: str) -> None:
        """A host is lost: its processes end at once and its Node object is deleted."""
        self._workers.discard(name)
        lost = [runtime for runtime in self.runtimes.values() if runtime.node == name]
        await asyncio.gather(*(runtime.stop(0) for runtime in lost))
        await self._api.delete(f"/api/v1/nodes/{name}")

    async def add_node(self, name: str) -> None:
        self._workers.add(name)
        await self._api.create("/api/v1/nodes", nodes.node(name))
        await self._heartbeat(name)

    # The loop.

    async def _loop(self) -> None:
        while True:
            # Not wait_for: up to Python 3.11 it can swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RESYNC_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._once()
            except (ApiError, httpx.HTTPError, OSError, subprocess.SubprocessError) as error:
                # A conflict, a restart of the server, a disk: retried at the next resync.
                self.failures.append(error)
                await asyncio.sleep(0.05)

    async def _once(self) -> None:
        present = {pod["metadata"]["uid"]: pod for pod in self._pods.values()}
        for uid, runtime in list(self.runtimes.items()):
            if uid not in present:
                self._end(runtime, 0)
        for uid, pod in present.items():
            await self._look_at(uid, pod)
        self._write_hosts()
        for volume in self._pvs.values():
            await self._scheduler.reclaim(volume)

    async def _look_at(self, uid: str, pod: Json) -> None:
        runtime = self.runtimes.get(uid)
        where = pod["spec"].get("nodeName")
        if where is None:
            if "deletionTimestamp" not in pod["metadata"]:
                await self._scheduler.schedule(pod)
        elif self._nodes.get("", where) is None:
            await self._api.delete(path_of(pod), grace_s=0, uid=uid)
        elif "deletionTimestamp" in pod["metadata"]:
            if runtime is not None:
                self._end(runtime, pod["metadata"].get("deletionGracePeriodSeconds", 30))
            elif uid not in self._ending:
                await self._api.delete(path_of(pod), grace_s=0, uid=uid)
        elif runtime is None and uid not in self._ending and where in self._workers:
            self._begin(pod)

    def _begin(self, pod: Json) -> None:
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        program = self._programs.get(pod["spec"]["containers"][0]["image"])
        if isinstance(program, SimulatedNodes):
            self.runtimes[uid] = program.pod(self._api, pod, self._addresses.take())
            self.runtimes[uid].start()
            return
        folder = self._folder / "pods" / namespace / f"{pod['metadata']['name']}-{uid[:8]}"
        folder.mkdir(parents=True)
        address = self._addresses.take()
        hosts_path = self._hosts_of(namespace).path
        programs = {image: p for image, p in self._programs.items() if isinstance(p, Program)}
        runtime = PodRuntime(self._api, pod, address, folder, hosts_path, programs)
        self.runtimes[uid] = runtime
        runtime.start()

    def _end(self, runtime: PodRuntime | SimulatedPod, grace_s: float) -> None:
        if runtime.uid in self._ending:
            return

        async def end() -> None:
            await runtime.stop(grace_s)
            self.runtimes.pop(runtime.uid, None)
            await self._api.delete(path_of(runtime.pod), grace_s=0, uid=runtime.uid)

        self._ending[runtime.uid] = asyncio.create_task(end())
        self._ending[runtime.uid].add_done_callback(lambda _: self._ended(runtime.uid))

    def _ended(self, uid: str) -> None:
        task = self._ending.pop(uid)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)
        self._wake.set()

    # Names and heartbeats.

    def _hosts_of(self, namespace: str) -> HostsFile:
        if namespace not in self._hosts:
            folder = self._folder / "hosts"
            folder.mkdir(exist_ok=True)
            self._hosts[namespace] = HostsFile(folder / namespace)
        return self._hosts[namespace]

    def _write_hosts(self) -> None:
        for namespace, file in self._hosts.items():
            alive = [runtime.pod for runtime in self.runtimes.values()]
            uids = {pod["metadata"]["uid"] for pod in alive}
            pods = [p for p in self._pods.values() if p["metadata"]["uid"] in uids]
            services = [
                s for s in self._services.values() if s["metadata"]["namespace"] == namespace
            ]
            file.write(hosts.names(pods, services))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            for name in list(self._workers):
                with contextlib.suppress(ApiError, httpx.HTTPError):
                    await self._heartbeat(name)

    async def _heartbeat(self, name: str) -> None:
        await self._api.merge(f"/api/v1/nodes/{name}/status", nodes.node_status())


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
