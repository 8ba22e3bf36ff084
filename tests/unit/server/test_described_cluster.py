"""DescribeCluster of a broker: which endpoints it has, and that it names itself only if clients can use it."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_node.protocol.describe import DESCRIBE_CLUSTER, DescribeClusterRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import NodeEndpoint
from quorum_node.server.broker.metadata_api import MetadataApi
from support.controlled_cluster import ControlledCluster
from support.hosted_replicas import ME, OTHER, answered

pytestmark = pytest.mark.virtual_time


def described(cluster: ControlledCluster, endpoint_type: int = 1) -> Any:
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    body = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=endpoint_type
    )
    return answered(api.describe_cluster, DESCRIBE_CLUSTER, body)


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_endpoints_of_another_type_are_refused(endpoint_type: int, error: ErrorCode) -> None:
    answer = described(ControlledCluster((ME, OTHER)), endpoint_type)
    assert answer.error_code == error


async def test_a_fenced_broker_does_not_name_itself_as_controller() -> None:
    cluster = ControlledCluster((ME, OTHER))
    end_point = NodeEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)
    for broker_id in (ME, OTHER):
        registered = cluster.image.brokers.get(broker_id)
        assert registered is not None
        cluster.replay([replace(registered, end_points=(end_point,))])
    assert described(cluster).controller_id == ME
    cluster.fence(ME)
    answer = described(cluster)
    assert answer.controller_id == -1
    assert [each.broker_id for each in answer.brokers] == [OTHER]
