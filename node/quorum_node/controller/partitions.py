"""CreatePartitions: adds partitions to existing topics. PURE.

Owns the checks. The record of a new partition is the same as at the creation of a topic
(`topics.py`). Partitions can't be removed: see docs/explanation/controller.md.
Source: KIP-195; the replication design V3, "on_partitions_add".
"""

from collections import Counter

from quorum_node.controller.assignments import (
    factor_fault,
    in_sync_at_first,
    manual_fault,
    no_leader_fault,
    placer,
    placer_of,
)
from quorum_node.controller.authorization import AclOperation, AclResource
from quorum_node.controller.decision import Decision
from quorum_node.controller.placement import Placer
from quorum_node.controller.problem import Problem
from quorum_node.controller.topics import MAX_RECORDS, Assignment, new_partition
from quorum_node.controller.view import View
from quorum_node.image.topics import Topic
from quorum_node.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import PartitionRecord


def create_partitions(view: View, request: CreatePartitionsRequest) -> Decision:
    """Every topic gets its own result; all valid changes are made together."""
    times = Counter(topic.name for topic in request.topics)
    chooser = placer(view)
    records: list[PartitionRecord] = []
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        if times[topic.name] > 1:
            text = f"topic {topic.name} is in the request more than once"
            results.append(_result(topic.name, Problem(ErrorCode.INVALID_REQUEST, text)))
            continue
        made = _create(view, topic, chooser, MAX_RECORDS - len(records))
        if isinstance(made, Problem):
            results.append(_result(topic.name, made))
        else:
            records.extend(made)
            results.append(_result(topic.name, None))
    answer = CreatePartitionsResponse(results=tuple(results))
    return Decision(answer=answer) if request.validate_only else Decision(tuple(records), answer)


def refuse_create_partitions(
    request: CreatePartitionsRequest, error: ErrorCode, text: str
) -> CreatePartitionsResponse:
    """The same answer for every topic."""
    problem = Problem(error, text)
    return CreatePartitionsResponse(
        results=tuple(_result(topic.name, problem) for topic in request.topics)
    )


def _create(
    view: View, wanted: CreatePartitionsTopic, chooser: Placer, room: int
) -> list[PartitionRecord] | Problem:
    if not view.allows(AclOperation.ALTER, AclResource.TOPIC, wanted.name):
        text = f"{view.caller.principal} lacks ALTER on the topic {wanted.name}"
        return Problem(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    topic = view.image.topics.named(wanted.name)
    if topic is None:
        text = f"there is no topic {wanted.name}"
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    now = len(topic.partitions)
    if wanted.count < now:
        text = f"topic {wanted.name} has {now} partitions, and partitions can't be removed: Kafka has no record for that, so brokers would continue to serve them; copy what is needed to a topic with fewer partitions and delete this one"
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    if wanted.count == now:
        text = f"topic {wanted.name} has {now} partitions: {wanted.count} would not be more"
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    more = wanted.count - now
    if wanted.assignments is not None and len(wanted.assignments) != more:
        text = f"{more} partitions would be added, but {len(wanted.assignments)} are assigned"
        return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if more > room:
        # The code is that of a stock controller, which runs into its own limit here.
        text = f"one request makes at most {MAX_RECORDS} partitions: ask for fewer at once"
        return Problem(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    if wanted.assignments is None:
        assignments = _placed(topic, more, placer_of(view, topic.name, chooser))
    else:
        assignments = _manual(view, topic, [each.broker_ids for each in wanted.assignments])
    if isinstance(assignments, Problem):
        return assignments
    return [
        new_partition(view, topic.topic_id, now + index, replicas)
        for index, replicas in enumerate(assignments)
    ]


def _factor(topic: Topic) -> int:
    """Replication factor of the topic, outside of a reassignment."""
    first = topic.partitions[0]
    return len(first.replicas)


def _placed(topic: Topic, more: int, chooser: Placer) -> list[Assignment] | Problem:
    factor = _factor(topic)
    problem = factor_fault(topic.name, chooser, factor)
    return problem or [chooser.place(factor) for _ in range(more)]


def _manual(view: View, topic: Topic, assignments: list[Assignment]) -> list[Assignment] | Problem:
    now = len(topic.partitions)
    for index, replicas in enumerate(assignments):
        problem = manual_fault(view, replicas, _factor(topic))
        if problem is None and not in_sync_at_first(view, replicas):
            problem = no_leader_fault(replicas, now + index)
        if problem is not None:
            return problem
    return assignments


def _result(name: str, problem: Problem | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name,
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
    )
