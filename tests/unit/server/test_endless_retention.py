"""An empty cleanup.policy: a broker neither deletes nor compacts, and records can still be deleted on request."""

from pathlib import Path

import pytest

from quorum_node.protocol.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.server.broker.delete_records_api import DeleteRecordsApi
from support.hosted_replicas import HostedReplicas, answered

pytestmark = pytest.mark.virtual_time


async def test_a_topic_without_a_policy_keeps_its_segments(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    settings = hosted.create("t", **{"cleanup.policy": ""}).log.settings
    assert (settings.deletes, settings.compacts) == (False, False)
    partition = DeleteRecordsPartition(partition_index=0, offset=0)
    body = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name="t", partitions=(partition,)),), timeout_ms=0
    )
    (topic,) = answered(DeleteRecordsApi(hosted.replicas).handle, DELETE_RECORDS, body).topics
    assert topic.partitions[0].error_code == 0
    hosted.close()
