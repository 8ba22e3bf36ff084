"""Invariants of a history of brokers, checked at every step.

They see the state of all brokers at once.
Source: the replication design V3, "Safety"; the named properties of the public model of KIP-966.
"""

from typing import TYPE_CHECKING

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.leader import Leader

if TYPE_CHECKING:
    from quorum_simulation.broker.host import SimulatedBroker
    from quorum_simulation.broker.world import World


class Violation(AssertionError):
    """An invariant does not hold."""


class Watch:
    """`committed`: for each partition, base offset → batch that a leader reported as committed."""

    def __init__(self, world: "World", partitions: int) -> None:
        self.world = world
        self.committed: list[dict[int, Batch]] = [{} for _ in range(partitions)]
        self.truncations = self.restarts = self.refusals = self.acks = self.reads = 0
        self._sequences: list[dict[tuple[int, int], int]] = [{} for _ in range(partitions)]
        self._high_watermarks: dict[tuple[int, int], tuple[Leader, int]] = {}

    def stepped(self, broker: "SimulatedBroker", number: int) -> None:
        """Called after each step of a replica, before its outputs are executed."""
        replica = broker.replicas[number]
        role = replica.role
        if not isinstance(role, Leader):
            return
        key = (broker.id, number)
        known, before = self._high_watermarks.get(key, (None, 0))
        high_watermark = replica.high_watermark
        if known is not role:
            self._complete(broker, number)
            before = 0
        elif high_watermark < before:
            raise Violation(
                f"high watermark of broker {broker.id} from {before} to {high_watermark}"
            )
        self._high_watermarks[key] = (role, high_watermark)
        if high_watermark > broker.disks[number].written:
            raise Violation(
                f"broker {broker.id} commits {high_watermark}, which it has not written"
            )
        if high_watermark > before:
            self._commit(broker, number, before, high_watermark)
        self._covers(broker, number, role)

    def _commit(
        self, broker: "SimulatedBroker", number: int, before: int, high_watermark: int
    ) -> None:
        committed, sequences = self.committed[number], self._sequences[number]
        for batch in reversed(broker.disks[number].batches):
            if batch.end_offset <= before:
                break
            if batch.end_offset > high_watermark:
                continue
            there = committed.setdefault(batch.base_offset, batch)
            if there != batch:
                raise Violation(f"broker {broker.id} commits {batch}, where {there} is committed")
            sequence = (batch.producer_id, batch.base_sequence)
            first_offset = sequences.setdefault(sequence, batch.base_offset)
            if first_offset != batch.base_offset and first_offset >= self._deleted_below(number):
                raise Violation(f"{batch} is committed twice")

    def _deleted_below(self, number: int) -> int:
        """Records below it are deleted on some replica. One that starts there does not know their producers, as in Kafka."""
        return max(each.disks[number].start_offset for each in self.world.brokers.values())

    def _complete(self, broker: "SimulatedBroker", number: int) -> None:
        """The leader of the newest epoch has everything that is committed."""
        truth = self.world.controller.partitions[number]
        if truth.leader_epoch != broker.replicas[number].leader_epoch:
            return
        self._has_committed(broker, number, "begins to lead")

    def _has_committed(self, broker: "SimulatedBroker", number: int, when: str) -> None:
        disk = broker.disks[number]
        log = {each.base_offset: each for each in disk.batches}
        for offset, batch in self.committed[number].items():
            if batch.end_offset > disk.start_offset and log.get(offset) != batch:
                raise Violation(f"broker {broker.id} {when} without committed {batch}")

    def _covers(self, broker: "SimulatedBroker", number: int, role: Leader) -> None:
        """The controller elects only replicas that the leader's high watermark waits for."""
        truth = self.world.controller.partitions[number]
        if truth.leader_epoch == role.epoch and not set(truth.isr) <= role.in_sync.maximal:
            raise Violation(f"ISR {truth.isr} is not within {sorted(role.in_sync.maximal)}")

    def truncates(self, broker: "SimulatedBroker", number: int, end_offset: int) -> None:
        """No member of the ISR truncates committed records."""
        self.truncations += 1
        truth = self.world.controller.partitions[number]
        ends = [each.end_offset for each in self.committed[number].values()]
        if broker.id in truth.isr and ends and end_offset < max(ends):
            raise Violation(f"broker {broker.id} of the ISR truncates to {end_offset}")

    def restarts_log(self, broker: "SimulatedBroker", number: int, start_offset: int) -> None:
        """A replica drops its log, which ends before the leader's begins. No member of the ISR does."""
        self.truncates(broker, number, start_offset)
        self.restarts += 1

    def acknowledged(self, number: int, base_offset: int, batch: Batch) -> None:
        """A producer got its acknowledgement."""
        self.acks += 1
        found = self.committed[number].get(base_offset)
        if found is None or found.data != batch.data:
            raise Violation(
                f"{batch.data} is acknowledged at {base_offset}, where {found} is committed"
            )

    def refused(self, error: BrokerError) -> None:
        """A producer got an error and has to retry."""
        self.refusals += 1

    def out_of_order(self, number: int, broker_id: int) -> None:
        """Only a replaced leader may refuse a batch as out of order, as it can lack the producer's newer batches.

        Producers here send one batch after the other.
        """
        replica = self.world.brokers[broker_id].replicas[number]
        truth = self.world.controller.partitions[number]
        if isinstance(replica.role, Leader) and replica.leader_epoch == truth.leader_epoch:
            raise Violation("a producer's next batch is refused as out of order")

    def consumed(self, number: int, batch: Batch) -> None:
        """A consumer reads committed batches only."""
        self.reads += 1
        if self.committed[number].get(batch.base_offset) != batch:
            raise Violation(f"a consumer reads {batch}, which is not committed")

    def at_the_end(self) -> None:
        """Without faults all replicas are in the ISR, and all logs are equal."""
        for number, truth in enumerate(self.world.controller.partitions):
            start_offset = self._deleted_below(number)
            logs = [
                tuple(
                    each for each in broker.disks[number].batches if each.end_offset > start_offset
                )
                for broker in self.world.brokers.values()
            ]
            if len(set(logs)) != 1:
                raise Violation(f"logs differ: {[each[-2:] for each in logs]}")
            behind = self.world.keeping_deleted_records(number)
            if behind:
                raise Violation(f"brokers {behind} have records that their leader has deleted")
            if len(truth.isr) != len(truth.replicas):
                raise Violation(f"ISR {truth.isr} of replicas {truth.replicas}")
            for broker in self.world.brokers.values():
                self._has_committed(broker, number, "is healed")
