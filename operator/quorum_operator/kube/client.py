"""A thin asynchronous client of the Kubernetes API: paths in, plain dictionaries out.

Credentials and addresses come from the official client's configuration loaders (kubeconfig or the pod's service
account). The calls use httpx, so that many reads run at once without threads, and answers are not parsed into unused
classes.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import httpx
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config

from quorum_operator.awaited_calls import awaiting
from quorum_operator.kube.clock import ServerClock
from quorum_operator.kube.errors import NotFound, Unavailable, classify
from quorum_operator.kube.name_lists import NameLists
from quorum_operator.kube.rate_limit import USUAL_LIMITS, CallLimits, RateLimiter
from quorum_operator.transport import Transport

FIELD_MANAGER = "metadataquorum-operator"
TIMEOUT_S = 15.0
CALLS_AT_ONCE = 32
"""Maximum number of concurrent calls of one client, without watches. Further calls wait here instead of in httpx's
pool, where a cancelled call may keep its place.
"""

Object = dict[str, Any]

NAMES_CHUNK = 250
"""Page size of lists of names, about half a megabyte per answer."""
NAMES = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def load_configuration() -> Any:
    """Load the configuration from the pod's service account, else from the kubeconfig."""
    loaded = kubernetes_client.Configuration()
    try:
        kubernetes_config.load_incluster_config(client_configuration=loaded)
    except kubernetes_config.ConfigException:
        kubernetes_config.load_kube_config(client_configuration=loaded)
    return loaded


def authorization(configuration: Any) -> str:
    """Value of the Authorization header; empty if certificates authenticate the client."""
    value = configuration.get_api_key_with_prefix("authorization")
    value = value or configuration.get_api_key_with_prefix("BearerToken")
    return str(value or "")


class KubeApi:
    """One connection pool to one API server.

    `before_change` may raise to prevent a write. `count` is called with the method of each call and the seconds that
    the call was delayed here.
    """

    def __init__(
        self,
        configuration: Any,
        before_change: Callable[[], None] = lambda: None,
        limits: CallLimits = USUAL_LIMITS,
        count: Callable[[str, float], None] = lambda method, waited_s: None,
    ) -> None:
        self._configuration, self._count = configuration, count
        self._limiter = RateLimiter(limits)
        self._before_change = before_change
        self.clock = ServerClock()
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._names = NameLists(self._read_names)
        self._http = httpx.AsyncClient(
            base_url=configuration.host,
            transport=Transport(_tls(configuration), keeps=True),
            timeout=httpx.Timeout(TIMEOUT_S, pool=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> Object | None:
        """Read one object from the API server; None if it does not exist."""
        try:
            return await self._call("GET", path)
        except NotFound:
            return None

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """Read all matching objects from the API server."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        found = await self._call("GET", path, {k: v for k, v in query.items() if v is not None})
        items: list[Object] = found["items"] or []
        return items

    async def names(self, path: str) -> frozenset[str]:
        """Names of all objects of a collection, read from the API server. Concurrent callers share one read."""
        return await self._names.names(path)

    async def _read_names(self, path: str) -> frozenset[str]:
        names: set[str] = set()
        query = {"limit": str(NAMES_CHUNK)}
        while True:
            page = await self._call("GET", path, query, accept=NAMES)
            # In a list of metadata only, an empty list of items is null.
            names.update(each["metadata"]["name"] for each in page["items"] or ())
            token = page["metadata"].get("continue")
            if not token:
                return frozenset(names)
            query = {**query, "continue": token}

    async def page(self, path: str, query: dict[str, str]) -> Object:
        """Read one page of a list, with its metadata."""
        return await self._call("GET", path, query)

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, query: dict[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[Object]]:
        """The events of a watch, until the API server ends it. Raises httpx.HTTPError after `silence_s` without data."""
        headers = {"Accept": "application/json", **self._authorization()}
        timeout = httpx.Timeout(TIMEOUT_S, read=silence_s, pool=None)
        async with self._http.stream(
            "GET", path, params=query, headers=headers, timeout=timeout
        ) as answer:
            if answer.status_code >= 300:
                await answer.aread()
                raise _error(answer)
            yield _parsed(answer)

    async def create(self, path: str, body: Object) -> Object:
        """Create only; raises AlreadyExists if the object exists."""
        return await self._call("POST", path, {"fieldManager": FIELD_MANAGER}, body)

    async def apply(self, path: str, body: Object) -> Object:
        """Server-side apply with the operator's field manager."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._call("PATCH", path, query, body, APPLY)

    async def merge(self, path: str, body: Object) -> Object:
        """JSON merge patch; a metadata.resourceVersion in `body` makes it conditional."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", path, query, body, MERGE_PATCH)

    async def patch(self, path: str, operations: list[Object]) -> Object:
        """JSON patch; a `test` on /metadata/resourceVersion makes it conditional."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", path, query, operations, JSON_PATCH)

    async def delete(
        self, path: str, *, uid: str, resource_version: str | None = None, orphan: bool = False
    ) -> None:
        """Delete exactly the observed object."""
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": "Orphan" if orphan else "Background",
        }
        await self._call("DELETE", path, body=body)

    async def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Object | list[Object] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        called_at = time.monotonic()
        with awaiting(f"the rate limit before {method} {path}"):
            await self._limiter.admit()
        if method != "GET":
            self._before_change()
        headers = {"Accept": accept, **self._authorization()}
        content = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = json.dumps(body).encode()
        with awaiting(f"{method} {path}"):
            answer = await self._sent(method, path, query, content, headers, called_at)
        if answer.status_code >= 300:
            raise _error(answer)
        return _document(answer)

    async def _sent(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None,
        content: bytes | None,
        headers: dict[str, str],
        called_at: float,
    ) -> httpx.Response:
        """The answer, of any status. `called_at`: seconds, monotonic. Raises Unavailable if there is none."""
        async with self._places:
            self._count(method, time.monotonic() - called_at)
            begun = self.clock.begin()
            try:
                answer = await self._http.request(
                    method, path, params=query, content=content, headers=headers
                )
            except httpx.HTTPError as error:
                raise Unavailable(0, type(error).__name__, str(error)) from error
            self.clock.observe(answer.headers.get("Date"), begun)
        return answer

    def _authorization(self) -> dict[str, str]:
        # It is read for each request, because the service account's token is renewed while the operator runs.
        value = authorization(self._configuration)
        return {"Authorization": value} if value else {}


async def _parsed(answer: httpx.Response) -> AsyncIterator[Object]:
    """Parse one document per line. Only a line feed ends a line: httpx splits lines at other separators that JSON may
    contain.
    """
    rest = b""
    async for part in answer.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)


def _document(answer: httpx.Response) -> Object:
    """Parse the answer. Raises Unavailable if it is not a JSON object, since a proxy may answer anything."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        text = f"the answer is no JSON object: {answer.text[:200]!r}"
        raise Unavailable(0, "MalformedAnswer", text)
    return found


def _error(answer: httpx.Response) -> Exception:
    try:
        document = _document(answer)
    except Unavailable:
        document = {}
    reason = str(document.get("reason") or answer.reason_phrase)
    return classify(answer.status_code, reason, str(document.get("message") or answer.text[:500]))


def _tls(configuration: Any) -> ssl.SSLContext | bool:
    if httpx.URL(configuration.host).scheme != "https":
        return False
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
