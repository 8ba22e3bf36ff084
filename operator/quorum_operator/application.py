"""The running operator: its clients, its workers, and the endpoint for probes and metrics.

Owns start and stop, and which event wakes which worker. Knows nothing of kopf.
"""

import asyncio

import httpx
import structlog
from aiohttp import web

from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi, load_configuration
from quorum_operator.kube.errors import ApiError
from quorum_operator.metrics import Metrics
from quorum_operator.quorum_client import QuorumClient
from quorum_operator.reconcile import Reconciler
from quorum_operator.settings import Settings
from quorum_operator.workers import Workers

STALE_AFTER_S = 180.0
"""`/healthz` fails when some quorum had no good reconcile for this long."""

DEFINITION_RETRY_S = 2.0

_log = structlog.get_logger("quorum_operator")


class Application:
    """One operator process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self._api: KubeApi | None = None
        self._http: httpx.AsyncClient | None = None
        self._workers: Workers | None = None
        self._runner: web.AppRunner | None = None
        self._generations: dict[tuple[str, str], object] = {}

    async def start(self) -> None:
        """Open the clients and the HTTP endpoint."""
        self._api = KubeApi(load_configuration())
        # Pods come and go under the same address: a kept connection may lead to a dead process.
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(limits=limits)
        reconciler = Reconciler(self._api, QuorumClient(self._http), self.metrics)
        self._workers = Workers(reconciler, self.metrics, self._settings.resync_s)
        await self._serve()
        await self._await_definition(self._api)
        _log.info("started", watch_namespace=self._settings.namespaces or "all")

    async def stop(self) -> None:
        """Stop the workers, then close everything."""
        if self._workers is not None:
            await self._workers.stop()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._http is not None:
            await self._http.aclose()
        if self._api is not None:
            await self._api.__aexit__(None, None, None)

    def quorum_changed(self, namespace: str, name: str, body: dict[str, object]) -> None:
        """A MetadataQuorum changed; our own status writes are no reason to look again."""
        meta = body.get("metadata")
        assert isinstance(meta, dict)
        state = (meta.get("uid"), meta.get("generation"), meta.get("deletionTimestamp"))
        if self._generations.get((namespace, name)) == state:
            return
        self._generations[namespace, name] = state
        if self._workers is not None:
            self._workers.ensure(namespace, name)

    def part_changed(self, namespace: str, instance: str) -> None:
        """A pod, claim or StatefulSet of a quorum changed."""
        if self._workers is not None:
            self._workers.wake(namespace, instance)

    def shared_changed(self) -> None:
        """A host or a volume changed."""
        if self._workers is not None:
            self._workers.wake_all()

    @staticmethod
    async def _await_definition(api: KubeApi) -> None:
        """What is defined later would go unnoticed: kopf looks for it once, when it starts."""
        while True:
            try:
                if await api.get(paths.DEFINITION) is not None:
                    return
                _log.warning("no resource definition yet: apply crds/metadataquorums.yaml")
            except ApiError as error:
                _log.warning("the API server can't be asked yet", error=str(error))
            await asyncio.sleep(DEFINITION_RETRY_S)

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        host, port = self._settings.http_host, self._settings.http_port
        await web.TCPSite(self._runner, host, port).start()

    async def _healthz(self, _: web.Request) -> web.Response:
        age_s = self.metrics.staleness_s()
        healthy = age_s <= STALE_AFTER_S
        told = {"healthy": healthy, "lastReconcileAgeSeconds": round(age_s, 1)}
        return web.json_response(told, status=200 if healthy else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics.render(), content_type="text/plain", charset="utf-8")
