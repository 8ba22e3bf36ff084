"""Replays a history; of long ones without the superseded records. PURE.

Owns when that is used, and the fallback. Records are collected in blocks. For topics, partitions and configs only the
remaining records of each block are kept (`compaction`) until the image is requested. Other types, which topics do not
depend on, are replayed at once. A block with anything unsupported or contradictory is replayed record by record like
on a node, so the result equals a node's, and errors have an offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Union

from quorum_node.image.changes import ImageChanges
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.topics import TopicsImage
from quorum_node.image.transactions import Transactions
from quorum_node.records.batches import Batch, CorruptBatch, decode_records
from quorum_node.records.config_changes import config_changes
from quorum_node.records.metadata import (
    LATEST_LEVEL,
    AnyMetadata,
    decode_metadata,
    encode_metadata,
    record_version,
)
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from quorum_pipeline.compaction.compaction import RecordRun
    from quorum_pipeline.state.log_columns import LogColumns

BLOCK_RECORDS, BLOCK_BYTES = 250_000, 32 << 20
"""So much is compacted at once,"""
BLOCK_TIMES_LEFT = 2
"""or so many times as many records as are left of all before: what is left is gone through again with every block."""
WORTH_RECORDS = 200_000
"""What is less at the end of a short history is replayed before the compiled loops are loaded."""
_AT_ONCE = 20_000
"""Records that change the image together. One by one, every small batch would close and open again all that it touches."""
_MANY_CONFIGS = 100
"""A batch of so many config records is worth a change of its own, by the fast way for them."""


class BadRecord(PipelineError):
    """A record that can't be decoded, or contradicts what came before."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Values:
    """Values of records, the first of them at `offset`."""

    offset: int
    values: Sequence[bytes]

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Offset and value of each."""
        return enumerate(self.values, self.offset)


Piece = Union[Batch, Values, "LogColumns"]


class Replaying:
    """Takes records in order, and has the image that they amount to. Everything may raise BadRecord."""

    def __init__(self, worth_records: int | None = None, block_records: int | None = None) -> None:
        self._committed = CommittedImage()
        self._worth_records = WORTH_RECORDS if worth_records is None else worth_records
        self._block_records = block_records
        self._pieces: list[Piece] = []
        """What came and is not replayed yet: so many records and bytes."""
        self._count = self._size_bytes = 0
        self._left: RecordRun | None = None
        """What is left of topics and configs, which then are not in the image; None: they are."""
        self._held: RecordRun | None = None
        """The records of a transaction that is open at the end of what was compacted."""

    @property
    def image(self) -> ClusterImage:
        """Brokers, topics, configs and the rest."""
        self.finish()
        return self._committed.image

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open: what it has written so far is not in the image."""
        self.finish()
        return self._committed.in_transaction

    def batch(self, batch: Batch) -> None:
        """All records of a batch that is no control batch."""
        self._add(batch, batch.header.record_count, batch.header.size_bytes)

    def values(self, offset: int, values: Sequence[bytes]) -> None:
        """Some records."""
        if values:
            self._add(Values(offset, values), len(values), sum(map(len, values)))

    def columns(self, found: "LogColumns") -> None:
        """Some records, none of which is a control record."""
        if len(found):
            self._add(found, len(found), int((found.ends - found.begins).sum()))

    def _add(self, piece: Piece, count: int, size_bytes: int) -> None:
        self._pieces.append(piece)
        self._count += count
        self._size_bytes += size_bytes
        if self._size_bytes >= BLOCK_BYTES or self._count >= self._wanted_records():
            self.replay_block()

    def _wanted_records(self) -> int:
        if self._block_records is not None:
            return self._block_records
        return max(BLOCK_RECORDS, BLOCK_TIMES_LEFT * len(self._left or ()))

    def finish(self) -> None:
        """Everything that came is in the image."""
        self.replay_block()
        self._put_back()

    def replay_block(self) -> None:
        """What was gathered until now: what is wrong with it is told, and what can be left out is."""
        pieces, count = self._pieces, self._count
        self._pieces, self._count, self._size_bytes = [], 0, 0
        if not pieces:
            return
        is_long = self._left is not None or count >= self._worth_records
        if not is_long or not self._compact(pieces):
            self._put_back()
            self._replay(pieces)

    def _compact(self, pieces: list[Piece]) -> bool:
        """Whether it went well; else nothing has changed."""
        # Imported when needed: this loads or compiles the loops.
        from quorum_pipeline.compaction import compaction
        from quorum_pipeline.plain_form import Unusual

        if self._left is None and not self._take_out():
            return False
        assert self._left is not None
        try:
            run = _run(pieces)
            if self._held is not None:
                run = compaction.joined(self._held, run)
            counted, held = compaction.settled(run)
            if len(held) > BLOCK_RECORDS:
                return False
            left = compaction.compacted(self._left, counted)
            others = compaction.decoded(compaction.others(counted))
            compaction.decoded(held)  # so that no invalid record is kept
        except (Unusual, MalformedRecord):
            return False
        self._committed.replay(others)
        self._left, self._held = left, held if len(held) else None
        return True

    def _take_out(self) -> bool:
        """Topics and configs become records again; False: that would not be the same."""
        from quorum_pipeline.compaction.compaction import run_of_values

        image = self._committed.image
        if self._committed.in_transaction or len(image.topics.ids) != len(image.topics):
            return False
        level = image.features.metadata_version
        self._left = run_of_values(list(_told(image)))
        self._committed.image = replace(image, topics=TopicsImage(), configs=ConfigsImage())
        assert self._committed.image.features.metadata_version == level
        return True

    def _put_back(self) -> None:
        from_block = self._left
        if from_block is None:
            return
        from quorum_pipeline.compaction.compaction import decoded

        self._committed.replay(decoded(from_block))
        self._left, held = None, self._held
        if held is not None:
            self._held = None
            self._committed.replay(decoded(held))

    def _replay(self, pieces: list[Piece]) -> None:
        """Record by record, as a node does it."""
        offsets: list[int] = []
        records: list[AnyMetadata] = []
        for piece in pieces:
            if isinstance(piece, Batch) and piece.header.record_count >= _MANY_CONFIGS:
                changes = config_changes(piece)
                if changes is not None:
                    self._replay_records(offsets, records)
                    offsets, records = [], []
                    if not self._committed.in_transaction:
                        self._committed.replay_configs(changes)
                        continue
            for offset, record in _decoded(piece):
                offsets.append(offset)
                records.append(record)
                if len(records) >= _AT_ONCE:
                    self._replay_records(offsets, records)
                    offsets, records = [], []
        self._replay_records(offsets, records)

    def _replay_records(self, offsets: list[int], records: list[AnyMetadata]) -> None:
        image, was_open = self._committed.image, self._committed.in_transaction
        try:
            self._committed.replay(records)
        except ValueError as error:
            index = 0 if was_open else _failing(image, records)
            raise BadRecord(offsets[index], str(error)) from None


