"""/v1/reassignments: start, cancel and follow reassignments of partitions (KIP-455), by the controller's own command.

A change is decided by the active controller and answered after its commit; other nodes answer with the leader's address. Descriptions
are read from the state of the replica that received the request, as for configs. The holder of the admin token needs no other right.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice

from fastapi import APIRouter

from quorum_node.api import DEFAULT_TIMEOUT_MS, ErrorCode
from quorum_node.controller.reassignments import alter_reassignments
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.protocol.errors import ErrorCode as KafkaError
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.raft.errors import RaftError
from quorum_node.reassignment_api import (
    MAX_PARTITIONS,
    BrokerDescription,
    DescribePartitionsRequest,
    PartitionDescription,
    PartitionDescriptions,
    PartitionTarget,
    ReassignRequest,
    ReassignResult,
    RefusedPartition,
)
from quorum_node.server.admin.describe_routes import TimeoutMs
from quorum_node.server.admin.leader import require_leader
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.admin.problems import ApiProblem, problem, timed_out
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.controller.port import Decider
from quorum_node.server.partition.port import TooLarge

STALE_REPLICAS = "STALE_REPLICAS"
"""No error code of Kafka: Kafka has no conditional reassignment."""
_METADATA_PARTITION = 0
Named = Iterable[tuple[str, int, Partition]]
Chosen = Callable[[ClusterImage], Named]


def router(node: NodeView) -> APIRouter:
    """The routes over one node; they concern the cluster whose controller is the leader of partition 0."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/reassignments", response_model=ReassignResult)
    async def reassign(body: ReassignRequest) -> ReassignResult:
        """Starts, changes or cancels moves of partitions between brokers. Answers when the records are committed."""
        replica = node.replica(_METADATA_PARTITION)
        require_leader(replica)
        return await change(node.controller, body)

    @routes.post("/reassignments/describe")
    async def describe(body: DescribePartitionsRequest) -> PartitionDescriptions:
        """Replicas, ISR and leader of the named partitions."""
        replica = node.replica(_METADATA_PARTITION)
        await replica.confirm_read(body.timeout_ms)
        names = ((each.topic, each.partition) for each in body.partitions)
        return _descriptions(replica, lambda image: _there(image, names))

    @routes.get("/reassignments")
    async def ongoing(timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS) -> PartitionDescriptions:
        """Partitions that are being moved now. Of a large number only the first ones are returned."""
        replica = node.replica(_METADATA_PARTITION)
        await replica.confirm_read(timeout_ms)
        return _descriptions(replica, lambda image: islice(_moving(image), MAX_PARTITIONS))

    return routes


async def change(controller: Decider, body: ReassignRequest) -> ReassignResult:
    """Decide, and wait for the commit. Raises ApiProblem: nothing was changed, or the outcome is not known (504)."""
    view = controller.view()
    if view is None:
        raise _inactive(controller)
    checked = [(target, _stale(view.image, target)) for target in body.partitions]
    wanted = [target for target, stale in checked if stale is None]
    refused = [stale for _, stale in checked if stale is not None]
    decision = alter_reassignments(_limited(view, body.max_moving), _request(wanted))
    answer = decision.answer
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    refused += _refused(answer)
    settled: asyncio.Future[RaftError | TooLarge | None] = (
        asyncio.get_running_loop().create_future()
    )

    def settle(error: RaftError | TooLarge | None) -> None:
        if not settled.done():
            settled.set_result(error)

    controller.carry_out(decision, settle)
    try:
        error = await asyncio.wait_for(settled, body.timeout_ms / 1000)
    except TimeoutError:
        raise timed_out("the reassignment", body.timeout_ms) from None
    if isinstance(error, TooLarge):
        text = f"{error.size_bytes} bytes of records are too many for one request"
        raise ApiProblem(413, ErrorCode.TOO_LARGE, text)
    if error is not None:
        raise problem(error)
    return ReassignResult(accepted=len(body.partitions) - len(refused), refused=refused)


def _inactive(controller: Decider) -> ApiProblem:
    if controller.is_held_back:
        text = "this node leads, but does not support a finalized feature level, so it can't be the active controller"
        return ApiProblem(409, ErrorCode.UNSUPPORTED, text)
    text = "this node leads, but is not the active controller yet; try again"
    return ApiProblem(503, ErrorCode.NOT_LEADER, text)


def _limited(view: View, max_moving: int | None) -> View:
    """The view of a controller that lets at most `max_moving` partitions be moved at a time."""
    if max_moving is None:
        return view
    own = view.settings.max_moving_partitions
    limit = min(own, max_moving) if own else max_moving
    return replace(view, settings=replace(view.settings, max_moving_partitions=limit))


def _stale(image: ClusterImage, target: PartitionTarget) -> RefusedPartition | None:
    """The refusal if the partition's replicas are not those that the caller expects. An unknown partition is left to the command."""
    topic = image.topics.named(target.topic)
    partition = topic.partitions.get(target.partition) if topic is not None else None
    expected = target.expected_replicas
    if partition is None or expected is None or partition.replicas == tuple(expected):
        return None
    text = f"the replicas are {list(partition.replicas)}, not {expected}"
    return RefusedPartition(
        topic=target.topic, partition=target.partition, error=STALE_REPLICAS, message=text
    )


def _request(targets: list[PartitionTarget]) -> AlterPartitionReassignmentsRequest:
    """In the given order: with a limit only the first ones may be accepted."""
    return AlterPartitionReassignmentsRequest(
        topics=tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(
                        partition_index=each.partition,
                        replicas=None if each.replicas is None else tuple(each.replicas),
                    )
                    for each in partitions
                ),
            )
            for topic, partitions in groupby(targets, lambda each: each.topic)
        )
    )


def _refused(answer: AlterPartitionReassignmentsResponse) -> Iterator[RefusedPartition]:
    for topic in answer.responses:
        for each in topic.partitions:
            if each.error_code != KafkaError.NONE:
                yield RefusedPartition(
                    topic=topic.name,
                    partition=each.partition_index,
                    error=KafkaError(each.error_code).name,
                    message=each.error_message or "",
                )


def _there(image: ClusterImage, names: Iterable[tuple[str, int]]) -> Named:
    for name, number in names:
        topic = image.topics.named(name)
        partition = topic.partitions.get(number) if topic is not None else None
        if partition is not None:
            yield name, number, partition


def _moving(image: ClusterImage) -> Named:
    for topic_id, number in image.topics.reassigning():
        topic = image.topics.get(topic_id)
        assert topic is not None
        yield topic.name, number, topic.partitions[number]


def _descriptions(replica: ReplicaView, choose: Chosen) -> PartitionDescriptions:
    committed = replica.host.committed
    image = committed.image
    return PartitionDescriptions(
        partitions=[
            PartitionDescription(
                topic=name,
                partition=number,
                replicas=list(partition.replicas),
                isr=list(partition.isr),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for name, number, partition in choose(image)
        ],
        brokers=[
            BrokerDescription(id=number, fenced=broker.fenced)
            for number, broker in sorted(image.brokers.by_id.items())
        ],
        moving=len(image.topics.marked_reassigning),
        offset=committed.end_offset,
    )
