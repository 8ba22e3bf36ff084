"""The state of all records before an offset. PURE.

Owns the order (every record once, none missing) and the control records: voters, kraft.version, leader. The image
interprets metadata records. The snapshot of a state is byte-identical with the one that a node would write at this
offset (K595-30).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.batches import Batch, DecodedRecord, decode_records
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, decode_control
from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.state.log_record import LogRecord, misplaced
from quorum_pipeline.state.replaying import Replaying
from quorum_pipeline.state.tables import Row, StateTable

if TYPE_CHECKING:
    from quorum_pipeline.state.log_columns import LogColumns

KRAFT_VERSION_WITH_VOTERS = 1
"""Of a log without a record of it, too: a node of ours has voters in the log from the beginning."""


class Replayed:
    """State before `end_offset`; `epoch` and `timestamp_ms` are those of the last record before."""

    def __init__(self) -> None:
        self._replaying = Replaying()
        self.end_offset = 0
        self.epoch = 0
        self.timestamp_ms = 0
        self.leader_id: int | None = None
        self.kraft_version = KRAFT_VERSION_WITH_VOTERS
        self._voters: list[VotersRecord] = []
        """All since the beginning, each with its place in the log; the last is in force."""

    @property
    def id(self) -> SnapshotId:
        """The name of the snapshot of this state."""
        return SnapshotId(self.end_offset, self.epoch)

    @property
    def image(self) -> ClusterImage:
        """Brokers, topics, configs and the rest."""
        return self._replaying.image

    @property
    def voters(self) -> VotersRecord | None:
        """The voters in force, with the place of their record."""
        return self._voters[-1] if self._voters else None

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open here: what it has written so far is not in the image."""
        return self._replaying.in_transaction

    def begin(self, id: SnapshotId, batches: Iterable[Batch], bounds: SnapshotBounds) -> None:
        """Start from a verified snapshot. Raises BadRecord, whose offset is one of the snapshot's."""
        assert self.end_offset == 0, "a snapshot comes first"
        for batch in batches:
            if not batch.header.is_control:
                self._replaying.batch(batch)
        self._replaying.replay_block()
        self._at(id.end_offset, id.epoch, bounds.last_contained_log_timestamp_ms)
        if bounds.voters is not None:
            self._voters.append(bounds.voters)
            self.kraft_version = bounds.kraft_version

    def batch(self, batch: Batch, end_offset: int) -> None:
        """The next batch of the log, its records below `end_offset`. Raises PipelineError."""
        header = batch.header
        if not (header.base_offset == self.end_offset and header.end_offset <= end_offset) or (
            header.is_control
        ):
            begin = self.end_offset
            found = [e for e in decode_records(batch) if begin <= e.offset < end_offset]
            self.records(_log_record(batch, each) for each in found)
        else:
            self._replaying.batch(batch)
        self._at(min(header.end_offset, end_offset), header.leader_epoch, header.max_timestamp_ms)

    def records(self, records: Iterable[LogRecord]) -> None:
        """The next records of the log. Raises PipelineError if they don't follow."""
        begin, values = self.end_offset, list[bytes]()
        for record in records:
            if record.offset != self.end_offset:
                raise _missing(record.offset, self.end_offset)
            self._at(record.offset + 1, record.epoch, record.timestamp_ms)
            if not record.control:
                values.append(record.value)
                continue
            self._control(record)
            self._replaying.values(begin, values)
            begin, values = self.end_offset, []
        self._replaying.values(begin, values)

    def columns(self, found: "LogColumns") -> None:
        """The same, without a step for each of them."""
        wrong = found.first_wrong(self.end_offset)
        if wrong is not None:
            raise _missing(int(found.offsets[wrong]), self.end_offset + wrong)
        if not len(found):
            return
        for index in found.control.nonzero()[0].tolist():
            self._control(found.record(index))
        self._replaying.columns(found.some(~found.control))
        last = found.record(len(found) - 1)
        self._at(last.offset + 1, last.epoch, last.timestamp_ms)

    def rows(self, table: StateTable) -> Iterator[Row]:
        """Of one table, in order."""
        return table.rows(self)

    def count(self, table: StateTable) -> int:
        """How many rows a table has."""
        return table.count(self)

    def brokers(self) -> list[RegisterBrokerRecord]:
        """Their registrations, by number."""
        return [record for _, record in sorted(self.image.brokers.by_id.items())]

    def placed(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Topic, number and replicas of each partition, without those that are leaving; in order."""
        return placed_in(self.image)

    def finish(self) -> None:
        """Replay what was only gathered until now. Raises PipelineError, BadRecord among them."""
        self._replaying.finish()

    def begin_anew(self) -> None:
        """Nobody who knows this state's epochs is in the cluster that it is for: it has its first one."""
        self.epoch = min(self.epoch, 1)

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """The bytes of the snapshot of this state, with other `voters` if they are given.

        Raises PipelineError if there can be none.
        """
        if self.image.left_out:
            kinds = ", ".join(sorted(self.image.left_out))
            raise PipelineError(f"a snapshot would lose unknown records: {kinds}")
        if self.in_transaction:
            raise PipelineError(f"a metadata transaction is open at offset {self.end_offset}")
        bounds = SnapshotBounds(self.timestamp_ms, self.kraft_version, self._told_voters())
        if voters is not None:
            bounds = SnapshotBounds(self.timestamp_ms, KRAFT_VERSION_WITH_VOTERS, voters)
        return encode_snapshot(self.id, bounds, self.image.snapshot_records())

    def _control(self, record: LogRecord) -> None:
        decoded = DecodedRecord(record.offset, record.timestamp_ms, record.key, record.value)
        match decode_control(decoded):
            case LeaderChange(leader_id=leader_id):
                self.leader_id = leader_id
            case KRaftVersion(level=level):
                self.kraft_version = level
            case VotersRecord() as voters:
                place = (record.offset, record.epoch)
                self._voters.append(replace(voters, log_position=place))

    def _told_voters(self) -> VotersRecord | None:
        """As a node tells them: a newcomer has to see that a quorum which has shrunk had formed before."""
        if not self._voters:
            return None
        record, needed = self._voters[-1], self._voters[-1].initial_voters
        if needed is not None and any(_forms(each) for each in self._voters):
            needed = min(needed, len(record.voters))
        return replace(record, initial_voters=needed)

    def _at(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        self.end_offset, self.epoch, self.timestamp_ms = end_offset, epoch, timestamp_ms


def placed_in(image: ClusterImage) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Topic, number and replicas of each partition, without those that are leaving; in order."""
    for name in image.topics.names():
        topic = image.topics.named(name)
        assert topic is not None
        for number, partition in sorted(topic.partitions.items()):
            leaving = partition.removing_replicas
            yield name, number, tuple(each for each in partition.replicas if each not in leaving)


def _missing(offset: int, expected: int) -> PipelineError:
    return PipelineError(misplaced(offset, expected))


def _forms(record: VotersRecord) -> bool:
    """Whether a new quorum had all its initial voters with this set."""
    return len(record.voters) >= (record.initial_voters or 1)


def _log_record(batch: Batch, record: DecodedRecord) -> LogRecord:
    header = batch.header
    return LogRecord(
        record.offset,
        header.leader_epoch,
        record.timestamp_ms,
        header.is_control,
        record.key,
        record.value or b"",
    )
