"""An `Env` with brokers and one topic: the requests of brokers, and the resulting state of their partitions.

Owns the requests of brokers, and the turns until the controller has nothing more to do. Everything goes through the controller's API, its
maintenance, the append queue and replay.
"""

from typing import Any

from quorum_node.image.partition import Partition
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredPartitionState,
    AlteredTopic,
    AlterPartitionRequest,
    IsrMember,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest
from quorum_node.protocol.elect_leaders import ElectionType, ElectLeadersRequest, TopicPartitions
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from support.broker_requests import heartbeat, registration
from support.controlled_cluster import assigned
from support.controller_env import Env, PendingRequest

FAR = 10**6
"""A large offset of the metadata log, for heartbeats in tests where the offset does not matter."""


class PartitionEnv(Env):
    """Topic `t`; its partition 0 unless a test says more."""

    def __init__(self, *, first_uuid: int = 1 << 100, **settings: Any) -> None:
        super().__init__(maintained=True, first_uuid=first_uuid, **settings)
        self.epochs: dict[int, int] = {}

    async def begin(self, *broker_ids: int) -> None:
        """The controller becomes active, and brokers become active."""
        await self.lead()
        await self.settle()
        for broker_id in broker_ids:
            await self.start(broker_id)

    async def settle(self) -> None:
        """Commit and apply until the controller writes nothing more."""
        while await self.commit():
            pass

    async def start(self, broker_id: int, incarnation: int = 1) -> None:
        """A process of a broker registers, and is unfenced."""
        answer = await self.do(registration(broker_id, incarnation))
        assert answer.error_code == ErrorCode.NONE
        self.epochs[broker_id] = answer.broker_epoch
        await self.beat(broker_id)

    async def beat(self, broker_id: int, **wish: bool) -> Any:
        """Send a heartbeat, and do everything that follows; returns its answer."""
        answer = await self.do(heartbeat(broker_id, self.epochs[broker_id], FAR, **wish))
        await self.settle()
        return answer

    async def fail(self, broker_id: int) -> None:
        """The broker is fenced."""
        answer = await self.beat(broker_id, want_fence=True)
        assert answer.is_fenced

    async def topic(self, *assignments: tuple[int, ...], **configs: str) -> None:
        """Topic `t` on these brokers."""
        request = CreateTopicsRequest(
            topics=(assigned("t", *assignments, **configs),), timeout_ms=1000
        )
        answer = await self.do(request)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
        await self.settle()

    def partition(self, partition_id: int = 0) -> Partition:
        """As it is committed and applied."""
        topic = self.committed.image.topics.named("t")
        assert topic is not None
        return topic.partitions[partition_id]

    def altered(self, broker_id: int, *isr: int, known: Partition | None = None) -> PendingRequest:
        """A leader requests an ISR, based on the partition that it knows. Nothing is committed yet."""
        topic = self.committed.image.topics.named("t")
        assert topic is not None
        known = known or self.partition()
        wanted = AlteredPartition(
            partition_index=0,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            new_isr_with_epochs=tuple(IsrMember(broker_id=each, broker_epoch=-1) for each in isr),
        )
        return self.ask(
            AlterPartitionRequest(
                broker_id=broker_id,
                broker_epoch=self.epochs[broker_id],
                topics=(AlteredTopic(topic_id=topic.topic_id, partitions=(wanted,)),),
            )
        )

    async def alter(
        self, broker_id: int, *isr: int, known: Partition | None = None
    ) -> AlteredPartitionState:
        """The same, committed; the answer for the partition."""
        requested = self.altered(broker_id, *isr, known=known)
        await self.settle()
        state: AlteredPartitionState = requested.answer.topics[0].partitions[0]
        return state

    async def reassign(self, partition_id: int, *replicas: int) -> None:
        """AlterPartitionReassignments. Raises AssertionError if it is refused."""
        partition = ReassignablePartition(partition_index=partition_id, replicas=replicas)
        topic = ReassignableTopic(name="t", partitions=(partition,))
        answer = await self.do(AlterPartitionReassignmentsRequest(topics=(topic,)))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        await self.settle()

    async def elect(self, election: ElectionType, *partition_ids: int) -> None:
        """ElectLeaders."""
        wanted = TopicPartitions(topic="t", partitions=partition_ids or (0,))
        await self.do(
            ElectLeadersRequest(election_type=election, topic_partitions=(wanted,), timeout_ms=1000)
        )
        await self.settle()
