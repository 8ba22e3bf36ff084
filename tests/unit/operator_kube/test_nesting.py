"""One user's object, nested as deeply as the API server allows, ends neither kopf's watch nor the operator's own one, which
serve all quorums.
"""

import asyncio
import copy
import json
import time
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
from quorum_operator.kube.watch import Collection, Watch
from quorum_operator.nesting import LEFT_OUT, MOST_LEVELS, limit_nesting, shallow

GROUP, VERSION, PLURAL = "example.test", "v1", "things"
BASE = f"/apis/{GROUP}/{VERSION}"
LEVELS = 9_990
"""The API server's limit is 10000, and the levels of the object around the nested field count as well."""


@pytest.fixture(autouse=True)
def decoder() -> Iterator[None]:
    """As in the operator's process. Python's own limit stays as it is: 1000 calls."""
    before = json._default_decoder  # type: ignore[attr-defined]
    limit_nesting()
    yield
    json._default_decoder = before  # type: ignore[attr-defined]


def nested(levels: int, inner: str = "1") -> str:
    return '{"a":' * levels + inner + "}" * levels


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


def test_documents_are_copied_compared_and_written() -> None:
    one, other = (json.loads(nested(LEVELS)) for _ in range(2))
    assert sharing(one, other) is other
    assert copy.deepcopy(one) == other
    assert json.dumps(one, separators=(",", ":")) == nested(MOST_LEVELS, LEFT_OUT)


@pytest.mark.parametrize("text", ["", "{", "[" * LEVELS, "]" * LEVELS, '{"a":"' + "[" * LEVELS])
def test_incomplete_documents_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json.loads(text)


def test_answer_that_was_cut_within_a_string_is_refused_at_once() -> None:
    """An annotation of `kubectl apply` is a JSON document with thousands of quotes."""
    text = "[{}" + ", {}" * MOST_LEVELS + ', {"annotation": "' + r"\"x" * 30_000
    began = time.process_time()
    with pytest.raises(ValueError, match="Unterminated string"):
        json.loads(text)
    assert time.process_time() - began < 1.0


def test_only_what_is_too_deep_is_left_out() -> None:
    tricky = r'"\\\"]}[{", "\\", 1.5e3'
    for levels in (0, 1, MOST_LEVELS - 2):
        text = nested(levels, f"[{tricky}, {{}}]")
        assert shallow(text) == text
        json.loads(text)
    inner = f'{{"before": [{tricky}], "deep": {nested(LEVELS, f"[{tricky}]")}, "after": {{"x": [{tricky}]}}}}'
    found = json.loads(f"[{inner}, {tricky}]")
    assert found[1:] == json.loads(f"[{tricky}]")
    assert found[0]["before"] == found[0]["after"]["x"] == found[1:]
    assert json.dumps(found[0]["deep"], separators=(",", ":")) == nested(MOST_LEVELS - 2, LEFT_OUT)


def test_many_brackets_are_not_deep() -> None:
    text = json.dumps([{"name": "[" * n, "ports": [[n], {}]} for n in range(MOST_LEVELS)])
    assert shallow(text) is text
    assert json.loads(text.encode())[-1]["ports"][0] == [MOST_LEVELS - 1]


def test_the_operator_limits_them_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def ran(coroutine: Coroutine[Any, Any, None]) -> None:
        coroutine.close()
        read.append(json.loads(nested(LEVELS)))

    json._default_decoder = json.JSONDecoder()  # type: ignore[attr-defined]
    monkeypatch.setattr(run, "forbid_core_dumps", lambda: None)
    monkeypatch.setattr(
        run, "from_environment", lambda environment: SimpleNamespace(log_level="INFO")
    )
    monkeypatch.setattr(logs, "configure", lambda level: None)
    monkeypatch.setattr(uvloop, "run", ran)
    run.main()
    assert read
