"""AlterPartitionReassignments and ListPartitionReassignments: move partitions to other brokers. PURE.

Owns the checks and the limit. The replica lists are in `reassignment.py`. A reassignment ends with
the ISR that completes it, whoever changes the ISR (`partition_change.py`). Its whole state is in
the partition's own records, so a new controller continues where the old one stopped (KV3-06).
Source: KIP-455, KIP-860; the replication design V3, "F. Replica reassignment".
"""

from collections.abc import Iterable

from quorum_node.controller import reassignment
from quorum_node.controller.assignments import manual_fault
from quorum_node.controller.decision import Decision
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_leader import Election
from quorum_node.controller.partition_rules import circumstances
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_settings import may_lose_data
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition
from quorum_node.image.topics import Topic
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from quorum_node.records.metadata import PartitionChangeRecord


def move_of(partition: Partition) -> reassignment.Move:
    """The replica lists of a partition."""
    return reassignment.Move(
        partition.replicas, partition.removing_replicas, partition.adding_replicas
    )


class _Altering:
    """One request."""

    def __init__(self, view: View, request: AlterPartitionReassignmentsRequest) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._view = view
        self._factor_may_change = request.allow_replication_factor_change
        self._moving = len(view.image.topics.marked_reassigning)
        self._seen: set[tuple[str, int]] = set()

    def alter(self, name: str, partition_id: int, target: tuple[int, ...] | None) -> Problem | None:
        """Decide on one partition."""
        topic = self._view.image.topics.named(name)
        partition = None if topic is None else topic.partitions.get(partition_id)
        if topic is None or partition is None:
            text = f"there is no partition {name}-{partition_id}"
            return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if (name, partition_id) in self._seen:
            text = f"{name}-{partition_id} is in the request more than once"
            return Problem(ErrorCode.INVALID_REQUEST, text)
        self._seen.add((name, partition_id))
        if target is None:
            return self._cancel(topic, partition_id, partition)
        return self._move(topic, partition_id, partition, target)

    def _cancel(self, topic: Topic, partition_id: int, partition: Partition) -> Problem | None:
        if not partition.is_reassigning:
            text = f"{topic.name}-{partition_id} is not in reassignment"
            return Problem(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
        reverted = reassignment.revert(move_of(partition), partition.isr)
        if reverted.unclean and not may_lose_data(self._view, topic.name):
            text = f"{topic.name}-{partition_id} can't be reverted: none of its former replicas is in sync any more, so messages would be lost; unclean.leader.election.enable=true on the topic permits that"
            return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        wanted = Wanted(isr=reverted.isr, replicas=reverted.replicas, removing=(), adding=())
        self._change(topic, partition_id, partition, wanted, None)
        self._moving -= 1
        return None

    def _move(
        self, topic: Topic, partition_id: int, partition: Partition, target: tuple[int, ...]
    ) -> Problem | None:
        problem = manual_fault(self._view, target, None) or self._factor_problem(partition, target)
        if problem is not None:
            return problem
        move, isr = reassignment.begin(move_of(partition), partition.isr, target)
        if not partition.is_reassigning and move.is_moving and not reassignment.end(move, isr):
            limit = self._view.settings.max_moving_partitions
            if limit and self._moving >= limit:
                text = f"{self._moving} partitions are in reassignment, and the limit is {limit} (quorum.reassignments.max, or that of the request): try again when some of them have ended"
                return Problem(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
            self._moving += 1
        wanted = Wanted(isr=isr, replicas=move.replicas, removing=move.removing, adding=move.adding)
        self._change(topic, partition_id, partition, wanted, Election.ONLINE)
        return None

    def _factor_problem(self, partition: Partition, target: tuple[int, ...]) -> Problem | None:
        staying = [x for x in partition.replicas if x not in partition.removing_replicas]
        if self._factor_may_change or len(target) == len(staying):
            return None
        text = f"the number of replicas would change from {len(staying)} to {len(target)}"
        return Problem(ErrorCode.INVALID_REPLICATION_FACTOR, text)

    def _change(
        self,
        topic: Topic,
        partition_id: int,
        partition: Partition,
        wanted: Wanted,
        election: Election | None,
    ) -> None:
        given = circumstances(self._view, topic.name, partition, election)
        record = change_partition(topic.topic_id, partition_id, partition, wanted, given)
        if record is not None:
            self.records.append(record)


def alter_reassignments(view: View, request: AlterPartitionReassignmentsRequest) -> Decision:
    """Every partition gets its own result; all valid reassignments start together."""
    altering = _Altering(view, request)
    responses = tuple(
        ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(
                _response(
                    each.partition_index,
                    altering.alter(topic.name, each.partition_index, each.replicas),
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        responses=responses,
    )
    return Decision(tuple(altering.records), answer)


def refuse_alter_reassignments(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, text: str
) -> AlterPartitionReassignmentsResponse:
    """The same error for the whole request and for every partition."""
    problem = Problem(error, text)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error,
        error_message=text,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _response(each.partition_index, problem) for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def list_reassignments(view: View, request: ListPartitionReassignmentsRequest) -> Decision:
    """Reassignments in progress of the named partitions, or of all."""
    topics = []
    for topic, partition_ids in _listed(view, request):
        moving = [
            OngoingPartitionReassignment(
                partition_index=partition_id,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for partition_id in partition_ids
            if (partition := topic.partitions.get(partition_id)) is not None
            and partition.is_reassigning
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=tuple(moving)))
    answer = ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=tuple(topics))
    return Decision(answer=answer)


def refuse_list_reassignments(
    request: ListPartitionReassignmentsRequest, error: ErrorCode, text: str
) -> ListPartitionReassignmentsResponse:
    """One error."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=text)


def _listed(
    view: View, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[Topic, Iterable[int]]]:
    if request.topics is not None:
        for asked in request.topics:
            topic = view.image.topics.named(asked.name)
            if topic is not None:
                yield topic, asked.partition_indexes
        return
    by_topic: dict[int, list[int]] = {}
    for topic_id, partition_id in view.image.topics.reassigning():
        by_topic.setdefault(topic_id.int, []).append(partition_id)
    for number, partition_ids in by_topic.items():
        yield view.image.topics.by_id[number], sorted(partition_ids)


def _response(partition_id: int, problem: Problem | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition_id,
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
    )
