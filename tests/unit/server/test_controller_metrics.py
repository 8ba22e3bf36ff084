"""The controller's metrics of KIP-631 as values of a real node that follow what happens (K631-11)."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import encode_metadata
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.observing.metrics import STEP_SECONDS
from support.broker_requests import heartbeat, registration
from support.hosted_moves import moving_partitions
from support.hosted_node import Node, running_node
from support.metadata_records import config

pytestmark = pytest.mark.requirement("K631-11")


def value(node: Node, name: str, broker: int | None = None) -> float:
    """One sample of partition 0, as a scrape shows it."""
    wanted = {"partition": "0"} if broker is None else {"partition": "0", "broker": str(broker)}
    for family in text_string_to_metric_families(node.metrics.render().decode()):
        for sample in family.samples:
            if sample.name == f"metadata_quorum_{name}" and sample.labels == wanted:
                return sample.value
    raise AssertionError(f"no {name} {wanted}")


async def append(node: Node, count: int) -> None:
    """So many records, one after the other."""
    for number in range(count):
        await node.append(0, "k", str(number))


async def until(check: Callable[[], bool]) -> None:
    """Wait for a condition."""
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the condition did not come true")


@asynccontextmanager
async def registered_node(tmp_path: Path) -> AsyncIterator[Node]:
    """With a committed registration: nothing more is appended automatically."""
    async with running_node(tmp_path) as node:
        image = node.hosted.first.applier
        await until(lambda: len(image.image.controllers.by_id) == 1)
        await until(lambda: value(node, "metadata_lag") == 0)
        yield node


@pytest.mark.parametrize("records", [1, 7])
async def test_metadata_lag_counts_committed_and_unapplied_records(
    tmp_path: Path, records: int
) -> None:
    async with registered_node(tmp_path) as node:
        seen: list[float] = []
        values = tuple(encode_metadata(config(2, "t", f"k{n}", "v")) for n in range(records))
        done = asyncio.get_running_loop().create_future()

        def committed(outcome: Any) -> None:
            seen.append(value(node, "metadata_lag"))
            done.set_result(outcome)

        node.hosted.first.append(values, committed)
        await done
        assert seen == [records], "committed in this turn of the loop, applied in the next"
        await until(lambda: value(node, "metadata_lag") == 0)


async def test_broker_lag_counts_records_that_it_has_not_reported_as_applied(
    tmp_path: Path,
) -> None:
    async with moving_partitions(tmp_path) as moves:
        node = moves.node
        answer = await moves.ask(registration(9, cluster_id="c"))
        await moves.ask(heartbeat(9, answer.broker_epoch, answer.broker_epoch))
        await append(node, 6)
        for behind in (5, 2, 0):
            end = node.hosted.first.describe().high_watermark
            await moves.ask(heartbeat(9, answer.broker_epoch, end - 1 - behind))
            assert node.hosted.first.describe().high_watermark == end
            assert value(node, "broker_metadata_lag", 9) == behind
        before = value(node, "broker_metadata_lag", 9)
        await append(node, 3)
        assert value(node, "broker_metadata_lag", 9) == before + 3


async def test_snapshot_lag_grows_with_the_log_and_falls_with_a_new_snapshot(
    tmp_path: Path,
) -> None:
    async with registered_node(tmp_path) as node:
        host = node.hosted.first
        node.reserve.measure()
        assert value(node, "metadata_snapshot_lag") == 0, "there is no snapshot"
        for more in (3, 4):
            written = asyncio.get_running_loop().create_future()
            host.snapshotter.request(written.set_result)
            assert isinstance(await written, SnapshotId), written
            snapshot_end = host.describe().high_watermark
            assert value(node, "metadata_snapshot_lag") == 0
            for behind in range(1, more):
                await append(node, 1)
                assert value(node, "metadata_snapshot_lag") == behind
            assert host.describe().high_watermark == snapshot_end + more - 1


async def test_commit_latency_reflects_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with registered_node(tmp_path) as node:
        name = "commit_latency_seconds"
        before = value(node, f"{name}_count"), value(node, f"{name}_sum")
        began = time.perf_counter()
        await append(node, 5)
        quick = value(node, f"{name}_sum") - before[1]
        assert value(node, f"{name}_count") == before[0] + 5
        assert 0 < quick <= time.perf_counter() - began
        host, go_on = node.hosted.first, threading.Event()
        log, flush = host.log, host.log.flush
        loop, held_s = asyncio.get_running_loop(), 0.3

        def held() -> int:
            loop.call_soon_threadsafe(loop.call_later, held_s, go_on.set)
            go_on.wait(10)
            return flush()

        # The thread, which can be held up without the loop, does it.
        monkeypatch.setattr(log, "begin_sync", lambda elsewhere: False)
        monkeypatch.setattr(log, "flush", held)
        sum_before = value(node, f"{name}_sum")
        await append(node, 1)
        assert value(node, f"{name}_sum") - sum_before >= held_s
        total, count = value(node, f"{name}_sum"), value(node, f"{name}_count")
        assert value(node, "commit_latency_avg_seconds") == pytest.approx(total / count)


async def test_commit_rate_counts_commits(tmp_path: Path) -> None:
    async with registered_node(tmp_path) as node:
        replica = node.metrics.partition(0)
        total = value(node, "records_committed_total")
        await append(node, 12)
        assert value(node, "records_committed_total") == total + 12
        assert value(node, "records_committed_per_second") > 0
        now = time.monotonic()
        for step in range(8):  # the window goes by without a commit
            replica.window.step(now + step * STEP_SECONDS)
        assert value(node, "records_committed_per_second") == 0
        await append(node, 1)
        assert value(node, "records_committed_per_second") != 0


async def test_request_rate_counts_requests_and_rejections(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        node = moves.node
        replica = node.metrics.partition(0)
        total = value(node, "controller_requests_total")
        assert (await moves.ask(heartbeat(999, 1, 1))).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert (await moves.ask(registration(8, cluster_id="c"))).error_code == ErrorCode.NONE
        assert value(node, "controller_requests_total") == total + 2
        assert value(node, "controller_requests_per_second") > 0
        now = time.monotonic()
        for step in range(8):
            replica.window.step(now + step * STEP_SECONDS)
        assert value(node, "controller_requests_per_second") == 0
