"""A model of one partition's brokers: replicas that produce, fetch and commit by the replication design V3, section G.

Owns the data path in its smallest form; the test controls the clock and the network. Leaders request ISR changes from the real
controller. A broker knows the metadata that it applied last.
"""

from dataclasses import dataclass, field
from typing import Any

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.broker_partitions import suspicious
from quorum_node.controller.partition_repair import repair_some
from quorum_node.controller.topics import create_topics
from quorum_node.image.partition import Partition
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from support.controlled_cluster import ControlledCluster, assigned

Entry = tuple[int, str]
"""Leader epoch and message."""


@dataclass
class Broker:
    """One replica. `ends`: end offsets of the followers, from their fetches; `high_watermark`: as leader."""

    id: int
    known: Partition
    log: list[Entry] = field(default_factory=list)
    high_watermark: int = 0
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self.known.leader == self.id


class Replicas:
    """Topic t with one partition; the first broker leads. `committed`: offset to what a leader acknowledged there."""

    def __init__(self, *ids: int) -> None:
        self.cluster = ControlledCluster(ids)
        request = CreateTopicsRequest(topics=(assigned("t", tuple(ids)),))
        self.cluster.ask(create_topics, request, CreateTopicsResponse)
        self.brokers = {each: Broker(each, self.truth) for each in ids}
        self.committed: dict[int, Entry] = {}
        self.acknowledged: list[tuple[int, Entry]] = []
        """Who committed which entry, in order."""

    @property
    def truth(self) -> Partition:
        """The partition as the controller has it."""
        return self.cluster.partition("t")

    def fence(self, broker_id: int, *, fenced: bool = True) -> None:
        """The controller fences a broker, or unfences it, and changes its partitions accordingly."""
        self.cluster.fence(broker_id, fenced=fenced)
        keys, ended = suspicious(self.cluster.image), False
        while not ended:
            decision, ended = repair_some(self.cluster.view(), keys)
            self.cluster.take(decision)

    def learn(self, broker_id: int) -> None:
        """The broker applies the present metadata: it becomes leader or follower."""
        broker = self.brokers[broker_id]
        if broker.known.leader_epoch != self.truth.leader_epoch:
            broker.ends = {}
        broker.known = self.truth

    def produce(self, broker_id: int, message: str) -> None:
        """A client writes to a broker that believes it leads."""
        broker = self.brokers[broker_id]
        assert broker.leads
        broker.log.append((broker.known.leader_epoch, message))
        self._advance(broker)

    def fetch(self, broker_id: int) -> bool:
        """One fetch from the leader that the broker knows; False if it knows none, or that one has another epoch."""
        broker = self.brokers[broker_id]
        leader = self.brokers.get(broker.known.leader)
        if leader is None or leader is broker or not leader.leads:
            return False
        if leader.known.leader_epoch != broker.known.leader_epoch:
            return False
        same = 0
        for mine, theirs in zip(broker.log, leader.log, strict=False):
            if mine != theirs:
                break
            same += 1
        del broker.log[same:]
        leader.ends[broker_id] = len(broker.log)
        broker.log += leader.log[same:]
        self._advance(leader)
        return True

    def alter(self, broker_id: int, *isr: int) -> ErrorCode:
        """A broker that believes it leads requests an ISR, and follows the answer."""
        broker = self.brokers[broker_id]
        wanted = AlteredPartition(
            partition_index=0,
            leader_epoch=broker.known.leader_epoch,
            partition_epoch=broker.known.partition_epoch,
            new_isr_with_epochs=tuple(IsrMember(broker_id=each, broker_epoch=-1) for each in isr),
        )
        request = AlterPartitionRequest(
            broker_id=broker_id,
            broker_epoch=self.cluster.epoch(broker_id),
            topics=(AlteredTopic(topic_id=self.cluster.topic_id("t"), partitions=(wanted,)),),
        )
        answer: Any = self.cluster.ask(alter_partition, request, AlterPartitionResponse)
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        if error is ErrorCode.NONE:
            self.learn(broker_id)
            self._advance(broker)
        return error

    def _advance(self, leader: Broker) -> None:
        """The high watermark is the lowest end of the ISR that the leader knows: below, everything is committed."""
        others = [each for each in leader.known.isr if each != leader.id]
        ends = [len(leader.log), *(leader.ends.get(each, 0) for each in others)]
        for offset in range(leader.high_watermark, min(ends)):
            entry = leader.log[offset]
            if offset not in self.committed:
                self.acknowledged.append((leader.id, entry))
            before = self.committed.setdefault(offset, entry)
            assert before == entry, (
                f"broker {leader.id} commits {entry} at offset {offset}, where {before} is committed"
            )
        leader.high_watermark = max(leader.high_watermark, min(ends))
