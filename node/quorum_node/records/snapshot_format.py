"""The format of a snapshot: a header batch, data batches, a footer batch, with offsets from 0.

Owns the encoder, and the check that every snapshot passes before it is used. Must not know files,
nor the meaning of data records.
Source: KIP-630, "Snapshot Format"; KIP-853, "Snapshots" (kraft.version and voters are in the
control batch of the header), as stock Kafka 4.x writes and reads them.
The checksum of a batch does not cover its offset and epoch. Both are known here (offsets count from
0, the epoch is that of the id), so a single flipped bit anywhere in a snapshot is detected.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from quorum_node.records.batches import (
    PREFIX_BYTES,
    Batch,
    CorruptBatch,
    decode_records,
    encode_batch,
    encode_values,
    split_batches,
)
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    VotersRecord,
    decode_control,
    encode_control,
)
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.schema.primitives import MalformedRecord

BATCH_BYTES = 64 * 1024
"""Size of values after which a data batch is complete.

Small, because framing a batch blocks the rest of the process.
"""
MAX_BATCH_BYTES = 32 << 20
"""Stock Kafka completes a batch at 8 MiB. A larger length is damage."""


class CorruptSnapshot(Exception):
    """The bytes are not a complete, undamaged snapshot of that id."""


@dataclass(frozen=True, slots=True)
class SnapshotBounds:
    """Content of the control records. `kraft_version` 0: static voters, none recorded."""

    last_contained_log_timestamp_ms: int
    kraft_version: int = 0
    voters: VotersRecord | None = None


def encode_snapshot(
    id: SnapshotId, bounds: SnapshotBounds, values: Iterable[bytes | None]
) -> Iterator[bytes]:
    """The batches of a snapshot, in order; the same arguments give the same bytes.

    A value of None yields an empty piece, at which the caller can pause. All timestamps come from
    the log, none from the clock, so replicas that write a snapshot of one id write identical files
    (K595-30).
    """
    timestamp_ms = bounds.last_contained_log_timestamp_ms
    head: list[ControlRecord] = [SnapshotHeader(timestamp_ms)]
    if bounds.kraft_version > 0:
        head.append(KRaftVersion(bounds.kraft_version))
        if bounds.voters is not None:
            head.append(bounds.voters)
    yield _control_batch(id, 0, timestamp_ms, head)
    offset = len(head)
    for some in _grouped(values):
        if not some:
            yield b""
            continue
        yield encode_values(
            base_offset=offset, leader_epoch=id.epoch, timestamp_ms=timestamp_ms, values=some
        )
        offset += len(some)
    yield _control_batch(id, offset, timestamp_ms, [SnapshotFooter()])


def _control_batch(
    id: SnapshotId, base_offset: int, timestamp_ms: int, records: list[ControlRecord]
) -> bytes:
    return encode_batch(
        base_offset=base_offset,
        leader_epoch=id.epoch,
        timestamp_ms=timestamp_ms,
        records=[encode_control(record) for record in records],
        control=True,
    )


def _grouped(values: Iterable[bytes | None]) -> Iterator[Sequence[bytes]]:
    """The values of one batch; None for a pause."""
    group: list[bytes] = []
    size_bytes = 0
    for value in values:
        if value is None:
            yield ()
            continue
        group.append(value)
        size_bytes += len(value)
        if size_bytes >= BATCH_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


class SnapshotReader:
    """Checks a snapshot piece by piece; buffers at most one incomplete batch.

    `feed` returns batches as they become complete, control batches too. They must not take effect
    before `finish` has returned: only then the snapshot is known to be complete.
    """

    def __init__(self, id: SnapshotId) -> None:
        self._id = id
        self._rest = b""
        self._next_offset = 0
        self.checked_bytes = 0
        """Length of the valid batches from the start."""
        self._header: SnapshotHeader | None = None
        self._kraft_version = 0
        self._voters: VotersRecord | None = None
        self._ended = False

    def feed(self, data: bytes) -> list[Batch]:
        """The next bytes of the file, in order. Raises CorruptSnapshot."""
        content = self._rest + data if self._rest else data
        try:
            batches, rest_bytes = split_batches(content)
            for batch in batches:
                self._take(batch)
        except (CorruptBatch, MalformedRecord) as error:
            reason = error.reason if isinstance(error, CorruptBatch) else str(error)
            raise self._corrupt(f"near byte {self.checked_bytes}: {reason}") from None
        self._rest = content[len(content) - rest_bytes :]
        if len(self._rest) >= PREFIX_BYTES:
            wanted = int.from_bytes(self._rest[8:12], "big")
            if wanted > MAX_BATCH_BYTES:
                raise self._corrupt(f"a batch of {wanted} bytes at byte {self.checked_bytes}")
        return batches

    def finish(self) -> SnapshotBounds:
        """All bytes were fed. Raises CorruptSnapshot unless they are a complete snapshot."""
        if self._rest:
            raise self._corrupt(f"it ends in the middle of a batch at byte {self.checked_bytes}")
        if self._header is None or not self._ended:
            raise self._corrupt(f"it has no {'footer' if self._header else 'header'}: incomplete")
        timestamp_ms = self._header.last_contained_log_timestamp_ms
        return SnapshotBounds(timestamp_ms, self._kraft_version, self._voters)

    def _take(self, batch: Batch) -> None:
        """Check one batch against what came before."""
        header = batch.header
        if self._ended:
            raise CorruptBatch(0, "bytes after the footer")
        if header.base_offset != self._next_offset:
            reason = f"offset {header.base_offset} instead of {self._next_offset}"
            raise CorruptBatch(0, reason)
        if header.leader_epoch != self._id.epoch:
            raise CorruptBatch(0, f"epoch {header.leader_epoch} in a snapshot of {self._id}")
        if header.record_count != header.last_offset_delta + 1:
            raise CorruptBatch(0, f"{header.record_count} records up to {header.last_offset_delta}")
        if header.is_control:
            for record in decode_records(batch):
                self._take_control(decode_control(record))
        elif self._header is None:
            raise CorruptBatch(0, "data before the header")
        self._next_offset = header.end_offset
        self.checked_bytes += header.size_bytes

    def _take_control(self, record: ControlRecord | UnknownControl) -> None:
        if self._header is None:
            if not isinstance(record, SnapshotHeader):
                raise CorruptBatch(0, "the first record is not a snapshot header")
            self._header = record
            return
        if self._ended:
            raise CorruptBatch(0, "a record after the footer")
        match record:
            case SnapshotHeader():
                raise CorruptBatch(0, "a second header")
            case SnapshotFooter():
                self._ended = True
            case KRaftVersion():
                self._kraft_version = record.level
            case VotersRecord():
                self._voters = record
            case _:
                pass  # a record of a newer version; stock Kafka's own rule for snapshots is the same

    def _corrupt(self, reason: str) -> CorruptSnapshot:
        return CorruptSnapshot(f"snapshot {self._id} is damaged: {reason}")
