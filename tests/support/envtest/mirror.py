"""A local copy of one kind of object, updated by list and watch, with notifications of changes.

Owns the copy. Readers get whole objects and must not change them.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeAlias

import httpx

from support.envtest.kube_api import ApiError, Json, KubeApi, WatchEvent

Key: TypeAlias = tuple[str, str]

_RETRY_S = 0.2


def key_of(item: Json) -> Key:
    """(namespace, name); the namespace of a cluster-wide object is empty."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Mirror:
    """The objects under one collection path. `changed` is called after each difference."""

    def __init__(self, api: KubeApi, path: str, changed: Callable[[], None]) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self.objects: dict[Key, Json] = {}
        self.synced = asyncio.Event()

    def get(self, namespace: str, name: str) -> Json | None:
        return self.objects.get((namespace, name))

    def values(self) -> list[Json]:
        return list(self.objects.values())

    async def run(self) -> None:
        """Update the copy until cancelled; a broken or expired watch starts again with a list."""
        while True:
            with contextlib.suppress(httpx.HTTPError, ApiError):
                await self._follow()
            await asyncio.sleep(_RETRY_S)

    async def _follow(self) -> None:
        page = await self._api.call("GET", self._path)
        self.objects = {key_of(item): item for item in page["items"]}
        self.synced.set()
        self._changed()
        # A generator left by an exception keeps its connection open until it is closed explicitly.
        watch = self._api.watch(self._path, page["metadata"]["resourceVersion"])
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                if event.type == "ERROR":
                    return
                self._take_in(event)

    def _take_in(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED":
            self.objects.pop(key_of(event.object), None)
        else:
            self.objects[key_of(event.object)] = event.object
        self._changed()
