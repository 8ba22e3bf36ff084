"""A search of a whole namespace reads names alone, in chunks, and once for all who search at the same time."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from kubernetes.client import Configuration

from quorum_operator.desired.names import Owner
from quorum_operator.kube import client as module
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import Unavailable
from quorum_operator.kube.finding import Search, find_parts
from quorum_operator.kube.name_lists import NameLists
from support.member_objects import MemberObjects

PATH = "/api/v1/namespaces/n/pods"


class Reads:
    """Each waits to be let through; what it answers is how many had begun by then."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_through = asyncio.Event()
        self.fails = False

    async def __call__(self, path: str) -> frozenset[str]:
        self.begun += 1
        reported = frozenset({f"{path} {self.begun}"})
        await self.let_through.wait()
        if self.fails:
            raise Unavailable(503, "ServiceUnavailable", "")
        return reported


async def pause() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.requirement("OP-03")
async def test_hundred_concurrent_searches_share_two_reads_and_none_gets_an_older_result() -> None:
    reads = Reads()
    lists = NameLists(reads)
    first = asyncio.create_task(lists.names("a"))
    await pause()
    assert reads.begun == 1
    others = [asyncio.create_task(lists.names("a")) for _ in range(99)]
    await pause()
    assert reads.begun == 1, "the list in progress began too early, so the next one waits for it"
    reads.let_through.set()
    assert await first == {"a 1"}
    assert set(await asyncio.gather(*others)) == {frozenset({"a 2"})}
    assert reads.begun == 2
    assert await lists.names("a") == {"a 3"}, "lists were kept"


async def test_collections_are_read_independently() -> None:
    reads = Reads()
    lists = NameLists(reads)
    both = [asyncio.create_task(lists.names(each)) for each in ("a", "b")]
    await pause()
    assert reads.begun == 2
    reads.let_through.set()
    assert await asyncio.gather(*both) == [{"a 1"}, {"b 2"}]


async def test_cancelled_search_does_not_cancel_the_shared_read() -> None:
    reads = Reads()
    lists = NameLists(reads)
    gives_up, waits = (asyncio.create_task(lists.names("a")) for _ in range(2))
    await pause()
    gives_up.cancel()
    reads.let_through.set()
    assert await waits == {"a 1"}
    assert await lists.names("a") == {"a 2"}


async def test_read_error_is_raised_to_all_waiting_callers_and_the_next_one_reads_again() -> None:
    reads = Reads()
    reads.fails = True
    reads.let_through.set()
    lists = NameLists(reads)
    reported = await asyncio.gather(*(lists.names("a") for _ in range(3)), return_exceptions=True)
    assert {type(each) for each in reported} == {Unavailable}
    reads.fails = False
    assert await lists.names("a") == {"a 2"}


def test_names_are_listed_in_chunks_without_the_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_CHUNK", 2)
    requested: list[tuple[str, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        requested.append((request.headers["Accept"], dict(request.query)))
        at = int(request.query.get("continue", "0"))
        items = [{"metadata": {"name": f"p{number}"}} for number in range(at, min(at + 2, 5))]
        meta: dict[str, Any] = {"resourceVersion": "7"}
        if at + 2 < 5:
            meta["continue"] = str(at + 2)
        return web.json_response({"items": items, "metadata": meta})

    async def answer_nothing(request: web.Request) -> web.Response:
        """As a real API server does, where there is nothing."""
        return web.json_response({"items": None, "metadata": {"resourceVersion": "7"}})

    async def work() -> None:
        app = web.Application()
        app.router.add_get(PATH, answer)
        app.router.add_get("/empty", answer_nothing)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with KubeApi(Configuration(host=host)) as api:
            assert await api.names(PATH) == {"p0", "p1", "p2", "p3", "p4"}
            assert await api.names("/empty") == frozenset()
        await runner.cleanup()

    asyncio.run(work())
    assert [query for _, query in requested] == [
        {"limit": "2"},
        {"limit": "2", "continue": "2"},
        {"limit": "2", "continue": "4"},
    ]
    assert all("as=PartialObjectMetadataList" in accept for accept, _ in requested)


async def test_null_item_list_has_no_names() -> None:
    """An API server answers `"items": null` for an empty list of metadata alone."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"items": None, "metadata": {"resourceVersion": "7"}})

    app = web.Application()
    app.router.add_get(PATH, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with KubeApi(Configuration(host=host)) as api:
        assert await api.names(PATH) == frozenset()
        assert await api.find(PATH) == []
    await runner.cleanup()


@pytest.mark.requirement("OP-03")
def test_search_reads_no_object_of_another_quorum() -> None:
    api = MemberObjects()
    mine = Owner("q", "space", "uid-q")
    for owner in (mine, *(Owner(f"other{number}", "space", "uid") for number in range(20))):
        api.add_identity(owner)
        for node_id in (1, 2, 3):
            api.add_member(owner, node_id)
    for each in api.add_member(mine, 4):
        each["metadata"]["labels"] = {}
    seen = asyncio.run(find_parts(api, mine, Search(wide=True)))
    assert seen.sets.keys() == {(node_id, 1) for node_id in (1, 2, 3, 4)}
    assert sorted(api.reads) == [
        "/api/v1/namespaces/space/persistentvolumeclaims/data-q-4-1-0",
        "/api/v1/namespaces/space/pods/q-4-1-0",
        "/apis/apps/v1/namespaces/space/statefulsets/q-4-1",
    ]
