"""One user's object, nested as deeply as the API server allows, ends neither kopf's watch nor the operator's own one, which
serve all quorums.
"""

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import kopf
import pytest
import uvloop
from aiohttp import web
from kubernetes.client import Configuration

from quorum_operator import logs, run
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.copies import sharing
from quorum_operator.kube.depth import MOST_LEVELS, allow_all_depths
from quorum_operator.kube.watch import Collection, Watch

GROUP, VERSION, PLURAL = "example.test", "v1", "things"
BASE = f"/apis/{GROUP}/{VERSION}"
LEVELS = MOST_LEVELS - 10
"""The levels of the object around the nested field count as well."""


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def thing(name: str, spec: str = "{}") -> str:
    meta = json.dumps({"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"})
    return f'{{"apiVersion":"{GROUP}/{VERSION}","kind":"Thing","metadata":{meta},"spec":{spec}}}'


def discovered(path: str) -> dict[str, Any]:
    version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    verbs = ["get", "list", "watch", "patch"]
    kind = {"singularName": "", "namespaced": True, "verbs": verbs}
    documents: dict[str, dict[str, Any]] = {
        "/version": {"major": "1", "minor": "34"},
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"name": GROUP, "versions": [version], "preferredVersion": version}]},
        BASE: {"resources": [{"name": PLURAL, "kind": "Thing", **kind}]},
        "/api/v1": {
            "resources": [{"name": name, "kind": name, **kind} for name in ("events", "namespaces")]
        },
    }
    return documents[path]


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path != f"{BASE}/{PLURAL}":
        return web.json_response(discovered(request.path))
    listed = [thing("listed", nested(LEVELS)), thing("other")]
    if "watch" not in request.query:
        text = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{",".join(listed)}]}}'
        return web.Response(text=text, content_type="application/json")
    response = web.StreamResponse()
    await response.prepare(request)
    for each in (thing("watched", nested(LEVELS)), thing("later")):
        await response.write(f'{{"type":"ADDED","object":{each}}}\n'.encode())
    await asyncio.sleep(3600)
    return response


@asynccontextmanager
async def api_server() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


ALL = {"listed", "other", "watched", "later"}


async def test_kopf_reports_the_objects_of_others() -> None:
    allow_all_depths()
    registry, stop, seen = kopf.OperatorRegistry(), asyncio.Event(), set()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def changed(name: str | None, **_: Any) -> None:
        seen.add(name)
        if seen >= ALL:
            stop.set()

    async with api_server() as url, asyncio.timeout(20):

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=url)

        identity: Any = "test"
        await kopf.operator(
            registry=registry, standalone=True, clusterwide=True, stop_flag=stop, identity=identity
        )
    assert seen == ALL


async def test_the_copies_of_the_operator_are_complete() -> None:
    allow_all_depths()
    async with (
        api_server() as url,
        KubeApi(Configuration(host=url)) as api,
        asyncio.timeout(20),
    ):
        watch = Watch(api, Collection(f"{BASE}/{PLURAL}"), lambda old, new: None)
        task = asyncio.create_task(watch.run())
        while {name for _, name in watch.objects} != ALL and not task.done():  # noqa: ASYNC110 - the task is another's
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_stored_documents_are_copied_and_compared() -> None:
    allow_all_depths()
    one, other = (json.loads(nested(LEVELS)) for _ in range(2))
    assert sharing(one, other) is other
    assert copy.deepcopy(one) == other
    assert json.dumps(one, separators=(",", ":")) == nested(LEVELS)


def test_the_operator_allows_them_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    def ran(coroutine: Coroutine[Any, Any, None]) -> None:
        coroutine.close()
        limits.append(sys.getrecursionlimit())

    monkeypatch.setattr(run, "forbid_core_dumps", lambda: None)
    monkeypatch.setattr(
        run, "from_environment", lambda environment: SimpleNamespace(log_level="INFO")
    )
    monkeypatch.setattr(logs, "configure", lambda level: None)
    monkeypatch.setattr(uvloop, "run", ran)
    run.main()
    assert limits[0] > 2 * MOST_LEVELS
