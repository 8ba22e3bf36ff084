"""A simplified controller: partitions and brokers by the rules of the image, published with delays.

Owns fencing and the requested changes. Their records come from the real controller (`controller.partition_change`),
with eligible leader replicas, and so does replay (`image.partition`). Unclean elections are not permitted.
"""

from dataclasses import dataclass
from uuid import UUID

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import IsrRefused, IsrTaken
from quorum_node.broker.outputs import ProposeIsr
from quorum_node.controller.partition_change import (
    ChangeRules,
    Circumstances,
    Wanted,
    change_partition,
)
from quorum_node.controller.unclean_shutdown import is_unclean
from quorum_node.image.partition import Partition, changed
from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERED,
    UNASSIGNED,
    PartitionChangeRecord,
)

TOPIC_ID = UUID(int=1 << 70)


@dataclass(frozen=True, slots=True)
class Image:
    """One version of the metadata. `active`: broker id → broker epoch."""

    partitions: tuple[Partition, ...]
    active: dict[int, int]


class ControllerStandIn:
    """`images`: all versions, oldest first."""

    def __init__(
        self, broker_ids: tuple[int, ...], partitions: int, min_insync_replicas: int
    ) -> None:
        self._min_isr = min(min_insync_replicas, len(broker_ids))
        self.epochs: dict[int, int] = dict.fromkeys(broker_ids, -1)
        self.fenced = set(broker_ids)
        self.heard_ms: dict[int, float] = {}
        self.partitions = [_new(number, broker_ids) for number in range(partitions)]
        self.images: list[Image] = []
        self.elections = self.isr_changes = 0
        self._epoch = 0
        self._publish()

    def register(
        self, broker_id: int, previous_broker_epoch: int, now_ms: float
    ) -> tuple[int, int]:
        """Register a new run of a broker process, fenced until its first heartbeat; returns (broker epoch, version)."""
        known = self.epochs[broker_id]
        if known >= 0 and is_unclean(known, previous_broker_epoch):
            for number, now in enumerate(self.partitions):
                rest = tuple(each for each in now.isr if each != broker_id)
                self._want(number, Wanted(isr=rest, unclean_shutdown=(broker_id,)), gone=broker_id)
        self._fence(broker_id)
        self._epoch += 1
        self.epochs[broker_id] = self._epoch
        self.heard_ms[broker_id] = now_ms
        self._publish()
        return self._epoch, len(self.images) - 1

    def beat(self, broker_id: int, broker_epoch: int, now_ms: float) -> None:
        """A heartbeat of a broker that has caught up."""
        if self.epochs[broker_id] != broker_epoch:
            return
        self.heard_ms[broker_id] = now_ms
        if broker_id in self.fenced:
            self.fenced.discard(broker_id)
            self._repair()
            self._publish()

    def expire(self, session_ms: float, now_ms: float) -> None:
        """Fence brokers without heartbeats."""
        for broker_id, heard_ms in self.heard_ms.items():
            if broker_id not in self.fenced and now_ms - heard_ms > session_ms:
                self._fence(broker_id)
                self._publish()

    def fail_over(self, now_ms: float) -> None:
        """Another controller becomes active with the committed metadata, and gives each unfenced broker a new session."""
        self.heard_ms = dict.fromkeys(self.heard_ms, now_ms)

    def move_leader(self, number: int, broker_id: int) -> None:
        """Move leadership to another member of the ISR, as an election of preferred leaders does."""
        now = self.partitions[number]
        if broker_id in now.isr and broker_id != now.leader and broker_id not in self.fenced:
            record = PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, leader=broker_id)
            self._replay(number, record)
            self._publish()

    def alter(
        self, number: int, broker_id: int, broker_epoch: int, asked: ProposeIsr
    ) -> IsrTaken | IsrRefused:
        """AlterPartition of one partition."""
        now = self.partitions[number]
        isr = tuple(each for each, _ in asked.members)
        stale = (
            self.epochs[broker_id] != broker_epoch
            or broker_id != now.leader
            or asked.leader_epoch != now.leader_epoch
            or asked.partition_epoch != now.partition_epoch
        )
        if stale:
            return IsrRefused(asked.proposal_id, IsrError.OVERTAKEN)
        for member, epoch in asked.members:
            if member in self.fenced or epoch not in (-1, self.epochs[member]):
                return IsrRefused(asked.proposal_id, IsrError.INELIGIBLE_REPLICA)
        self._want(number, Wanted(isr=isr, recovery_state=RECOVERED))
        self.isr_changes += 1
        self._publish()
        now = self.partitions[number]
        return IsrTaken(asked.proposal_id, now.leader_epoch, now.partition_epoch, now.isr)

    def _fence(self, broker_id: int) -> None:
        self.fenced.add(broker_id)
        self._repair()

    def _repair(self) -> None:
        """Remove fenced brokers from ISRs, and elect leaders for partitions without one."""
        for number, now in enumerate(self.partitions):
            self._want(number, Wanted(isr=tuple(x for x in now.isr if x not in self.fenced)))

    def _want(self, number: int, wanted: Wanted, gone: int = -1) -> None:
        given = Circumstances(
            is_acceptable=lambda each: each not in self.fenced and each != gone,
            default_directory=lambda _: UNASSIGNED,
            min_isr=self._min_isr,
            rules=ChangeRules(eligible_leader_replicas=True),
        )
        record = change_partition(TOPIC_ID, number, self.partitions[number], wanted, given)
        if record is not None:
            self._replay(number, record)

    def _replay(self, number: int, record: PartitionChangeRecord) -> None:
        self.partitions[number] = changed(self.partitions[number], record)
        self.elections += record.leader not in (LEADER_UNCHANGED, NO_LEADER)

    def _publish(self) -> None:
        active = {each: epoch for each, epoch in self.epochs.items() if each not in self.fenced}
        self.images.append(Image(tuple(self.partitions), active))


def _new(number: int, broker_ids: tuple[int, ...]) -> Partition:
    """A new partition: no replica has registered yet, so there is no leader."""
    replicas = broker_ids[number % len(broker_ids) :] + broker_ids[: number % len(broker_ids)]
    return Partition(
        partition_id=number,
        topic_id=TOPIC_ID,
        replicas=replicas,
        isr=replicas,
        leader=NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UNASSIGNED,) * len(replicas),
    )
