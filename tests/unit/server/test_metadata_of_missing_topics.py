"""Metadata of topics that do not exist, as from a stock broker without automatic creation of topics."""

import pytest

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from quorum_node.server.broker.metadata_api import MetadataApi
from support.controlled_cluster import ControlledCluster
from support.hosted_replicas import ME, answered

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("version", [0, 4, 13])
@pytest.mark.parametrize(
    ("name", "error", "is_internal"),
    [
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ],
)
async def test_a_producer_learns_at_once_that_a_name_is_invalid(
    version: int, name: str, error: ErrorCode, is_internal: bool
) -> None:
    cluster = ControlledCluster((ME,))
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    body = MetadataRequest(topics=(MetadataRequestTopic(name=name),))
    (found,) = answered(api.metadata, METADATA, body, version).topics
    assert (found.error_code, found.name) == (error, name)
    assert version == 0 or found.is_internal == is_internal
