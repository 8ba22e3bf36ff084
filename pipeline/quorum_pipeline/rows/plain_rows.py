"""Rows of many batches in the form that all writers of metadata use, decoded type by type: the hot path of reading. PURE.

Owns the way through such batches, and which records are decoded together. A plain batch is not compressed, has no control records and
no gap between offsets; its records have no keys, no headers, and the batch's timestamp. Whatever is different is not decided here:
`framed` and `PlainRows` refuse it, and the caller takes the reference path (`table.py`). Source: Kafka's documentation, "Record Batch".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from quorum_node.records.batches import CONTROL_FLAG, HEADER_BYTES, Batch
from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE, MetadataMessage
from quorum_pipeline.rows.column_arrays import bytes_array, field_array
from quorum_pipeline.rows.columnar import (
    READ_AHEAD_BYTES,
    Bytes,
    Indexes,
    Positions,
    Unusual,
    fields_of,
    uvarints,
)
from quorum_pipeline.rows.content import Content, metadata_content

_OTHER_FORMS = CONTROL_FLAG | 0x07
"""Control batches and compressed ones."""
_HEAD_BYTES = 3
"""Frame version, type and version of a record, where each is one byte."""


@dataclass(frozen=True, slots=True)
class FramedBatch:
    """A batch, where in its file it begins, and where each of its records ends, in bytes of the batch."""

    batch: Batch
    position: int
    ends: list[int]


def framed(batch: Batch, position: int) -> FramedBatch | None:
    """None: take the reference path."""
    header = batch.header
    if header.attributes & _OTHER_FORMS or header.record_count != header.last_offset_delta + 1:
        return None
    ends = _ends(batch.data, header.record_count)
    return None if ends is None else FramedBatch(batch, position, ends)


def _ends(data: memoryview, count: int) -> list[int] | None:
    """The one loop over records that is left: each says where the next one begins."""
    raw, at = bytes(data), HEADER_BYTES
    ends: list[int] = []
    add = ends.append
    try:
        for _ in range(count):
            byte = raw[at]
            if byte < 0x80:
                at += 1 + (byte >> 1)
            else:
                high = raw[at + 1]
                if high >= 0x80:
                    return None
                at += 2 + ((byte & 0x7F | high << 7) >> 1)
            add(at)
    except IndexError:
        return None
    return ends if at == len(raw) else None


@dataclass(frozen=True, slots=True)
class OneType:
    """Records of one type and version: their numbers in the block, in order, and the values of their fields, by name."""

    indexes: Indexes
    cls: type[MetadataMessage]
    version: int
    columns: dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Records that were decoded one by one: their numbers in the block, in order, and what they say."""

    indexes: Indexes
    contents: list[Content]

    @property
    def records(self) -> Iterator[tuple[int, Content]]:
        """Both, side by side."""
        return zip(self.indexes.tolist(), self.contents, strict=True)


