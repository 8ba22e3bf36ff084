"""The state of all records before an offset by one replay, record by record: the reference for jobs, which reduce spans and merge them.

Owns the order (every record once, none missing) and the control records: voters, kraft.version, leader. The node's image interprets
metadata records. The snapshot of a state is byte-identical with the one that a node would write at this offset.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import Batch, DecodedRecord, decode_records
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, decode_control
from quorum_node.records.metadata import RegisterBrokerRecord, decode_metadata
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.state_job import KRAFT_VERSION_WITH_VOTERS
from quorum_pipeline.spark.state_parts import placed_in
from quorum_pipeline.state.log_columns import LogColumns
from quorum_pipeline.state.log_record import LogRecord, misplaced
from quorum_pipeline.state.tables import Row, StateTable


class BadRecord(PipelineError):
    """A record that can't be decoded, or contradicts what came before."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset


class Replayed:
    """State before `end_offset`; `epoch` and `timestamp_ms` are those of the last record before."""

    def __init__(self) -> None:
        self._committed = CommittedImage()
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
        return self._committed.image

    @property
    def voters(self) -> VotersRecord | None:
        """The voters in force, with the place of their record."""
        return self._voters[-1] if self._voters else None

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open here: what it has written so far is not in the image."""
        return self._committed.in_transaction

    def begin(self, id: SnapshotId, batches: Iterable[Batch], bounds: SnapshotBounds) -> None:
        """Start from a verified snapshot. Raises BadRecord, whose offset is one of the snapshot's."""
        assert self.end_offset == 0, "a snapshot comes first"
        for batch in batches:
            if not batch.header.is_control:
                for record in decode_records(batch):
                    self._metadata(record.offset, record.value or b"")
        self._at(id.end_offset, id.epoch, bounds.last_contained_log_timestamp_ms)
        if bounds.voters is not None:
            self._voters.append(bounds.voters)
            self.kraft_version = bounds.kraft_version

    def batch(self, batch: Batch, end_offset: int) -> None:
        """The next batch of the log, its records below `end_offset`. Raises PipelineError."""
        header, begin = batch.header, self.end_offset
        found = [e for e in decode_records(batch) if begin <= e.offset < end_offset]
        self.records(_log_record(batch, each) for each in found)
        self._at(min(header.end_offset, end_offset), header.leader_epoch, header.max_timestamp_ms)

    def records(self, records: Iterable[LogRecord]) -> None:
        """The next records of the log. Raises PipelineError if they don't follow."""
        for record in records:
            if record.offset != self.end_offset:
                raise PipelineError(misplaced(record.offset, self.end_offset))
            self._at(record.offset + 1, record.epoch, record.timestamp_ms)
            if record.control:
                self._control(record)
            else:
                self._metadata(record.offset, record.value)

    def columns(self, found: LogColumns) -> None:
        """The same."""
        self.records(found.record(index) for index in range(len(found)))

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

    def reset_epochs(self) -> None:
        """The cluster that it is for has its first epoch: no member knows the epochs of this state."""
        self.epoch = min(self.epoch, 1)

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """The bytes of the snapshot of this state, with other `voters` if they are given.

        Raises PipelineError if there can be none.
        """
        if self.image.left_out:
            kinds = ", ".join(sorted(self.image.left_out))
            raise PipelineError(
                f"a snapshot would lose unknown records: {kinds}. Use a version of this program that knows them"
            )
        if self.in_transaction:
            raise PipelineError(
                f"a metadata transaction is open at offset {self.end_offset}: choose an earlier offset (--at-offset)"
            )
        bounds = SnapshotBounds(self.timestamp_ms, self.kraft_version, self._told_voters())
        if voters is not None:
            bounds = SnapshotBounds(self.timestamp_ms, KRAFT_VERSION_WITH_VOTERS, voters)
        return encode_snapshot(self.id, bounds, self.image.snapshot_records())

    def _metadata(self, offset: int, value: bytes) -> None:
        try:
            self._committed.replay([decode_metadata(value)])
        except (MalformedRecord, ValueError) as error:
            raise BadRecord(offset, str(error)) from None

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
        """As a node reports them: a new member has to see that a quorum which has shrunk had formed before."""
        if not self._voters:
            return None
        record, needed = self._voters[-1], self._voters[-1].initial_voters
        if needed is not None and any(_forms(each) for each in self._voters):
            needed = min(needed, len(record.voters))
        return replace(record, initial_voters=needed)

    def _at(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        self.end_offset, self.epoch, self.timestamp_ms = end_offset, epoch, timestamp_ms


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
