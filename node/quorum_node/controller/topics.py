"""CreateTopics: creates topics by numbers or by assignments. PURE.

Owns the checks and the records of a new topic. Must not know how replicas are placed
(`placement.py`) or validated (`assignments.py`).
Source: KIP-4, KIP-464, KIP-525; the order of records is the shipped one: the topic, its configs,
its partitions. Every topic of a request is checked on its own. All valid ones are created together
or, if their records don't fit into one batch, none.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

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
from quorum_node.controller.partition_rules import directories_of_new_replicas
from quorum_node.controller.placement import Placer
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_names import METADATA_TOPIC, name_fault
from quorum_node.controller.topic_settings import all_effective, layers_of, topic_configs_fault
from quorum_node.controller.view import View
from quorum_node.image.resource_types import TOPIC
from quorum_node.image.topics import may_collide, metric_name
from quorum_node.protocol.create_topics import (
    BROKERS_DEFAULT,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    ConfigRecord,
    MetadataMessage,
    PartitionRecord,
    TopicRecord,
)

MAX_RECORDS = 10_000
"""Limit of records for one user request, as in a stock controller."""

Assignment = tuple[int, ...]


@dataclass(slots=True)
class _Batch:
    """Names and configs that earlier topics of the request use."""

    placer: Placer
    records: list[MetadataMessage]
    names: dict[str, str]
    """The used names, by their colliding form."""
    defaults: tuple[CreatableTopicConfigs, ...] | None = None
    """The configs of a topic without own configs, computed once."""

    def described(self, view: View, configs: dict[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        """Effective configs of a new topic. Most have no own configs, so they share one result."""
        if configs:
            return tuple(_described(view, configs))
        if self.defaults is None:
            self.defaults = tuple(_described(view, configs))
        return self.defaults


def create_topics(view: View, request: CreateTopicsRequest) -> Decision:
    """Every topic gets its own result; all valid ones are created together.

    All are refused if they are too many.
    """
    times = Counter(topic.name for topic in request.topics)
    batch = _Batch(placer(view), [], {})
    results = []
    partitions = 0
    may_create_all = view.allows(AclOperation.CREATE, AclResource.CLUSTER)
    for topic in {topic.name: topic for topic in request.topics}.values():
        repeated = times[topic.name] > 1
        problem = _repeated(topic.name) if repeated else None
        if problem is None and not may_create_all:
            problem = _right_problem(view, topic.name)
        partitions += 0 if problem else _partitions(view, topic)
        if partitions > MAX_RECORDS:
            return Decision(answer=_too_many(request))
        made = problem or _create(view, topic, batch)
        if len(batch.records) > MAX_RECORDS:
            return Decision(answer=_too_many(request))
        results.append(_failed(topic.name, made) if isinstance(made, Problem) else made)
    answer = CreateTopicsResponse(topics=tuple(results))
    if request.validate_only:
        return Decision(answer=answer)
    return Decision(tuple(batch.records), answer)


def refuse_create_topics(
    request: CreateTopicsRequest, error: ErrorCode, text: str
) -> CreateTopicsResponse:
    """The same answer for every topic."""
    problem = Problem(error, text)
    return CreateTopicsResponse(
        topics=tuple(_failed(topic.name, problem) for topic in request.topics)
    )


def _too_many(request: CreateTopicsRequest) -> CreateTopicsResponse:
    text = f"one request makes at most {MAX_RECORDS} records: ask for fewer topics or partitions at once"
    return refuse_create_topics(request, ErrorCode.POLICY_VIOLATION, text)


def _partitions(view: View, topic: CreatableTopic) -> int:
    """The requested number of partitions, valid or not."""
    if topic.assignments:
        return len(topic.assignments)
    asked = topic.num_partitions
    return view.settings.num_partitions if asked == BROKERS_DEFAULT else max(asked, 0)


def _create(view: View, topic: CreatableTopic, batch: _Batch) -> CreatableTopicResult | Problem:
    configs = {each.name: each.value or "" for each in topic.configs}
    problem = (
        _name_problem(view, topic.name, batch)
        or _config_problem(topic, configs)
    )  # fmt: skip
    if problem is not None:
        return problem
    assignments = _assignments(view, topic, placer_of(view, topic.name, batch.placer))
    if isinstance(assignments, Problem):
        return assignments
    topic_id = view.fresh_uuid()
    batch.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    batch.records.extend(
        ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    )
    batch.records.extend(
        new_partition(view, topic_id, index, replicas) for index, replicas in enumerate(assignments)
    )
    batch.names[metric_name(topic.name)] = topic.name
    if not view.allows(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC, topic.name):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=batch.described(view, configs),
    )


def new_partition(
    view: View, topic_id: UUID, partition_id: int, replicas: Assignment
) -> PartitionRecord:
    """The initial record of a partition; at least one of the replicas is active."""
    isr = in_sync_at_first(view, replicas)
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas if isr == replicas else isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=directories_of_new_replicas(view, replicas),
    )


def _right_problem(view: View, name: str) -> Problem | None:
    if view.allows(AclOperation.CREATE, AclResource.TOPIC, name):
        return None
    text = f"{view.caller.principal} lacks CREATE on the cluster and on the topic {name}"
    return Problem(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)


def _name_problem(view: View, name: str, batch: _Batch) -> Problem | None:
    if name == METADATA_TOPIC:
        return Problem(ErrorCode.INVALID_REQUEST, f"{name} is the internal log of the controllers")
    fault = name_fault(name)
    if fault is not None:
        return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if view.image.topics.named(name) is not None:
        return Problem(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    if may_collide(name):
        other = view.image.topics.colliding(name) or batch.names.get(metric_name(name))
        if other is not None:
            text = f"{name} would share the names of its metrics with the topic {other}"
            return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return None


def _config_problem(topic: CreatableTopic, configs: dict[str, str]) -> Problem | None:
    empty = [each.name for each in topic.configs if each.value is None]
    if empty:
        text = f"configs of a new topic need a value: {', '.join(empty)}"
        return Problem(ErrorCode.INVALID_CONFIG, text)
    fault = topic_configs_fault(configs, {})
    return Problem(ErrorCode.INVALID_CONFIG, fault) if fault is not None else None


def _assignments(view: View, topic: CreatableTopic, placer: Placer) -> list[Assignment] | Problem:
    """The replicas of every partition, by partition."""
    if topic.assignments:
        return _manual(view, topic)
    partitions, factor = _partitions(view, topic), topic.replication_factor
    if factor == BROKERS_DEFAULT:
        factor = view.settings.default_replication_factor
    problem = factor_fault(topic.name, placer, factor)
    if topic.replication_factor < BROKERS_DEFAULT or factor == 0:
        return problem or Problem(ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1 replica")
    if partitions <= 0:
        text = f"a topic has at least 1 partition, not {topic.num_partitions}"
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    return problem or [placer.place(factor) for _ in range(partitions)]


def _manual(view: View, topic: CreatableTopic) -> list[Assignment] | Problem:
    for field, value in (
        ("replication factor", topic.replication_factor),
        ("number of partitions", topic.num_partitions),
    ):
        if value != BROKERS_DEFAULT:
            text = f"with assignments the {field} has to be {BROKERS_DEFAULT}, not {value}"
            return Problem(ErrorCode.INVALID_REQUEST, text)
    chosen: dict[int, Assignment] = {}
    for each in topic.assignments:
        index, replicas = each.partition_index, each.broker_ids
        if index in chosen:
            text = f"partition {index} is assigned twice"
            return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        expected = len(next(iter(chosen.values()))) if chosen else None
        problem = manual_fault(view, replicas, expected)
        if problem is None and not in_sync_at_first(view, replicas):
            problem = no_leader_fault(replicas, index)
        if problem is not None:
            return problem
        chosen[index] = replicas
    if set(chosen) != set(range(len(chosen))):
        text = f"partition numbers have to start at 0 without a gap, not {sorted(chosen)}"
        return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return [chosen[index] for index in range(len(chosen))]


def _described(view: View, configs: dict[str, str]) -> Iterator[CreatableTopicConfigs]:
    for setting in all_effective(layers_of(view), configs):
        yield CreatableTopicConfigs(
            name=setting.name,
            value=setting.value,
            read_only=False,
            config_source=setting.source,
            is_sensitive=False,
        )


def _repeated(name: str) -> Problem:
    return Problem(ErrorCode.INVALID_REQUEST, f"topic {name} is in the request more than once")


def _failed(name: str, problem: Problem) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=problem.code, error_message=problem.text)
