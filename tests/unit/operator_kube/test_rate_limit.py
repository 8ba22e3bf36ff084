"""Limits of the calls to the API server: of all resources together, and of each one."""

import asyncio
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quorum_operator.crd import KIND
from quorum_operator.kube import client
from quorum_operator.kube.rate_limit import CallLimits, Limit, RateLimiter, TokenBucket, call_for
from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Next
from quorum_operator.settings import from_environment
from quorum_operator.workers import (
    RECONCILES_AT_ONCE,
    RECONCILES_PER_S,
    SIDE_BY_SIDE,
    Workers,
)


def test_token_bucket_allows_its_burst_and_then_its_rate() -> None:
    now = 50.0
    bucket = TokenBucket(10.0, 5, lambda: now)
    assert [bucket.take() for _ in range(5)] == [0.0] * 5
    assert [bucket.take() for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    now += 100
    assert bucket.full()
    assert [bucket.take() for _ in range(5)] == [0.0] * 5, "no more than it holds"
    assert bucket.take() > 0


class Answering:
    """A real client with a transport that responds at once, and counts."""

    def __init__(self) -> None:
        self.calls = 0
        configuration: Any = SimpleNamespace(
            host="http://api", get_api_key_with_prefix=lambda _: None
        )
        self.api = client.KubeApi(configuration, limits=SMALL)
        self.api._http = httpx.AsyncClient(
            base_url="http://api", transport=httpx.MockTransport(self._answer)
        )

    def _answer(self, _: httpx.Request) -> httpx.Response:
        self.calls += 1
        return httpx.Response(200, content=json.dumps({"items": []}))

    async def call_without_end(self, resource: str) -> None:
        call_for(resource)
        while True:
            await self.api.get("/x")


SMALL = CallLimits(Limit(200.0, 60), Limit(20.0, 10))


def run_for(seconds: float, *running: Any, until: Callable[[], bool] = lambda: True) -> None:
    """At least so long, and until this holds."""

    async def run() -> None:
        tasks = [asyncio.create_task(each) for each in running]
        await asyncio.sleep(seconds)
        async with asyncio.timeout(60):
            while not until():  # noqa: ASYNC110 - the calls have no event
                await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_endless_caller_is_rate_limited() -> None:
    server = Answering()
    began = time.monotonic()
    run_for(1.0, server.call_without_end("a"), until=lambda: server.calls > 10)
    took_s = time.monotonic() - began
    assert 10 < server.calls <= 10 + 20 * took_s + 1


def test_total_of_all_callers_is_rate_limited() -> None:
    server = Answering()
    began = time.monotonic()
    callers = (server.call_without_end(f"r{each}") for each in range(40))
    run_for(1.0, *callers, until=lambda: server.calls > 60)
    took_s = time.monotonic() - began
    assert 60 < server.calls <= 60 + 200 * took_s + 40


def test_endless_caller_does_not_delay_other_callers() -> None:
    limiter = RateLimiter(SMALL)

    async def greedy() -> None:
        call_for("greedy")
        while True:
            await limiter.admit()

    async def other() -> float:
        call_for("other")
        began = time.monotonic()
        await limiter.admit()
        return time.monotonic() - began

    async def run() -> float:
        """The calmest of some rounds: other work on the machine delays single ones."""
        task = asyncio.create_task(greedy())
        waited_s = []
        for _ in range(5):
            await asyncio.sleep(0.3)
            waited_s.append(await asyncio.create_task(other()))
        task.cancel()
        return min(waited_s)

    assert asyncio.run(run()) < 0.1


def test_plan_that_never_converges_causes_few_reconciles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is planned, and however often the worker is woken."""

    class Endless:
        times = 0

        async def reconcile(self, namespace: str, name: str) -> Next:
            self.times += 1
            return Next(0.0)

    endless = Endless()
    workers = Workers(KIND, endless, Metrics(), 10.0)

    async def waking() -> None:
        workers.ensure("s", "n")
        while True:
            workers.ensure("s", "n")
            await asyncio.sleep(0)

    began = time.monotonic()
    run_for(1.5, waking())
    took_s = time.monotonic() - began
    assert endless.times <= RECONCILES_AT_ONCE + RECONCILES_PER_S * took_s + 1


def test_concurrency_of_reconciles_is_limited_and_every_resource_gets_a_turn() -> None:
    """When an operator starts all of them are due at once."""
    names = {f"q{number}" for number in range(4 * SIDE_BY_SIDE)}

    class Counting:
        running = most = 0

        def __init__(self) -> None:
            self.done: set[str] = set()
            self.all_done = asyncio.Event()

        async def reconcile(self, namespace: str, name: str) -> Next:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            self.done.add(name)
            if self.done == names:
                self.all_done.set()
            return Next(60.0)

    async def run() -> Counting:
        counting = Counting()
        workers = Workers(KIND, counting, Metrics(), 60.0)
        for name in names:
            workers.ensure("s", name)
        await counting.all_done.wait()
        await workers.stop()
        return counting

    counting = asyncio.run(asyncio.wait_for(run(), 60))
    assert counting.most == SIDE_BY_SIDE


def test_queued_calls_wait_for_their_turn_and_none_times_out_by_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow real server: a hundred calls at once, some of them cancelled, take longer than the timeout of one."""
    # Whoever comes last waits for a place for longer than a call may take; no call by itself takes a fifth of that.
    monkeypatch.setattr(client, "TIMEOUT_S", 4.0)

    class Slow:
        open = most = 0

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.readline():
                while (await reader.readline()).strip():
                    pass
                self.open += 1
                self.most = max(self.most, self.open)
                await asyncio.sleep(0.7)
                self.open -= 1
                body = b'{"items": []}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            writer.close()

    async def run() -> tuple[list[Any], int]:
        slow = Slow()
        server = await asyncio.start_server(slow.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        configuration: Any = SimpleNamespace(
            host=f"http://127.0.0.1:{port}", get_api_key_with_prefix=lambda _: None
        )
        async with client.KubeApi(configuration) as api:
            calls = [asyncio.create_task(api.get("/x")) for _ in range(10 * client.CALLS_AT_ONCE)]
            await asyncio.sleep(0.2)
            given_up = calls[::4]
            for each in given_up:
                each.cancel()
            answers = await asyncio.gather(
                *(each for each in calls if each not in given_up), return_exceptions=True
            )
        server.close()
        return answers, slow.most

    answers, most = asyncio.run(asyncio.wait_for(run(), 60))
    assert [each for each in answers if isinstance(each, BaseException)] == []
    assert most <= client.CALLS_AT_ONCE + client.CALLS_AT_ONCE // 4, (
        "cancelled callers may still be served"
    )


def test_rate_limits_come_from_the_environment() -> None:
    prefix = "METADATAQUORUM_OPERATOR_"
    environment = {
        f"{prefix}API_CALLS_PER_SECOND": "12.5",
        f"{prefix}API_BURST": "30",
        f"{prefix}RESOURCE_CALLS_PER_SECOND": "2",
        f"{prefix}RESOURCE_BURST": "7",
    }
    wanted = CallLimits(Limit(12.5, 30), Limit(2.0, 7))
    assert from_environment(environment).call_limits == wanted
    assert from_environment({}).call_limits == CallLimits()
    for name in environment:
        for wrong in ("0", "-3", "many", "nan", "inf"):
            with pytest.raises(ValueError, match=f"{name}={wrong}: expected a positive"):
                from_environment({**environment, name: wrong})
    with pytest.raises(ValueError, match=r"RESOURCE_BURST=2\.5: expected a positive whole number"):
        from_environment({f"{prefix}RESOURCE_BURST": "2.5"})