def _run(pieces: list[Piece]) -> "RecordRun":
    """All their records. Raises Unusual."""
    from quorum_pipeline.compaction.compaction import (
        EMPTY,
        joined,
        run_of_array,
        run_of_batches,
        run_of_values,
    )

    batches = [each for each in pieces if isinstance(each, Batch)]
    if len(batches) == len(pieces):
        data = bytearray().join(each.data for each in batches)
        return run_of_batches(data, sum(each.header.record_count for each in batches))
    found = EMPTY
    for piece in pieces:
        if isinstance(piece, Batch):
            run = _run([piece])
        elif isinstance(piece, Values):
            run = run_of_values(piece.values)
        else:
            run = run_of_array(piece.data, piece.begins, piece.ends)
        found = joined(found, run)
    return found


def _told(image: ClusterImage) -> Iterator[bytes]:
    """Records that make its topics and configs again, whatever the finalized level has fields for."""
    for record in (*image.topics.snapshot_records(LATEST_LEVEL), *image.configs.snapshot_records()):
        if record is not None:
            yield encode_metadata(record, record_version(type(record), LATEST_LEVEL))


def _decoded(piece: Piece) -> Iterator[tuple[int, AnyMetadata]]:
    if not isinstance(piece, Batch):
        yield from _one_by_one(piece.each())
        return
    try:
        yield from enumerate(decode_batch(piece), piece.header.base_offset)
    except CorruptBatch as error:
        raise BadRecord(piece.header.base_offset, str(error)) from None
    except MalformedRecord:
        # Decode record by record, to find the invalid one.
        yield from _one_by_one((each.offset, each.value or b"") for each in decode_records(piece))


def _one_by_one(values: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, AnyMetadata]]:
    for offset, value in values:
        try:
            yield offset, decode_metadata(value)
        except MalformedRecord as error:
            raise BadRecord(offset, str(error)) from None


def _failing(image: ClusterImage, records: list[AnyMetadata]) -> int:
    """Which of them contradicts what came before."""
    changes, transactions = ImageChanges(image), Transactions()
    for index, record in enumerate(records):
        try:
            for each in transactions.take(record):
                changes.replay(each)
        except ValueError:
            return index
    raise AssertionError("one of them did")
