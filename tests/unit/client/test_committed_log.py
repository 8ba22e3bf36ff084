"""Committed records, read while a deposed leader of stock Kafka still answers."""

from typing import Any

import pytest

from quorum_node.client import committed_log
from quorum_node.client.committed_log import CommittedLog, CommittedLogError
from quorum_node.client.connections import Address, Connections
from quorum_node.protocol import fetch as wire
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.batches import encode_values

OLD, NEW = ("old", 9093), ("new", 9093)


class Server:
    """A leader of its epoch, with a record at each offset below `end`, whose value is its name. `start`: of its log."""

    def __init__(
        self, name: bytes, epoch: int, high_watermark: int, end: int, start: int = 0
    ) -> None:
        self._name, self._epoch, self._end, self._start = name, epoch, end, start
        self._high_watermark = high_watermark

    def fetch(self, wanted: wire.FetchPartition) -> wire.FetchResponsePartition:
        code, records = ErrorCode.NONE, b""
        if wanted.current_leader_epoch != self._epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif not self._start <= wanted.fetch_offset <= self._end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            records = b"".join(map(self._record, range(wanted.fetch_offset, self._end)))
        return wire.FetchResponsePartition(
            partition_index=0,
            error_code=code,
            high_watermark=self._high_watermark,
            log_start_offset=self._start,
            current_leader=wire.LeaderIdAndEpoch(leader_id=1, leader_epoch=self._epoch),
            records=records,
        )

    def _record(self, offset: int) -> bytes:
        return encode_values(
            base_offset=offset, leader_epoch=self._epoch, timestamp_ms=1, values=[self._name]
        )


class Servers(Connections):
    """In place of sockets. `asked`: the servers, in order."""

    def __init__(self, servers: dict[Address, Server]) -> None:
        super().__init__("test")
        self._servers = servers
        self.asked: list[Address] = []

    def ask(self, address: Address, api: Any, version: int, body: Any, *others: Any) -> Any:
        self.asked.append(address)
        part = self._servers[address].fetch(body.topics[0].partitions[0])
        topic = wire.FetchResponseTopic(topic_id=body.topics[0].topic_id, partitions=(part,))
        return wire.FetchResponse(responses=(topic,))


def opened(servers: dict[Address, Server], timeout_seconds: float = 5.0) -> CommittedLog:
    log = CommittedLog(list(servers), timeout_seconds, client_id="test")
    log._connections = Servers(servers)
    return log


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_log, "_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("offset", [90, 93, 96], ids=["uncommitted", "later", "behind its end"])
def test_records_that_are_not_committed_on_a_deposed_leader_are_read_from_the_new_one(
    offset: int,
) -> None:
    servers = {
        OLD: Server(b"old", epoch=0, high_watermark=90, end=95),
        NEW: Server(b"new", epoch=1, high_watermark=97, end=97),
    }
    log = opened(servers)
    (found,) = log.read(offset, offset + 1)
    assert found.header.leader_epoch == 1
    assert b"new" in bytes(found.data)


def test_deposed_leader_alone_returns_no_record_that_is_not_committed() -> None:
    log = opened({OLD: Server(b"old", epoch=0, high_watermark=90, end=95)}, timeout_seconds=0.0)
    assert [each.header.base_offset for each in log.read(88, 90)] == [88, 89]
    with pytest.raises(CommittedLogError, match="old:9093 has committed records up to 90, not 91"):
        log.read(90, 91)


def test_offset_that_the_log_does_not_have_any_more_is_an_error_at_once() -> None:
    log = opened({OLD: Server(b"old", epoch=0, high_watermark=90, end=95, start=50)})
    with pytest.raises(CommittedLogError, match="has no offset 40: it begins at 50"):
        log.read(40, 60)
