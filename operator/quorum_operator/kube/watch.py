"""A copy of one collection of the Kubernetes API, maintained by list and watch.

Owns the copy, and whether it is current. A watch resumes from its last version, so changes during an interruption are
not missed. If the API server no longer has that version (410), the collection is listed again in pages, and absent
objects count as deleted. This module is independent of the meaning of the objects. Readers must not modify them.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from quorum_operator.backoff import delay_s
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.copies import Copies, Key
from quorum_operator.kube.errors import ApiError, Gone, classify

Object = dict[str, Any]

CHUNK = 100
"""Page size of lists. Larger pages need more temporary memory than all stored objects."""
WATCH_S = 280
"""Requested duration of a watch. The next one resumes from the last bookmark."""
SILENCE_S = 90.0
"""Time without data after which a watch is closed: a bookmark comes every minute."""
TRUSTED_S = 15.0
"""Time for which the copy counts as current after a watch has ended."""
FIRST_RETRY_S = 0.2
LAST_RETRY_S = 10.0
FORBIDDEN = 403
FORBIDDEN_RETRY_S = 60.0

_log = structlog.get_logger("quorum_operator")


@dataclass(frozen=True, slots=True)
class Collection:
    """The watched collection with its selector."""

    path: str
    labels: str | None = None
    fields: str | None = None

    def query(self, **more: str) -> dict[str, str]:
        """Query parameters for a list or a watch of the collection."""
        given = {"labelSelector": self.labels, "fieldSelector": self.fields, **more}
        return {name: value for name, value in given.items() if value}


Changed = Callable[[Object | None, Object | None], None]
"""Called for each change with the object before and after."""


def key_of(found: Object) -> Key:
    """Namespace and name of an object."""
    meta = found["metadata"]
    return meta.get("namespace", ""), meta["name"]


def without_managed_fields(found: Object) -> Object:
    """Remove managedFields, which are not used here and are a third of an object."""
    found["metadata"].pop("managedFields", None)
    return found


class Watch:
    """The copy of one collection. `keep` converts an object to what is stored; `indexed`: see `Copies`."""

    def __init__(
        self,
        api: KubeApi,
        collection: Collection,
        changed: Changed,
        keep: Callable[[Object], Object] = without_managed_fields,
        indexed: tuple[str, ...] = (),
    ) -> None:
        self.collection = collection
        self._indexed = indexed
        self.copies = Copies(indexed)
        self.lists = 0
        """Number of times that the collection was listed."""
        self._api, self._changed, self._keep = api, changed, keep
        self._version: str | None = None
        self._ended_at: float | None = float("-inf")
        """Time at which the last watch ended; None while one is open."""

    @property
    def objects(self) -> Mapping[Key, Object]:
        """The objects as of the watch's last event."""
        return self.copies.objects

    def is_current(self) -> bool:
        """Whether the copy is complete, except for events in transit."""
        if self._version is None:
            return False
        return self._ended_at is None or _now() - self._ended_at < TRUSTED_S

    async def run(self) -> None:
        """Maintain the copy. Never returns; all errors of the API server are retried."""
        failures = 0
        while True:
            begun, most_s = _now(), LAST_RETRY_S
            try:
                if self._version is None:
                    await self._list()
                await self._follow()
            except (ApiError, httpx.HTTPError) as error:
                if isinstance(error, Gone):
                    self._version = None
                if isinstance(error, httpx.ReadTimeout):
                    # The API server owes a bookmark every minute. A watch cache that gets nothing from
                    # etcd would be silent again, but a list is read from etcd.
                    self._version = None
                self._log_interruption(error)
                if isinstance(error, ApiError) and error.status == FORBIDDEN:
                    # A starting API server answers 403 for a moment. If it lasts, an older chart
                    # grants fewer rights, and objects are read live.
                    most_s = FORBIDDEN_RETRY_S
            except (ValueError, KeyError, TypeError, RuntimeError) as error:
                # RuntimeError: nested deeper than Python can decode, if nobody limits the nesting.
                self._version = None  # A retry from the same version would fail again.
                self._log_interruption(error)
            # A watch that repeatedly ends at once is retried with a growing delay.
            failures = 0 if _now() - begun > LAST_RETRY_S else failures + 1
            await asyncio.sleep(delay_s(failures, FIRST_RETRY_S, most_s) if failures else 0)

    def _log_interruption(self, error: Exception) -> None:
        message = str(error) or type(error).__name__
        _log.warning("watch interrupted", path=self.collection.path, error=message)

    async def _list(self) -> None:
        """List all pages of one version; an expired continue token raises Gone."""
        listed = Copies(self._indexed)
        token = ""
        while True:
            query = self.collection.query(limit=str(CHUNK), **{"continue": token})
            page = await self._api.page(self.collection.path, query)
            # Items of a list lack kind and apiVersion, which an object read by name has.
            kind = str(page.get("kind", "")).removesuffix("List")
            for each in page["items"] or ():
                each.setdefault("kind", kind)
                each.setdefault("apiVersion", page.get("apiVersion"))
                listed.put(key_of(each), self._keep(each))
            meta = page["metadata"]
            token = meta.get("continue") or ""
            if not token:
                break
        self.lists += 1
        before, found = self.objects, listed.objects
        self.copies = listed
        self._version = str(meta["resourceVersion"])
        for key in before.keys() | found.keys():
            old, new = before.get(key), found.get(key)
            if old is None or new is None or _version_of(old) != _version_of(new):
                self._changed(old, new)

    async def _follow(self) -> None:
        """Run one watch from the last version, until the API server ends it."""
        query = self.collection.query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=str(self._version),
            timeoutSeconds=str(random.randint(WATCH_S - 60, WATCH_S)),
        )
        try:
            async with self._api.watch(self.collection.path, query, SILENCE_S) as events:
                self._ended_at = None
                async for event in events:
                    self._take_in(event["type"], event["object"])
        finally:
            if self._ended_at is None:
                self._ended_at = _now()

    def _take_in(self, kind: str, found: Object) -> None:
        if kind == "ERROR":
            raise _error_of(found)
        self._version = _version_of(found)
        if kind == "BOOKMARK":
            return
        key = key_of(found)
        if kind == "DELETED":
            self._changed(self.copies.pop(key) or found, None)
            return
        old = self.objects.get(key)
        self._changed(old, self.copies.put(key, self._keep(found)))


def _version_of(found: Object) -> str:
    return str(found["metadata"]["resourceVersion"])


def _error_of(status: Object) -> ApiError:
    code = int(status.get("code") or 0)
    return classify(code, str(status.get("reason")), str(status.get("message")))


def _now() -> float:
    return asyncio.get_running_loop().time()
