"""AlterPartition: a leader proposes a new ISR. PURE.

Owns all checks. They prevent split brain (the replication design V3, discussion 3): a leader that
was replaced can't shrink the ISR, because its leader epoch or partition epoch is outdated. So it
can't commit anything that the new leader lacks.
Source: KIP-497, KIP-704, KIP-841 (no replica that is fenced or shutting down), KIP-903 (no
restarted replica whose broker epoch is outdated).

Checks in order, per partition: it exists; this controller is not outdated (behind the metadata
of the leader); the sender is the present leader; it has the present partition state; the ISR
consists of replicas of the partition and contains the leader; all its members are eligible.
"""

from collections.abc import Sequence

from quorum_node.controller.broker_epochs import epoch_problem
from quorum_node.controller.decision import Decision
from quorum_node.controller.directory_ids import is_online
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_rules import circumstances
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition, changed
from quorum_node.image.topics import PartitionKey, Topic
from quorum_node.protocol.alter_partition import (
    UNCHECKED_BROKER_EPOCH,
    AlteredPartition,
    AlteredPartitionState,
    AlteredTopic,
    AlteredTopicState,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)


def alter_partition(view: View, request: AlterPartitionRequest) -> Decision:
    """Every partition gets its own result and is changed independently."""
    problem = epoch_problem(view, request.broker_id, request.broker_epoch)
    if problem is not None:
        return Decision(answer=AlterPartitionResponse(error_code=problem))
    altering = _Altering(view, request.broker_id)
    answer = AlterPartitionResponse(
        error_code=ErrorCode.NONE, topics=tuple(map(altering.topic, request.topics))
    )
    return Decision(tuple(altering.records), answer, atomic=False)


def refuse_alter_partition(
    request: AlterPartitionRequest, error: ErrorCode, text: str
) -> AlterPartitionResponse:
    """One error for the whole request: the API has no field for a message."""
    return AlterPartitionResponse(error_code=error)


class _Altering:
    """One request. A partition that is listed again has its changed state, so the second entry is outdated."""

    def __init__(self, view: View, broker_id: int) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._view = view
        self._broker_id = broker_id
        self._changed: dict[PartitionKey, Partition] = {}

    def topic(self, asked: AlteredTopic) -> AlteredTopicState:
        topics = self._view.image.topics
        topic = topics.get(asked.topic_id) if asked.topic_id is not None else None
        if topic is None:
            states = [_refused(each, ErrorCode.UNKNOWN_TOPIC_ID) for each in asked.partitions]
        else:
            states = [self._alter(topic, each) for each in asked.partitions]
        return AlteredTopicState(topic_id=asked.topic_id, partitions=tuple(states))

    def _alter(self, topic: Topic, asked: AlteredPartition) -> AlteredPartitionState:
        view, broker_id = self._view, self._broker_id
        key = PartitionKey(topic.topic_id, asked.partition_index)
        partition = self._changed.get(key) or topic.partitions.get(asked.partition_index)
        if partition is None:
            return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        members = asked.new_isr_with_epochs or tuple(
            IsrMember(broker_id=each) for each in asked.new_isr
        )
        isr = tuple(each.broker_id for each in members)
        error = (
            _epoch_error(broker_id, partition, asked)
            or _isr_error(partition, isr, asked.leader_recovery_state)
            or _fitness_error(view, partition, members)
        )
        if error:
            return _refused(asked, error)
        record = change_partition(
            topic.topic_id,
            asked.partition_index,
            partition,
            Wanted(isr=isr, recovery_state=asked.leader_recovery_state),
            circumstances(view, topic.name, partition),
        )
        if record is not None:
            self.records.append(record)
            partition = self._changed[key] = changed(partition, record)
            if record.leader not in (broker_id, LEADER_UNCHANGED):
                # The change ends a reassignment that the leader is not part of. The request is granted,
                # and the response tells the leader that it does not lead any more.
                return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
        return AlteredPartitionState(
            partition_index=asked.partition_index,
            error_code=ErrorCode.NONE,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )


def _epoch_error(broker_id: int, now: Partition, asked: AlteredPartition) -> ErrorCode:
    if asked.leader_epoch > now.leader_epoch or asked.partition_epoch > now.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != now.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def _isr_error(now: Partition, isr: Sequence[int], recovery_state: int) -> ErrorCode:
    fits = (
        len(set(isr)) == len(isr)
        and set(isr) <= set(now.replicas)
        and now.leader in isr
        and recovery_state in (RECOVERED, RECOVERING)
    )
    if not fits:
        return ErrorCode.INVALID_REQUEST
    # A recovering leader must stay alone in the ISR; one that has recovered must not become
    # recovering again.
    recovers = now.leader_recovery_state == RECOVERING and len(isr) == 1
    return (
        ErrorCode.INVALID_REQUEST
        if recovery_state == RECOVERING and not recovers
        else ErrorCode.NONE
    )


def _fitness_error(view: View, now: Partition, members: Sequence[IsrMember]) -> ErrorCode:
    for member in members:
        broker = view.image.brokers.get(member.broker_id)
        if broker is None or not view.image.brokers.is_active(member.broker_id):
            return ErrorCode.INELIGIBLE_REPLICA
        if member.broker_epoch not in (UNCHECKED_BROKER_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
        # The leader may not know yet that the follower's log directory failed. A stock controller
        # does not check it, and the replica that was just removed returns.
        directory = now.directory(member.broker_id)
        if directory is not None and not is_online(directory, broker.log_dirs):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _refused(asked: AlteredPartition, error: ErrorCode) -> AlteredPartitionState:
    return AlteredPartitionState(partition_index=asked.partition_index, error_code=error)
