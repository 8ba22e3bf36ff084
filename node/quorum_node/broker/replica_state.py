"""State of a partition's replica in every role. PURE.

Owns the fields that leader and follower share, and the outputs of the present step.
"""

from collections.abc import Mapping

from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import LogShape, OpenedLog
from quorum_node.broker.outputs import AppendBatches, Output, ReadableMoved, SaveEpochs
from quorum_node.broker.producers import ProducerStates
from quorum_node.broker.settings import PartitionSettings

NOT_REPORTED = -1


class ReplicaState:
    """`leader_epoch` and `partition_epoch`: of the newest applied metadata; NOT_REPORTED before."""

    __slots__ = (
        "active_brokers",
        "broker_id",
        "leader_epoch",
        "log",
        "next_proposal_id",
        "outputs",
        "partition_epoch",
        "producers",
        "replicas",
        "settings",
    )

    def __init__(self, broker_id: int, opened: OpenedLog, settings: PartitionSettings) -> None:
        self.broker_id = broker_id
        self.log = LogShape(opened)
        self.producers = ProducerStates(opened.producers)
        self.settings = settings
        self.leader_epoch = NOT_REPORTED
        self.partition_epoch = NOT_REPORTED
        self.replicas: tuple[int, ...] = ()
        self.active_brokers: Mapping[int, int] = {}
        self.next_proposal_id = 1
        self.outputs: list[Output] = []

    def emit(self, output: Output) -> None:
        """Add an output."""
        self.outputs.append(output)

    def enter_epoch(self, epoch: int) -> None:
        """Batches of `epoch` follow from the end of the log on. The log has no later epochs: no replica begins with such a log."""
        if epoch != self.log.epochs.latest:
            self.log.epochs.enter(epoch, self.log.end_offset)
            self.emit(SaveEpochs(self.log.epochs.starts))

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Pass placed batches to the writer, after their epochs to the checkpoint."""
        known = self.log.epochs.latest
        for batch in batches:
            self.log.append(batch)
            self.producers.append(batch)
        if self.log.epochs.latest != known:
            self.emit(SaveEpochs(self.log.epochs.starts))
        self.emit(AppendBatches(batches))

    def raise_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark; it never decreases. True if it moved."""
        if offset <= self.log.high_watermark:
            return False
        self.log.high_watermark = offset
        self.emit(ReadableMoved())
        return True
