"""A replica's own committed log as record batches: exactly its bytes, bounded in size and time, in slices, with the rights of the page."""

import asyncio
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from quorum_node.api import ErrorCode
from quorum_node.records.batches import Batch, encode_values, split_batches
from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller
from quorum_node.server.admin import log_batches
from quorum_node.server.admin.log_batches import MAX_BYTES, committed_pieces
from quorum_node.server.admin.paced import Pace
from quorum_node.storage.errors import StorageFailure
from support.hosted_node import Node, running_node

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


async def ask(client: httpx.AsyncClient, offset: int, **more: object) -> httpx.Response:
    where = {"format": "batches", "fromOffset": offset, **more}
    return await client.get("/v1/log", params={name: str(each) for name, each in where.items()})


def batches_in(answer: httpx.Response) -> list[Batch]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(answer.content)
    found, rest = split_batches(answer.content)
    assert rest == 0
    return found


async def filled(node: Node, count: int, size: int = 100) -> None:
    for number in range(count):
        await node.append(0, f"key-{number}", "x" * size)


async def test_batches_are_the_bytes_of_the_log_up_to_the_high_watermark(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        await filled(node, 20)
        host = node.hosted.hosts[0]
        end = host.describe().high_watermark
        answer = await ask(client, 0)
        found = batches_in(answer)
        assert answer.content == host.log.read(0, 1 << 30, end)
        assert found[-1].header.end_offset == end
        assert all(a.header.end_offset == b.header.base_offset for a, b in pairwise(found))
        page = (await client.get("/v1/log")).json()
        assert answer.headers["quorum-node-id"] == str(page["nodeId"])
        assert answer.headers["quorum-high-watermark"] == str(page["highWatermark"])
        assert answer.headers["quorum-log-start-offset"] == str(page["logStartOffset"])
        assert batches_in(await ask(client, end)) == []
        assert batches_in(await ask(client, end + 1_000)) == []
        other = await ask(client, 0, partition=1)
        assert other.content == node.hosted.hosts[1].log.read(0, 1 << 30, 1 << 60)


async def test_each_answer_begins_with_the_batch_of_its_offset_and_is_bounded(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        await filled(node, 30, 10_000)
        whole = batches_in(await ask(client, 0))
        for limit in (1, 5_000, 100_000):
            offset, found = 0, []
            while more := batches_in(await ask(client, offset, maxBytes=limit)):
                assert more[0].header.base_offset <= offset < more[0].header.end_offset
                assert sum(len(each.data) for each in more[:-1]) < limit
                found += more
                offset = more[-1].header.end_offset
            assert [each.header for each in found] == [each.header for each in whole]
        for wrong in (0, MAX_BYTES + 1):
            assert (await ask(client, 0, maxBytes=wrong)).status_code == 422
        assert (await client.get("/v1/log", params={"format": "xml"})).status_code == 422


class Log:
    """A log of many small batches; the callback is called before each read."""

    start_offset = 0

    def __init__(self, batches: int) -> None:
        self._batch_bytes = len(self._batch(0))
        self.end_offset = batches
        self.reads = 0

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        self.reads += 1
        count = max(max_bytes // self._batch_bytes, 1)
        end = min(start_offset + count, limit_offset, self.end_offset)
        return b"".join(map(self._batch, range(start_offset, end)))

    def _batch(self, offset: int) -> bytes:
        return encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=5, values=(b"value",))


class Counted(Pace):
    """Counts the opportunities for a pause."""

    rests = 0

    async def rest(self) -> None:
        self.rests += 1
        await asyncio.sleep(0)


async def test_long_answers_are_read_in_slices() -> None:
    log, pace = Log(20_000), Counted()
    pieces = await committed_pieces(log, 0, log.end_offset, MAX_BYTES, pace)
    assert MAX_BYTES <= pieces.size_bytes < MAX_BYTES + 1000
    assert pace.rests == log.reads >= 16


async def test_time_of_one_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(20_000)
    monkeypatch.setattr(log_batches, "MAX_SECONDS", 0.0)
    pieces = await committed_pieces(log, 0, log.end_offset, MAX_BYTES, Pace())
    assert (log.reads, pieces.size_bytes > 0) == (1, True)


async def test_records_that_a_snapshot_replaces_meanwhile_are_not_read() -> None:
    log = Log(20_000)

    class Deleting(Pace):
        async def rest(self) -> None:
            log.start_offset = 15_000

    pieces = await committed_pieces(log, 0, log.end_offset, MAX_BYTES, Deleting())
    assert (log.reads, 0 < pieces.size_bytes < MAX_BYTES) == (1, True)


async def test_offset_before_the_log_and_a_failed_disk_are_told_as_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        log = node.hosted.hosts[0].log

        def failing(*asked: int) -> bytes:
            raise StorageFailure("EIO")

        monkeypatch.setattr(type(log), "read", failing)
        answer = await ask(client, 0)
        assert (answer.status_code, answer.json()["code"]) == (503, ErrorCode.STORAGE_FAILED)
        monkeypatch.setattr(log, "start_offset", 2)
        answer = await ask(client, 1)
        assert answer.status_code == 410
        assert answer.json()["code"] == ErrorCode.OFFSET_BEFORE_LOG_START


async def test_batches_need_the_right_to_read_the_log(tmp_path: Path) -> None:
    async with running_node(tmp_path, AUTHORIZER) as node:
        stranger = Caller(ANONYMOUS_PRINCIPAL, "10.1.1.1", "ADMIN")
        async with node.client("token", stranger) as client:
            answer = await ask(client, 0)
            assert (answer.status_code, answer.json()["code"]) == (401, ErrorCode.UNAUTHORIZED)
            client.headers["authorization"] = "Bearer token"
            assert batches_in(await ask(client, 0))
