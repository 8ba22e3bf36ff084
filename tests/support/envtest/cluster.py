"""The harness without kind, for tests: a cluster whose pods are local processes, with synchronous calls.

Owns the event loop (in a thread) in which the kubelet and the proxies live, and the conversions
between a test's plain calls and that loop. The control plane itself is started by the test bed.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from support.envtest.http_proxy import RecordingProxy
from support.envtest.kube_api import Access, ApiError, Json, KubeApi
from support.envtest.kubelet import Kubelet
from support.envtest.pod_runtime import Program
from support.envtest.service import PodTlsAccess, TcpService
from support.envtest.simulated_nodes import SimulatedNodes
from support.envtest.volumes import storage_classes

_T = TypeVar("_T")
_CALL_TIMEOUT_S = 60.0
_POLL_S = 0.05
WORKERS = ("worker-1", "worker-2", "worker-3")


class TimedOut(AssertionError):
    """A condition did not become true in time; the message says which and what was seen last."""


def wait_for(what: str, condition: Callable[[], _T], *, timeout_s: float) -> _T:
    """Poll until `condition` returns a true value, and return it. Raises TimedOut.

    An AssertionError or ApiError of the condition counts as "not yet" and is part of the final message.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            found = condition()
            if found:
                return found
            last = found
        except (AssertionError, ApiError, LookupError) as error:
            last = error
        time.sleep(_POLL_S)
    raise TimedOut(f"after {timeout_s:.0f} s not yet: {what}; last seen: {last!r}")


class ApiServerCluster:
    """A context manager with synchronous calls. `programs`: the program of each image."""

    def __init__(
        self, kubeconfig: Path, folder: Path, programs: Mapping[str, Program | SimulatedNodes]
    ) -> None:
        self.kubeconfig = kubeconfig
        self.access = Access.from_kubeconfig(kubeconfig)
        self.folder = folder
        self._programs = programs
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness", daemon=True)
        self._names = itertools.count(1)
        self._proxies: list[RecordingProxy] = []
        self._services: list[TcpService] = []

    def __enter__(self) -> "ApiServerCluster":
        self._thread.start()
        try:
            self.call(self._open())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    async def _open(self) -> None:
        self.api = KubeApi(self.access)
        self.kubelet = Kubelet(self.api, self.folder / "kubelet", list(WORKERS), self._programs)
        for storage_class in storage_classes():
            await self.api.create("/apis/storage.k8s.io/v1/storageclasses", storage_class)
        await self.kubelet.start()

    async def _close(self) -> None:
        for proxy in self._proxies:
            await proxy.close()
        for service in self._services:
            await service.close()
        await self.kubelet.close()
        await self.api.close()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine in the harness's loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_TIMEOUT_S)

    def call_within(self, work: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        """The same for work that takes long."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def run(self, function: Callable[[], _T]) -> _T:
        """Call a plain function in the loop's thread, which owns the kubelet's state."""

        async def work() -> _T:
            return function()

        return self.call(work())

    # The API server.

    def get(self, path: str) -> Json | None:
        return self.call(self.api.get(path))

    def existing(self, path: str) -> Json:
        """The object at `path`. Raises LookupError if there is none."""
        found = self.get(path)
        if found is None:
            raise LookupError(f"{path} does not exist")
        return found

    def list(self, path: str, selector: str = "") -> Sequence[Json]:
        return self.call(self.api.list(path, selector))

    def create(self, path: str, body: Json) -> Json:
        return self.call(self.api.create(path, body))

    def merge(self, path: str, body: Json) -> Json:
        return self.call(self.api.merge(path, body))

    def delete(self, path: str) -> bool:
        return self.call(self.api.delete(path))

    def new_namespace(self, prefix: str) -> str:
        name = f"{prefix}-{next(self._names)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.create("/api/v1/namespaces", body)
        return name

    # Proxies.

    def proxy(self, acting_as: Sequence[tuple[str, str]] = ()) -> RecordingProxy:
        """A new recording proxy to this API server; it lives as long as the cluster."""
        proxy = self.run(lambda: RecordingProxy(self.access, acting_as))
        self.call(proxy.open())
        self._proxies.append(proxy)
        return proxy

    def service(
        self,
        namespace: str,
        labels: Mapping[str, str],
        port: int,
        tls_access: PodTlsAccess | None = None,
    ) -> int:
        """A local port that forwards to `port` of the ready pods with `labels`."""
        service = TcpService(
            lambda: self.kubelet.ready_addresses(namespace, labels), port, tls_access
        )
        self.call(service.open())
        self._services.append(service)
        return service.port

    def wait_inside(
        self, what: str, awaited: Callable[[], Coroutine[Any, Any, object]], *, timeout_s: float
    ) -> None:
        """Waits for a coroutine of the loop. Raises TimedOut."""

        async def work() -> bool:
            try:
                async with asyncio.timeout(timeout_s):
                    await awaited()
            except TimeoutError:
                return False
            return True

        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        if not future.result(timeout_s + _CALL_TIMEOUT_S):
            raise TimedOut(f"after {timeout_s:.0f} s not yet: {what}")
