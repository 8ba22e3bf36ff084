"""DeleteRecords waits until all live replicas have deleted the records, at most for the request's timeout."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quorum_node.image.resource_types import TOPIC
from quorum_node.protocol.broker_apis import BROKER_APIS, DELETE_RECORDS
from quorum_node.protocol.delete_records import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, decode_response, encode_request
from quorum_node.records.batches import Record
from quorum_node.records.metadata import ConfigRecord
from quorum_node.security.caller import ANONYMOUS
from quorum_node.server.broker.delete_records_api import DeleteRecordsApi
from quorum_node.server.listener.port import InboundRequest
from support.data_batches import data_batch
from support.hosted_node import OneConnection
from support.hosted_replicas import ME, OTHER, HostedReplicas, produce

pytestmark = pytest.mark.virtual_time
TIMEOUT_SECONDS = 5


class Deletion:
    """All records of a topic of two replicas are to be deleted. This broker leads, and has deleted its own."""

    def __init__(self, root: Path, policy: str = "delete") -> None:
        self.hosted = HostedReplicas(root)
        self.leader = self.hosted.create("t", (ME, OTHER))
        cluster = self.hosted.cluster
        record = ConfigRecord(
            resource_type=TOPIC, resource_name="t", name="cleanup.policy", value=policy
        )
        cluster.replay([record])
        self.hosted.replicas.apply(cluster.image)
        data = data_batch(0, records=[Record(b"k", b"v")]).data
        assert isinstance(data, bytes)
        assert produce(self.leader, data)
        self.end_offset = self.leader.core.end_offset
        self.fetched(start_offset=0)
        assert self.leader.core.high_watermark == self.end_offset
        asked = (DeleteRecordsPartition(partition_index=0, offset=TO_HIGH_WATERMARK),)
        body = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name="t", partitions=asked),),
            timeout_ms=TIMEOUT_SECONDS * 1000,
        )
        version = DELETE_RECORDS.max_version
        frame = encode_request(DELETE_RECORDS, version, 1, "a client", body)[SIZE_BYTES:]
        self._inbound = InboundRequest(
            OneConnection(ANONYMOUS), decode_request(frame, BROKER_APIS), 0.0
        )
        DeleteRecordsApi(self.hosted.replicas).handle(self._inbound, body)

    def fetched(self, start_offset: int) -> None:
        """The follower has all records from `start_offset` on."""
        core, epoch = self.leader.core, self.hosted.cluster.epoch(OTHER)
        self.leader.follower_fetched(
            OTHER, epoch, core.leader_epoch, self.end_offset, core.leader_epoch, start_offset
        )

    def answer(self) -> Any:
        """(error, low watermark); None as long as there is no answer."""
        if self._inbound.encoded is None:
            return None
        data = b"".join(self._inbound.encoded)[SIZE_BYTES:]
        found: Any = decode_response(DELETE_RECORDS, DELETE_RECORDS.max_version, data)
        (each,) = found.topics[0].partitions
        return each.error_code, each.low_watermark


async def test_answer_follows_the_last_replica(tmp_path: Path) -> None:
    s = Deletion(tmp_path)
    await asyncio.sleep(1)
    assert s.answer() is None
    s.fetched(start_offset=s.end_offset)
    await asyncio.sleep(0)
    assert s.answer() == (ErrorCode.NONE, s.end_offset)
    s.hosted.close()


async def test_replica_that_deletes_nothing_in_time_is_an_error(tmp_path: Path) -> None:
    s = Deletion(tmp_path)
    await asyncio.sleep(TIMEOUT_SECONDS + 1)
    assert s.answer() == (ErrorCode.REQUEST_TIMED_OUT, 0)
    s.hosted.close()


async def test_replica_on_a_broker_that_has_ended_is_no_error_at_the_timeout(
    tmp_path: Path,
) -> None:
    s = Deletion(tmp_path)
    s.hosted.cluster.fence(OTHER)
    s.hosted.replicas.apply(s.hosted.cluster.image)
    await asyncio.sleep(TIMEOUT_SECONDS + 1)
    assert s.answer() == (ErrorCode.NONE, s.end_offset)
    s.hosted.close()


@pytest.mark.parametrize("policy", ["", "delete", "compact,delete"])
async def test_records_can_be_deleted_unless_the_topic_is_only_compacted(
    tmp_path: Path, policy: str
) -> None:
    """Without any policy, as stock controllers allow, nothing but such a request deletes records."""
    s = Deletion(tmp_path, policy)
    s.fetched(start_offset=s.end_offset)
    await asyncio.sleep(0)
    assert s.answer() == (ErrorCode.NONE, s.end_offset)
    s.hosted.close()


async def test_records_of_a_compacted_topic_can_not_be_deleted(tmp_path: Path) -> None:
    s = Deletion(tmp_path, "compact")
    assert s.answer() == (ErrorCode.POLICY_VIOLATION, -1)
    s.hosted.close()
