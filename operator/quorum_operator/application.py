"""The running operator: its clients, its workers, and the endpoint for probes and metrics.

Owns start and stop, and which event wakes which worker. Independent of kopf.
"""

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httpx
import structlog
from aiohttp import web

from quorum_operator.certificate_keeper import LOOKS_BETWEEN, CertificateKeeper
from quorum_operator.crd import KIND, PLURAL
from quorum_operator.desired.names import annotated_requests
from quorum_operator.http_endpoint import HttpEndpoint, Reused
from quorum_operator.kube import paths
from quorum_operator.kube.cache import Cache
from quorum_operator.kube.client import KubeApi, load_configuration
from quorum_operator.kube.errors import ApiError
from quorum_operator.leadership import Always, Leadership
from quorum_operator.lease_thread import LeaseThread
from quorum_operator.live_page import LivePage
from quorum_operator.metrics import EXPOSITION, Metrics
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.partition_client import PartitionClient
from quorum_operator.planner.times import text_of
from quorum_operator.quorum_client import QuorumClient
from quorum_operator.reassign import ReassignmentReconciler
from quorum_operator.reassignment_crd import REASSIGNMENT_KIND, REASSIGNMENT_PLURAL
from quorum_operator.reconcile import Reconciler
from quorum_operator.settings import Settings
from quorum_operator.transport import Transport
from quorum_operator.turns import Turns, has_ended
from quorum_operator.workers import Workers

STALE_AFTER_S = 180.0
"""`/healthz` fails if no due reconcile has ended for this long."""

DEFINITION_RETRY_S = 2.0
DEFINITION_GRACE_S = 10.0
"""How long to wait for the definition of reassignments, after that of quorums exists."""

_log = structlog.get_logger("quorum_operator")


