"""The operator's process in a modelled cluster: its workers and reconciler, killed, frozen, and started again without memory."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import httpx

from quorum_operator.certificate_keeper import LOOKS_BETWEEN, CertificateKeeper
from quorum_operator.certificates import pem
from quorum_operator.certificates.pem import Read
from quorum_operator.crd import KIND, PLURAL
from quorum_operator.kube.errors import ApiError
from quorum_operator.metrics import Metrics
from quorum_operator.quorum_client import QuorumClient
from quorum_operator.reconcile import Reconciler
from quorum_operator.workers import Workers
from support.kind_env import kube
from support.kind_env.installation import OPERATOR_NAMESPACE, OPERATOR_SELECTOR, RELEASE
from support.modelled_cluster.calls import BINDING, Copies, OperatorCalls, ServerState
from support.modelled_cluster.store import Store, plural_in

START_S = 2.0
WATCH_S = 0.05
RESYNC_S = 10.0
DEPLOYMENT = kube.apps(OPERATOR_NAMESPACE, "deployments", RELEASE)
_PODS = kube.core(OPERATOR_NAMESPACE, "pods")


class Serve(Protocol):
    """Answers of nodes to a client that trusts these authorities."""

    def __call__(
        self, request: httpx.Request, trusted: tuple[Read, ...] = ()
    ) -> Coroutine[None, None, httpx.Response]: ...


class OperatorProcess:
    """`clock`: seconds since 1970."""

    def __init__(
        self,
        store: Store,
        state: ServerState,
        place: tuple[str, str],
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._store, self._clock, self._place, self._loop = store, clock, place, loop
        self.serve: Serve = _nobody
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.calls = OperatorCalls(store, state, self.gate)
        self._workers: Workers | None = None
        self._start_at: float | None = 0.0
        self._known: tuple[object, ...] = ()
        store.create(BINDING.rpartition("/")[0], {"metadata": {"name": BINDING.rpartition("/")[2]}})
        kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
        meta = {"name": RELEASE}
        store.create(
            DEPLOYMENT.rpartition("/")[0], {**kind, "metadata": meta, "spec": {"replicas": 1}}
        )

    async def gate(self) -> None:
        await self._thawed.wait()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def kill(self) -> None:
        """Its process ends; the kubelet or the Deployment starts another one."""
        if self._workers is not None:
            self._workers.cancel()
            self._workers = None
        self._thawed.set()
        self._start_at = self._clock() + START_S

    def step(self, now: float) -> None:
        """The Deployment is carried out."""
        deployment = self._store.get(DEPLOYMENT)
        wanted = deployment is not None and deployment["spec"]["replicas"] > 0
        pods = self._store.of(_PODS)
        if not wanted and (self._workers is not None or pods):
            for each in pods:
                self._store.delete(f"{_PODS}/{each['metadata']['name']}", grace_s=0)
            self.kill()
            return
        if wanted and not pods:
            self.kill()
            labels = dict([OPERATOR_SELECTOR.split("=")])
            body = {
                "metadata": {
                    "name": f"{RELEASE}-0",
                    "namespace": OPERATOR_NAMESPACE,
                    "labels": labels,
                },
                "spec": {"containers": [{"name": "operator"}]},
                "status": {},
            }
            with contextlib.suppress(ApiError):  # Refused by a webhook, it is tried again.
                self._store.create(_PODS, body)
        if (
            wanted
            and self._workers is None
            and self._start_at is not None
            and now >= self._start_at
        ):
            self._start()

    def changed(self, path: str) -> None:
        """A watch of the operator reports a change."""
        namespace, _ = self._place
        if f"/namespaces/{namespace}/" not in path or plural_in(path) == "events":
            return
        if self._workers is None:
            return
        if plural_in(path) != PLURAL:
            self._loop.call_later(WATCH_S, self._wake)
            return
        found = self._store.get(path)
        meta = (found or {}).get("metadata") or {}
        known = (meta.get("uid"), meta.get("generation"), str(meta.get("annotations")))
        if known != self._known:
            self._known = known
            self._loop.call_later(WATCH_S, self._ensure)

    def _wake(self) -> None:
        if self._workers is not None:
            self._workers.wake(*self._place)

    def _ensure(self) -> None:
        if self._workers is not None:
            self._workers.ensure(*self._place)

    def _start(self) -> None:
        unchecked: Any = self.calls
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.serve))

        def make_http(context: ssl.SSLContext) -> httpx.AsyncClient:
            trusted = tuple(
                pem.read(ssl.DER_cert_to_PEM_cert(each).encode())
                for each in context.get_ca_certs(binary_form=True)
            )

            async def serve(request: httpx.Request) -> httpx.Response:
                return await self.serve(request, trusted)

            return httpx.AsyncClient(transport=httpx.MockTransport(serve))

        keeper = CertificateKeeper(
            unchecked, self._clock, make_http, quiet_s=LOOKS_BETWEEN * RESYNC_S
        )
        metrics = Metrics()
        reconciler = Reconciler(
            unchecked,
            QuorumClient(http),
            metrics,
            Copies(self._store),
            self._clock,
            OPERATOR_NAMESPACE,
            keeper,
            writes_alone=True,
        )
        self._workers = Workers(KIND, reconciler, metrics, RESYNC_S)
        self._start_at = None
        self._loop.call_later(WATCH_S, self._ensure)


async def _nobody(request: httpx.Request, trusted: tuple[Read, ...] = ()) -> httpx.Response:
    raise httpx.ConnectError("nobody listens", request=request)
