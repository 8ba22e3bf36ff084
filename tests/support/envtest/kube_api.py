"""A small asynchronous Kubernetes client for the harness: requests, lists and watches.

Owns HTTP to the API server. Must not know the meaning of objects, which are plain JSON dictionaries, because parts of
the harness (kubelet, provisioner) copy fields.
"""

import json
import ssl
import tempfile
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx

from support.yaml_text import read_yaml

Json: TypeAlias = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
_CALL_TIMEOUT_S = 20.0


class ApiError(Exception):
    """The API server refused: `status` is the HTTP status, `body` the Status object if any."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status}: {body[:1000]}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials of the API server."""

    url: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Read the current context, with a client certificate or a bearer token."""
        document = read_yaml(path.read_text())
        wanted = document.get("current-context") or document["contexts"][0]["name"]
        context = _named(document["contexts"], wanted)["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"]).get("user") or {}
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if not cluster["server"].startswith("https:"):
            return cls(cluster["server"], None, headers)
        tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority", path))
        if "client-certificate" in user or "client-certificate-data" in user:
            with tempfile.TemporaryDirectory() as scratch:
                both = Path(scratch) / "client.pem"
                both.touch(mode=0o600)
                pair = (_text(user, key, path) for key in ("client-certificate", "client-key"))
                both.write_text("\n".join(part for part in pair if part))
                tls.load_cert_chain(both)
        return cls(cluster["server"], tls, headers)


def _named(entries: list[Json], name: str) -> Json:
    return next(entry for entry in entries if entry["name"] == name)


def _text(entry: Json, key: str, kubeconfig: Path) -> str | None:
    if f"{key}-data" in entry:
        return b64decode(entry[f"{key}-data"]).decode()
    return (kubeconfig.parent / entry[key]).read_text() if key in entry else None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: Json


class KubeApi:
    """Requests to one API server. One instance per event loop."""

    def __init__(self, access: Access) -> None:
        self.access = access
        verify: ssl.SSLContext | bool = access.tls if access.tls is not None else True
        self._client = httpx.AsyncClient(
            base_url=access.url,
            headers=dict(access.headers),
            verify=verify,
            timeout=_CALL_TIMEOUT_S,
            trust_env=False,
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """One request. Raises ApiError for every status but 2xx."""
        answer = await self._client.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            params=query,
        )
        if not answer.is_success:
            raise ApiError(method, path, answer.status_code, answer.text)
        try:
            found: Json = answer.json()
        except ValueError:
            return {"text": answer.text}
        return found

    async def get(self, path: str) -> Json | None:
        """The object, or None if it does not exist."""
        try:
            return await self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, path: str, selector: str = "") -> list[Json]:
        found = await self.call(
            "GET", path, query={"labelSelector": selector} if selector else None
        )
        items: list[Json] = found["items"]
        return items

    async def create(self, path: str, body: Json) -> Json:
        return await self.call("POST", path, body)

    async def merge(self, path: str, body: Json) -> Json:
        """A JSON merge patch."""
        return await self.call("PATCH", path, body, content_type=MERGE_PATCH)

    async def delete(
        self, path: str, *, grace_s: int | None = None, uid: str | None = None
    ) -> bool:
        """Delete it; True if it existed (with this `uid`, if given)."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", path, options)
        except ApiError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def watch(self, path: str, resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version` until the server ends the watch."""
        query = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        timeout = httpx.Timeout(_CALL_TIMEOUT_S, read=None)
        async with self._client.stream("GET", path, params=query, timeout=timeout) as answer:
            if not answer.is_success:
                text = (await answer.aread()).decode(errors="replace")
                raise ApiError("WATCH", path, answer.status_code, text)
            async for line in answer.aiter_lines():
                event = json.loads(line)
                yield WatchEvent(event["type"], event["object"])