class Application:
    """One operator process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self._api: KubeApi | None = None
        self._http: httpx.AsyncClient | None = None
        self._workers: Workers | None = None
        self._reassignments: Workers | None = None
        self._turns = Turns(self._turn_came)
        self._endpoint: HttpEndpoint | None = None
        self._scraped = Reused(self.metrics.render)
        self._page: LivePage | None = None
        self._generations: dict[tuple[str, str], object] = {}
        self._reassigned: dict[NamespacedName, object] = {}
        self._lease: LeaseThread | None = None
        self._cache: Cache | None = None
        self._gate_of_calls: Callable[[httpx.Request], Awaitable[None]] = _checking(Always())
        self._watching: KubeApi | None = None
        """Client with its own connections, because each watch occupies one."""
        self._ending: set[asyncio.Future[Any]] = set()

    async def start(self) -> None:
        """Open the clients and the HTTP endpoint, and begin work; with leader election once the lease is acquired."""
        configuration = load_configuration()
        gate = self._gate(configuration)
        per_s, count = self._settings.call_limits, self.metrics.count_call
        self._api = KubeApi(configuration, gate.check, per_s, count)
        self._gate_of_calls = _checking(gate)
        self._http = self._node_http()
        await self._serve()
        await self._serve_page()
        await self._await_definitions(self._api)
        _log.info("started", watch_namespace=self._settings.namespaces or "all")
        self._watching = KubeApi(configuration)
        self._cache = Cache(self._watching, self._api, self._settings.namespaces, self.part_changed)
        self._cache.start()
        if self._lease is None:
            self._begin_work()
        else:
            self._lease.start(self._begin_work, self._end_work)

    async def stop(self) -> None:
        """Stop the workers, give up the lease, then close everything."""
        self._end_work()
        await asyncio.gather(*self._ending, return_exceptions=True)
        if self._lease is not None:
            await self._lease.stop()
            self._end_work()  # The lease may have been acquired in the meantime.
        if self._page is not None:
            await self._page.stop()
        if self._endpoint is not None:
            await self._endpoint.stop()
        if self._http is not None:
            await self._http.aclose()
        if self._cache is not None:
            await self._cache.stop()
        for api in (self._api, self._watching):
            if api is not None:
                await api.__aexit__(None, None, None)

    def _node_http(self, context: ssl.SSLContext | None = None) -> httpx.AsyncClient:
        """The HTTP client for calls to nodes.

        With a TLS context it ignores proxies of the environment, because the pod has to prove its own name.
        Connections are not reused, because another pod may get the same address. The workers limit the number of
        concurrent calls.
        """
        hooks = {"request": [self._gate_of_calls]}
        transport = Transport(True if context is None else context, proxies=context is None)
        return httpx.AsyncClient(transport=transport, event_hooks=hooks)

    def _gate(self, configuration: Any) -> Leadership | Always:
        """The leadership, which decides whether this operator may write."""
        settings = self._settings
        if settings.lease is None:
            return Always()
        identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._lease = LeaseThread(KubeApi(configuration), settings.lease, identity)
        return self._lease.leadership

    def _begin_work(self) -> None:
        """Create the reconcilers, and start a worker for each known resource."""
        assert self._api is not None
        assert self._http is not None
        resync_s = self._settings.resync_s
        nodes, clock = QuorumClient(self._http), self._api.clock.now
        certificates = CertificateKeeper(
            self._api, clock, self._node_http, quiet_s=LOOKS_BETWEEN * resync_s
        )
        reconciler = Reconciler(
            self._api,
            nodes,
            self.metrics,
            self._cache,
            clock,
            self._settings.home,
            certificates,
            writes_alone=self._lease is not None,
        )
        self._workers = Workers(KIND, reconciler, self.metrics, resync_s)
        moves = ReassignmentReconciler(
            self._api,
            PartitionClient(self._http),
            self.metrics,
            self._turns,
            clock,
            reconciler.access_to,
        )
        self._reassignments = Workers(REASSIGNMENT_KIND, moves, self.metrics, resync_s)
        self.metrics.set_leading(True)
        for resource in self._generations:
            self._workers.ensure(*resource)
        for each in self._reassigned:
            self._reassignments.ensure(*each)

    def _end_work(self) -> None:
        """Cancel all workers, and start no new ones."""
        for workers in (self._workers, self._reassignments):
            if workers is not None:
                task = asyncio.ensure_future(workers.cancel())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._workers = self._reassignments = None
        self.metrics.set_leading(False)

    def quorum_changed(
        self, namespace: str, name: str, body: dict[str, object], *, deleted: bool = False
    ) -> None:
        """Wake the worker of a changed MetadataQuorum. Changes of only its status are ignored."""
        if deleted:
            self._generations.pop((namespace, name), None)
            self.part_changed(namespace, name)
            return
        meta = body.get("metadata")
        assert isinstance(meta, dict)
        state = (
            *(meta.get(each) for each in ("uid", "generation", "deletionTimestamp")),
            annotated_requests(meta),
        )
        known = self._generations.get((namespace, name)) == state
        self._generations[namespace, name] = state
        # Its worker has ended if an API server did not find the resource for a moment.
        if self._workers is not None and not (known and self._workers.has(namespace, name)):
            self._workers.ensure(namespace, name)

    def reassignment_changed(
        self, namespace: str, name: str, body: dict[str, object], *, deleted: bool
    ) -> None:
        """Handle a changed PartitionReassignment. The change may allow another one to start."""
        resource = NamespacedName(namespace, name)
        if deleted:
            self._turns.forget(resource)
        else:
            self._turns.note(resource, body)
        meta = body.get("metadata")
        assert isinstance(meta, dict)
        state = (meta.get("uid"), meta.get("generation"), meta.get("deletionTimestamp"))
        if deleted:
            self._reassigned.pop(resource, None)
            if self._reassignments is not None:
                self._reassignments.wake(*resource)
        elif has_ended(body):
            # Its worker ends. If the phase is cleared, a new worker starts.
            self._reassigned.pop(resource, None)
        else:
            known = self._reassigned.get(resource) == state
            self._reassigned[resource] = state
            if self._reassignments is not None and not (
                known and self._reassignments.has(*resource)
            ):
                self._reassignments.ensure(*resource)

    def _turn_came(self, resource: NamespacedName) -> None:
        if self._reassignments is not None:
            self._reassignments.wake(*resource)

    def part_changed(self, namespace: str, instance: str) -> None:
        """Wake the worker of a quorum, because one of its objects changed."""
        if self._workers is not None:
            self._workers.wake(namespace, instance)

    @staticmethod
    async def _await_definitions(api: KubeApi) -> None:
        """Wait for the resource definitions, because kopf looks for them only once, at start.

        The operator also runs without the definition of reassignments, for example after an upgrade of the operator
        only.
        """
        since: float | None = None
        while True:
            try:
                missing = {PLURAL, REASSIGNMENT_PLURAL} - await _defined(api)
                if not missing:
                    return
                if PLURAL not in missing:
                    since = since or time.monotonic()
                    if time.monotonic() - since > DEFINITION_GRACE_S:
                        _log.warning(
                            f"{REASSIGNMENT_PLURAL} are not watched: apply crds/{REASSIGNMENT_PLURAL}.yaml and restart the operator"
                        )
                        return
                files = " and ".join(f"crds/{each}.yaml" for each in sorted(missing))
                _log.warning(f"the custom resource definitions are missing: apply {files}")
            except ApiError as error:
                _log.warning(_unusable(error), error=str(error))
            await asyncio.sleep(DEFINITION_RETRY_S)

    async def _serve(self) -> int:
        """Serve probes and metrics. Returns the port."""
        self._endpoint = HttpEndpoint({"/healthz": self._healthz, "/metrics": self._metrics})
        return await self._endpoint.start(self._settings.http_host, self._settings.http_port)

    async def _serve_page(self) -> None:
        """Serve the live page if it is configured."""
        address, metrics = self._settings.page, self.metrics
        if address is None:
            return
        page = LivePage(
            address,
            metrics.statuses,
            metrics.moves,
            lambda: text_of(time.time()),
            lambda: metrics.leading,
        )
        port = await page.start()
        self._page = page
        _log.info(f"the live page is at http://{address.host}:{port}/")

    async def _healthz(self, _: web.BaseRequest) -> web.Response:
        still_s = self.metrics.standstill_s()
        healthy = still_s <= STALE_AFTER_S
        body = {
            "healthy": healthy,
            "standstillSeconds": round(still_s, 1),
            "lastReconcileAgeSeconds": round(self.metrics.staleness_s(), 1),
        }
        return web.json_response(body, status=200 if healthy else 503)

    async def _metrics(self, _: web.BaseRequest) -> web.Response:
        return web.Response(body=self._scraped(), headers={"Content-Type": EXPOSITION})


def _unusable(error: ApiError) -> str:
    """Why the operator can't start yet."""
    if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "the API server rejects the operator: check its service account and rights (docs/how-to/rights.md)"
    return "the API server can't be reached yet"


def _checking(gate: Leadership | Always) -> Callable[[httpx.Request], Awaitable[None]]:
    """Return a request hook that allows only reads while this operator does not hold the lease."""

    async def check(request: httpx.Request) -> None:
        if request.method != "GET":
            gate.check()

    return check


async def _defined(api: KubeApi) -> set[str]:
    """Plurals of the operator's resources that the API server serves."""
    found = await api.get(paths.DEFINITION) or {}
    return {each["name"] for each in found.get("resources", [])}
