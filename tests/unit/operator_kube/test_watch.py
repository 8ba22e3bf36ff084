"""A watched collection: a list in chunks, then a watch that is resumed after an interruption, and how its gaps are handled.

The API server is an HTTP server of the test with prepared responses; the client is the operator's own.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from kubernetes.client import Configuration

from quorum_operator.kube import watch as module
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.watch import Collection, Watch

Json = dict[str, Any]
PATH = "/api/v1/pods"


def pod(name: str, version: int, **meta: Any) -> Json:
    return {"metadata": {"namespace": "n", "name": name, "resourceVersion": str(version), **meta}}


def page(*items: Json, version: int, token: str = "") -> Json:
    meta = {"resourceVersion": str(version), "continue": token}
    return {"kind": "PodList", "apiVersion": "v1", "items": list(items), "metadata": meta}


def event(kind: str, found: Json) -> bytes:
    return json.dumps({"type": kind, "object": found}, ensure_ascii=False).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def expired() -> Json:
    return {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version",
    }


class Hang:
    """The watch stays open and brings nothing more."""


class Cut:
    """The connection breaks in the middle of a line."""


Part = bytes | type[Hang] | type[Cut]


@dataclass
class Server:
    """Responds in the order given; `requested` are the queries. A request without a prepared response hangs."""

    lists: deque[Json | int] = field(default_factory=deque)
    watches: deque[list[Part] | int] = field(default_factory=deque)
    requested: list[Json] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requested.append(query)
        if "watch" in query:
            return await self._watch(request)
        reported = self.lists.popleft()
        if isinstance(reported, int):
            return web.json_response({**expired(), "code": reported}, status=reported)
        return web.json_response(reported)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        parts = self.watches.popleft() if self.watches else [Hang]
        if isinstance(parts, int):
            return web.json_response({**expired(), "code": parts}, status=parts)
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            if part is Hang:
                await asyncio.sleep(3600)
            elif part is Cut:
                await response.write(b'{"type": "MODI')
                assert request.transport is not None
                request.transport.abort()
            else:
                assert isinstance(part, bytes)
                await response.write(part)
        return response

    @property
    def versions(self) -> list[str]:
        """The resource version at the start of each watch."""
        return [query["resourceVersion"] for query in self.requested if "watch" in query]


@asynccontextmanager
async def watching(server: Server) -> AsyncIterator[tuple[Watch, list[tuple[str, str]]]]:
    app = web.Application()
    app.router.add_get(PATH, server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    reported: list[tuple[str, str]] = []

    def changed(old: Json | None, new: Json | None) -> None:
        kind = "gone" if new is None else "new" if old is None else "changed"
        reported.append((kind, (new or old or {})["metadata"]["name"]))

    async with KubeApi(configuration) as api:
        watch = Watch(api, Collection(PATH, "a=b"), changed)
        task = asyncio.create_task(watch.run())
        try:
            yield watch, reported
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await runner.cleanup()


async def until(holds: Callable[[], object], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - the server is another task's
            await asyncio.sleep(0.01)


def names(watch: Watch) -> list[str]:
    return sorted(name for _, name in watch.objects)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(module, "LAST_RETRY_S", 0.05)


async def test_long_list_is_read_in_chunks_with_one_selector() -> None:
    server = Server(
        deque([page(pod("x", 1), version=7, token="more"), page(pod("y", 2), version=7)])
    )
    async with watching(server) as (watch, reported):
        assert not watch.is_current()
        await until(watch.is_current)
        await until(lambda: server.versions)
    assert names(watch) == ["x", "y"]
    assert sorted(reported) == [("new", "x"), ("new", "y")]
    first, second, followed = server.requested[:3]
    assert (first["limit"], second["limit"]) == (str(module.CHUNK),) * 2
    assert "continue" not in first
    assert second["continue"] == "more"
    assert {query["labelSelector"] for query in server.requested} == {"a=b"}
    assert (followed["resourceVersion"], followed["allowWatchBookmarks"]) == ("7", "true")


@pytest.mark.requirement("OP-03")
async def test_events_during_a_watch_interruption_are_delivered_without_a_list() -> None:
    added = [event("ADDED", pod("y", 12)), event("DELETED", pod("x", 13)), Hang]
    server = Server(
        deque([page(pod("x", 1), version=7)]),
        deque([[event("MODIFIED", pod("x", 9)), bookmark(11), Cut], added]),
    )
    async with watching(server) as (watch, reported):
        await until(lambda: names(watch) == ["y"])
        assert watch.is_current()
    assert server.versions[:2] == ["7", "11"]
    assert watch.lists == 1
    assert reported == [("new", "x"), ("changed", "x"), ("new", "y"), ("gone", "x")]


@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("reported_by", ["status", "event"])
async def test_expired_version_causes_a_list_and_deleted_objects_are_removed(
    reported_by: str,
) -> None:
    refused: Any = 410 if reported_by == "status" else [event("ERROR", expired())]
    server = Server(
        deque(
            [
                page(pod("x", 1), pod("y", 2), version=7),
                page(pod("y", 2), pod("z", 20), version=30),
            ]
        ),
        deque([refused]),
    )
    async with watching(server) as (watch, reported):
        await until(lambda: server.versions[1:])
        assert names(watch) == ["y", "z"]
    assert server.versions[1] == "30"
    assert reported[2:] == [("gone", "x"), ("new", "z")] or reported[2:] == [
        ("new", "z"),
        ("gone", "x"),
    ]


async def test_listed_objects_have_their_kind_and_version() -> None:
    async with watching(Server(deque([page(pod("x", 1), version=7)]))) as (watch, _):
        await until(watch.is_current)
    found = watch.objects["n", "x"]
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")


async def test_expired_continue_token_restarts_the_list() -> None:
    server = Server(
        deque([page(pod("x", 1), version=7, token="old"), 410, page(pod("y", 2), version=9)])
    )
    async with watching(server) as (watch, _):
        await until(watch.is_current)
        assert names(watch) == ["y"], "pages of two lists were mixed"
    assert "continue" not in server.requested[2]


@pytest.mark.requirement("OP-03")
async def test_other_watch_errors_do_not_end_the_watch() -> None:
    """An API server that restarts sends an error event in a watch; kopf would end the operator."""
    error = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"}
    server = Server(
        deque([page(pod("x", 1), version=7)]),
        deque([[event("ERROR", error)], 503, 429, [event("MODIFIED", pod("x", 8)), Hang]]),
    )
    async with watching(server) as (watch, reported):
        await until(lambda: ("changed", "x") in reported)
        assert watch.is_current()
    assert watch.lists == 1


async def test_watched_document_may_contain_line_separator_characters() -> None:
    note = "next line: \x85, separators: \u2028 \u2029, feed: \x0c"
    server = Server(
        deque([page(version=7)]),
        deque([[event("ADDED", pod("x", 8, annotations={"note": note})), Hang]]),
    )
    async with watching(server) as (watch, _):
        await until(lambda: names(watch) == ["x"], timeout_s=30)
    assert watch.objects["n", "x"]["metadata"]["annotations"] == {"note": note}


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize("line", [b"no JSON\n", DEEP + b"\n"])
async def test_unreadable_event_causes_a_new_list(line: bytes) -> None:
    server = Server(
        deque([page(version=7), page(pod("x", 8), version=9)]),
        deque([[line]]),
    )
    async with watching(server) as (watch, _):
        await until(lambda: names(watch) == ["x"])


async def test_silent_watch_is_closed_and_the_collection_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch cache that etcd sends nothing to is silent, also to a watch that resumes."""
    monkeypatch.setattr(module, "SILENCE_S", 0.2)
    server = Server(
        deque([page(version=7), page(pod("x", 8), version=9)]), deque([[Hang] for _ in range(100)])
    )
    async with watching(server) as (watch, _):
        await until(lambda: names(watch) == ["x"], timeout_s=30)


def test_silence_is_longer_than_the_period_of_bookmarks_and_settles_within_two_minutes() -> None:
    assert 60 < module.SILENCE_S < 120


async def test_watch_that_ends_immediately_is_repeated_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(module, "LAST_RETRY_S", 1.0)
    server = Server(deque([page(version=7)]), deque([[] for _ in range(1000)]))
    async with watching(server):
        await asyncio.sleep(1.5)
    assert len(server.versions) <= 8


@pytest.mark.requirement("OP-03")
async def test_cache_becomes_stale_shortly_after_its_watch_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TRUSTED_S", 3600.0)
    server = Server(deque([page(pod("x", 1), version=7)]), deque([[Cut], *([503] * 1000)]))
    async with watching(server) as (watch, _):
        await until(lambda: len(server.versions) > 2)
        assert watch.is_current()
        monkeypatch.setattr(module, "TRUSTED_S", 0.2)
        await until(lambda: not watch.is_current(), timeout_s=30)
        assert names(watch) == ["x"]
