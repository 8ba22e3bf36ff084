"""The answers of Fetch, partition by partition.

Owns the translation of the core's answers to the wire, and the answers without the core. Must not know when a request is answered.
Source: the rules of a stock broker for Fetch 4 to 18; KIP-595 (divergence), KIP-951.
"""

from collections.abc import Iterable

from quorum_node.broker.outputs import ReportDivergence, ServeFetch
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    LeaderIdAndEpoch,
)
from quorum_node.server.broker.fetch_waiting import Part
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isolation_levels import READ_COMMITTED
from quorum_node.storage.broker.read_batches import ReadBatches

_ONE_ERROR_SINCE = 13
"""First version in which an error of the whole request is not repeated for each partition."""


def refused_as_a_whole(body: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """The answer without a look at any partition."""
    topics = body.topics if version < _ONE_ERROR_SINCE else ()
    return FetchResponse(
        error_code=error,
        responses=tuple(
            response_topic(
                topic,
                (
                    FetchResponsePartition(
                        partition_index=each.partition, error_code=error, high_watermark=-1
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def answered(
    body: FetchRequest, part: Part, read: ReadBatches | None = None
) -> FetchResponsePartition:
    """The answer about one partition. `read`: the batches that were read for it."""
    answer, asked = part.answer, part.asked
    aborted: tuple[AbortedTransaction, ...] | None = None
    if body.isolation_level == READ_COMMITTED and is_consumer(body):
        aborted = ()
    if isinstance(answer, ServeFetch) and part.replica is not None:
        if aborted is not None:
            aborted = _aborted(part.replica, answer.fetch_offset, read)
        return FetchResponsePartition(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=answer.high_watermark,
            last_stable_offset=part.replica.last_stable_offset,
            log_start_offset=answer.log_start_offset,
            aborted_transactions=aborted,
            records=b"" if read is None else read.data,
        )
    if isinstance(answer, ReportDivergence) and part.replica is not None:
        core = part.replica.core
        end = EpochEndOffset(epoch=answer.leader.epoch, end_offset=answer.leader.end_offset)
        return FetchResponsePartition(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=core.high_watermark,
            last_stable_offset=part.replica.last_stable_offset,
            log_start_offset=core.start_offset,
            diverging_epoch=end,
        )
    leader = LeaderIdAndEpoch()
    moved = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    if part.error in moved and part.found is not None:
        partition = part.found.partition
        leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return FetchResponsePartition(
        partition_index=asked.partition,
        error_code=part.error,
        high_watermark=-1,
        current_leader=leader,
        # Like a stock broker: what is refused before the replica is looked up has an empty list.
        aborted_transactions=() if part.found is None else None,
    )


def response_topic(
    topic: FetchTopic, partitions: Iterable[FetchResponsePartition]
) -> FetchResponseTopic:
    """The answers about the partitions of one topic."""
    return FetchResponseTopic(
        topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(partitions)
    )


def is_consumer(body: FetchRequest) -> bool:
    """Whether a consumer sent the request: broker ids are not negative; -1 is a consumer, -2 a debugging consumer."""
    return body.fetcher_id < 0


def _aborted(
    replica: HostedReplica, offset: int, read: ReadBatches | None
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions whose records the consumer has to skip."""
    end_offset = offset if read is None else read.end_offset
    return tuple(
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in replica.log.aborted_between(offset, end_offset)
    )