class PlainRows:
    """Columns of one length, as `Rows` has them. Raises Unusual if a batch is not plain."""

    def __init__(self, source: str, batches: Sequence[FramedBatch]) -> None:
        self.source = source
        headers = [each.batch.header for each in batches]
        counts = np.array([each.record_count for each in headers])
        self._count = int(counts.sum())

        def of_batches(values: list[int]) -> Positions:
            return np.repeat(np.array(values, np.int64), counts)

        self.epochs = of_batches([each.leader_epoch for each in headers])
        self.timestamps_ms = of_batches([each.base_timestamp_ms for each in headers])
        self.batch_offsets = of_batches([each.base_offset for each in headers])
        self.batch_crcs = of_batches([each.crc for each in headers])
        self.positions = of_batches([each.position for each in batches])
        deltas = np.arange(self._count) - np.repeat(np.cumsum(counts) - counts, counts)
        self.offsets = self.batch_offsets + deltas
        parts = [each.batch.data for each in batches]
        sizes = [len(each) for each in parts]
        self._data: Bytes = np.frombuffer(b"".join([*parts, bytes(READ_AHEAD_BYTES)]), np.uint8)
        begins = of_batches(np.cumsum([0, *sizes[:-1]]).tolist())
        ends = begins + np.concatenate([np.array(each.ends, np.int64) for each in batches])
        starts = np.where(deltas == 0, begins + HEADER_BYTES, np.roll(ends, 1))
        self._begins, self._ends = _values_of(self._data, starts, ends, deltas)

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> list[bytes]:
        """The bytes of the records."""
        found: list[bytes] = self.value_array().to_pylist()
        return found

    @cached_property
    def contents(self) -> list[Content]:
        """Every record, decoded one by one."""
        return [metadata_content(each) for each in self.values]

    def value_array(self) -> pa.Array:
        """`values`, for Arrow."""
        return bytes_array(self._data, self._begins, self._ends)

    def problems(self) -> Iterator[tuple[int, str]]:
        """Numbers of the rows that could not be decoded, and why."""
        for group in self.groups:
            if isinstance(group, OneByOne):
                for index, content in group.records:
                    if content.problem is not None:
                        yield index, content.problem

    @cached_property
    def groups(self) -> list[OneType | OneByOne]:
        """All rows, each in one of them; within one they are in order."""
        data, begins = self._data, self._begins
        is_short = self._ends - begins >= _HEAD_BYTES
        head = np.where(is_short, _heads(data, begins), -1)
        order = np.argsort(head.astype(np.int16), kind="stable")
        borders = np.flatnonzero(np.diff(head[order])) + 1
        return [self._group(int(head[indexes[0]]), indexes) for indexes in np.split(order, borders)]

    def _group(self, head: int, indexes: Indexes) -> OneType | OneByOne:
        cls, version = RECORDS_BY_TYPE.get(head >> 8) if head >= 0 else None, head & 0xFF
        if cls is not None and version <= cls.HIGHEST_VERSION:
            try:
                return OneType(indexes, cls, version, self._columns(cls, version, indexes))
            except Unusual:
                pass
        begins, ends = self._begins[indexes], self._ends[indexes]
        values = bytes_array(self._data, begins, ends).to_pylist()
        return OneByOne(indexes, list(map(metadata_content, values)))

    def _columns(
        self, cls: type[MetadataMessage], version: int, indexes: Indexes
    ) -> dict[str, pa.Array]:
        begins, ends = self._begins[indexes] + _HEAD_BYTES, self._ends[indexes]
        fields = fields_of(cls, version, self._data, begins, ends)
        return {
            name: field_array(self._data, field, len(indexes)) for name, field in fields.items()
        }


def _values_of(
    data: Bytes, starts: Positions, ends: Positions, deltas: Positions
) -> tuple[Positions, Positions]:
    """Where the values begin and end in records of a known extent. Raises Unusual on any other form."""
    sizes, at = uvarints(data, starts)
    # Attributes, no timestamp delta, the offset delta, no key (a length of -1, in zigzag), the value, no headers.
    no_delay = data[at + 1] == 0
    offset_deltas, at = uvarints(data, at + 2)
    no_key = data[at] == 1
    value_sizes, at = uvarints(data, at + 1)
    behind = at + (value_sizes >> 1)
    plain = no_delay & no_key & (offset_deltas == deltas << 1) & ((sizes | value_sizes) & 1 == 0)
    if not (plain & (behind + 1 == ends) & (data[ends - 1] == 0)).all():
        raise Unusual
    return at, behind


def _heads(data: Bytes, begins: Positions) -> Positions:
    """Type and version as one number; -1 where they are not of one byte each, or the frame is another."""
    kinds, versions = data[begins + 1].astype(np.int64), data[begins + 2].astype(np.int64)
    known = (data[begins] == FRAME_VERSION) & (kinds < 0x80) & (versions < 0x80)
    return np.where(known, kinds << 8 | versions, -1)
