"""Clients of the modelled API server: the operator's, with its delays and failures, and the blocking one of the acts."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

from quorum_operator.kube.client import MERGE_PATCH
from quorum_operator.kube.errors import ApiError, Forbidden, Unavailable
from support.envtest.kube_api import ApiError as Refused
from support.envtest.kube_api import Json
from support.in_memory_kube_api import copied
from support.kind_env import installation
from support.kind_env.kube import APPLY_PATCH, Kube
from support.modelled_cluster.store import Object, Store

CALL_S = 0.01
BINDING = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
    f"{installation.OPERATOR_NAMESPACE}-{installation.RELEASE}"
)
"""The operator's permissions."""


class ServerState:
    """What acts do to the API server. Times are those of the loop, in seconds."""

    def __init__(self) -> None:
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.away_until = 0.0

    @property
    def frozen(self) -> bool:
        return not self.thawed.is_set()

    def freeze(self, *, frozen: bool) -> None:
        """Calls hang."""
        if frozen:
            self.thawed.clear()
        else:
            self.thawed.set()


class OperatorCalls:
    """The interface of `KubeApi`. `gate` returns when the operator's process may go on."""

    def __init__(
        self, store: Store, state: ServerState, gate: Callable[[], Awaitable[None]]
    ) -> None:
        self._store, self._state, self._gate = store, state, gate
        self.events: list[Object] = []

    async def _called(self) -> None:
        await self._gate()
        await asyncio.sleep(CALL_S)
        await self._state.thawed.wait()
        await self._gate()
        if asyncio.get_running_loop().time() < self._state.away_until:
            raise Unavailable(0, "ConnectError", "connection refused")
        if self._store.get(BINDING) is None:
            raise Forbidden(403, "Forbidden", "the operator's account has no permission")

    async def get(self, path: str) -> Object | None:
        await self._called()
        found = self._store.get(path)
        return None if found is None else copied(found)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        await self._called()
        found: list[Object] = copied(self._store.find(path, labels, fields))
        return found

    async def names(self, path: str) -> frozenset[str]:
        await self._called()
        return frozenset(each["metadata"]["name"] for each in self._store.of(path))

    async def create(self, path: str, body: Object) -> Object:
        await self._called()
        if path.endswith("/events"):
            self.events.append(body)
            return body
        return copied(self._store.create(path, body))  # type: ignore[no-any-return]

    async def apply(self, path: str, body: Object) -> Object:
        await self._called()
        return copied(self._store.apply(path, body))  # type: ignore[no-any-return]

    async def merge(self, path: str, body: Object) -> Object:
        await self._called()
        return copied(self._store.merge(path, body))  # type: ignore[no-any-return]

    async def patch(self, path: str, operations: list[Object]) -> Object:
        await self._called()
        return copied(self._store.patch(path, operations))  # type: ignore[no-any-return]

    async def delete(
        self, path: str, *, uid: str, resource_version: str | None = None, orphan: bool = False
    ) -> None:
        await self._called()
        self._store.delete(path, uid=uid, version=resource_version, orphan=orphan)


class Copies:
    """The operator's cache: what its watches have kept, without delay."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, path: str) -> Object | None:
        return self._store.get(path)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        return self._store.find(path, labels, fields)

    async def names(self, path: str) -> frozenset[str]:
        return frozenset(each["metadata"]["name"] for each in self._store.of(path))


class ActCalls(Kube):
    """The client that acts use. `evicts`: carries out an eviction. `now`: the loop's time, in seconds."""

    def __init__(
        self,
        store: Store,
        state: ServerState,
        now: Callable[[], float],
        evicts: Callable[[str], None],
    ) -> None:
        self._store, self._state, self._now, self._evicts = store, state, now, evicts

    def close(self) -> None:
        """It has no connections."""

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout_s: float = 0.0,
    ) -> Json:
        if self._state.frozen or self._now() < self._state.away_until:
            raise Refused(method, path, 503, "the API server does not answer")
        try:
            found: Json = copied(self._done(method, path, body or {}, content_type, query or {}))
            return found
        except ApiError as error:
            text = json.dumps({"reason": error.reason, "message": error.message})
            raise Refused(method, path, error.status, text) from error

    def _done(
        self, method: str, path: str, body: Json, content_type: str, query: Mapping[str, str]
    ) -> Json:
        store = self._store
        match method:
            case "GET":
                found = store.get(path)
                if found is not None:
                    return found
                if path.rstrip("/").rpartition("/")[2] in _COLLECTIONS:
                    return {"items": store.find(path, query.get("labelSelector"))}
                raise ApiError(404, "NotFound", f"{path} not found")
            case "POST" if path.endswith("/eviction"):
                self._evicts(path.removesuffix("/eviction"))
                return {}
            case "POST":
                return store.create(path, body)
            case "PUT":
                return store.replace(path, body)
            case "DELETE":
                store.delete(path, grace_s=body.get("gracePeriodSeconds"))
                return {}
        if content_type == MERGE_PATCH:
            return store.merge(path, body)
        assert content_type == APPLY_PATCH, content_type
        return store.apply(path, body)


_COLLECTIONS = frozenset(
    {
        *("configmaps", "events", "leases", "nodes", "persistentvolumeclaims"),
        *("persistentvolumes", "pods", "resourcequotas", "secrets", "services", "statefulsets"),
    }
)
