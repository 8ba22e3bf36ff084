"""Makes refusals of whole requests on a broker's listener, in the form of each API's answer.

Requests that only the active controller decides are not refused here (`BROKER_TABLE`).
"""

from quorum_node.controller.acls import refuse_describe_acls
from quorum_node.controller.scram import refuse_describe_scram_credentials
from quorum_node.protocol.acls import DescribeAclsRequest
from quorum_node.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from quorum_node.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from quorum_node.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.protocol.scram import DescribeUserScramCredentialsRequest
from quorum_node.protocol.write_txn_markers import (
    MarkedPartitionResult,
    MarkedTopicResult,
    MarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorum_node.schema.schema import Message


def refuse(body: Message, error: ErrorCode, text: str) -> Message:
    """The answer that refuses the request."""
    match body:
        case FetchRequest():
            return FetchResponse(error_code=error, responses=())
        case DescribeAclsRequest():
            return refuse_describe_acls(body, error, text)
        case DescribeUserScramCredentialsRequest():
            return refuse_describe_scram_credentials(body, error, text)
        case DescribeLogDirsRequest():
            return DescribeLogDirsResponse(error_code=error, results=())
        case AlterReplicaLogDirsRequest():
            by_topic: dict[str, dict[int, None]] = {}
            for directory in body.dirs:
                for topic in directory.topics:
                    by_topic.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
            return AlterReplicaLogDirsResponse(
                results=tuple(
                    AlterReplicaLogDirTopicResult(
                        topic_name=name,
                        partitions=tuple(
                            AlterReplicaLogDirPartitionResult(
                                partition_index=index, error_code=error
                            )
                            for index in indexes
                        ),
                    )
                    for name, indexes in by_topic.items()
                )
            )
        case WriteTxnMarkersRequest():
            return WriteTxnMarkersResponse(
                markers=tuple(
                    MarkerResult(
                        producer_id=marker.producer_id,
                        topics=tuple(
                            MarkedTopicResult(
                                name=topic.name,
                                partitions=tuple(
                                    MarkedPartitionResult(partition_index=each, error_code=error)
                                    for each in topic.partition_indexes
                                ),
                            )
                            for topic in marker.topics
                        ),
                    )
                    for marker in body.markers
                )
            )
        case DescribeClientQuotasRequest():
            return DescribeClientQuotasResponse(error_code=error, error_message=text, entries=None)
    raise AssertionError(f"{type(body).__name__} is never refused as a whole")
