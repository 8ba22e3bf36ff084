"""Rows of many batches in the form that all writers of metadata use, decoded type by type: the hot path of reading. PURE.

Owns which records are decoded together. A plain batch is not compressed, has no control records and no gap between offsets; its
records have no keys, no headers, and the batch's timestamp. Whatever is different is not decided here: `may_be_plain` and
`plain_blocks` tell it apart, and the caller takes the reference path (`table.py`). Source: Kafka's documentation, "Record Batch".
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from quorum_node.records.batches import CONTROL_FLAG, Batch
from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE, MetadataMessage
from quorum_pipeline.rows.column_arrays import bytes_array, field_array
from quorum_pipeline.rows.columnar import Indexes, Unusual, fields_of
from quorum_pipeline.rows.content import Content, metadata_content
from quorum_pipeline.rows.loops import READ_AHEAD_BYTES, Bytes, Numbers, frames

_OTHER_FORMS = CONTROL_FLAG | 0x07
"""Control batches and compressed ones."""
_HEAD_BYTES = 3
"""Frame version, type and version of a record, where each is one byte."""

Placed = tuple[Batch, int]
"""A batch, and where in its file it begins."""


def may_be_plain(batch: Batch) -> bool:
    """By its header. Room is made for as many records as it tells, so they have to fit into it."""
    header = batch.header
    return not header.attributes & _OTHER_FORMS and (
        header.record_count == header.last_offset_delta + 1 < header.size_bytes
    )


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
    """Columns of one length, as `Rows` has them; the bytes of a record are `data[begins[i]:ends[i]]`."""

    offsets: Numbers
    epochs: Numbers
    timestamps_ms: Numbers
    batch_offsets: Numbers
    batch_crcs: Numbers
    positions: Numbers

    def __init__(self, source: str, data: Bytes, begins: Numbers, ends: Numbers) -> None:
        self.source = source
        self.data = data
        self.begins = begins
        self.ends = ends

    def __len__(self) -> int:
        return len(self.begins)

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
        return bytes_array(self.data, self.begins, self.ends)

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
        data, begins = self.data, self.begins
        is_long_enough = self.ends - begins >= _HEAD_BYTES
        head = np.where(is_long_enough, _heads(data, begins), -1).astype(np.int16)
        order = np.argsort(head, kind="stable")
        borders = np.flatnonzero(np.diff(head[order])) + 1
        return [self._group(int(head[indexes[0]]), indexes) for indexes in np.split(order, borders)]

    def by_group(self) -> Iterator["PlainRows"]:
        """The same rows, in one block for each group."""
        for group in self.groups:
            rows = copy(self)
            for name, values in vars(self).items():
                if isinstance(values, np.ndarray) and name != "data":
                    setattr(rows, name, values[group.indexes])
            alone = replace(group, indexes=np.arange(len(group.indexes)))
            vars(rows).pop("contents", None)
            vars(rows)["groups"] = [alone]
            yield rows

    def _group(self, head: int, indexes: Indexes) -> OneType | OneByOne:
        cls, version = RECORDS_BY_TYPE.get(head >> 8) if head >= 0 else None, head & 0xFF
        if cls is not None and version <= cls.HIGHEST_VERSION:
            try:
                return OneType(indexes, cls, version, self._columns(cls, version, indexes))
            except Unusual:
                pass
        begins, ends = self.begins[indexes], self.ends[indexes]
        values = bytes_array(self.data, begins, ends).to_pylist()
        return OneByOne(indexes, list(map(metadata_content, values)))

    def _columns(
        self, cls: type[MetadataMessage], version: int, indexes: Indexes
    ) -> dict[str, pa.Array]:
        begins, ends = self.begins[indexes] + _HEAD_BYTES, self.ends[indexes]
        fields = fields_of(cls, version, self.data, begins, ends)
        return {name: field_array(self.data, field, len(indexes)) for name, field in fields.items()}


def plain_blocks(source: str, batches: Sequence[Placed]) -> Iterator[PlainRows | Placed]:
    """Batches that may be plain, in order: those that are so, together; the others as they are."""
    parts = [batch.data for batch, _ in batches]
    borders = np.cumsum([0, *map(len, parts)])
    headers = [batch.header for batch, _ in batches]
    counts = np.array([each.record_count for each in headers])
    firsts = np.concatenate([[0], np.cumsum(counts)])
    data: Bytes = np.frombuffer(b"".join([*parts, bytes(READ_AHEAD_BYTES)]), np.uint8)
    begins, ends = np.empty(firsts[-1], np.int64), np.empty(firsts[-1], np.int64)
    is_plain = frames(data, borders, firsts, begins, ends)
    for run in np.split(np.arange(len(batches)), np.flatnonzero(np.diff(is_plain)) + 1):
        if not is_plain[run[0]]:
            yield from (batches[number] for number in run)
            continue
        own = slice(firsts[run[0]], firsts[run[-1] + 1])
        rows = PlainRows(source, data, begins[own], ends[own])
        _add_headers(rows, [batches[number] for number in run], counts[run])
        yield rows


def _add_headers(rows: PlainRows, batches: Sequence[Placed], counts: Numbers) -> None:
    """What all records of a batch have in common."""
    headers = [batch.header for batch, _ in batches]

    def of_batches(values: list[int]) -> Numbers:
        return np.repeat(np.array(values, np.int64), counts)

    rows.epochs = of_batches([each.leader_epoch for each in headers])
    rows.timestamps_ms = of_batches([each.base_timestamp_ms for each in headers])
    rows.batch_offsets = of_batches([each.base_offset for each in headers])
    rows.batch_crcs = of_batches([each.crc for each in headers])
    rows.positions = of_batches([position for _, position in batches])
    firsts = np.cumsum(counts) - counts
    rows.offsets = rows.batch_offsets + np.arange(len(rows)) - np.repeat(firsts, counts)


def _heads(data: Bytes, begins: Numbers) -> Numbers:
    """Type and version as one number; -1 where they are not of one byte each, or the frame is another."""
    kinds, versions = data[begins + 1].astype(np.int64), data[begins + 2].astype(np.int64)
    known = (data[begins] == FRAME_VERSION) & (kinds < 0x80) & (versions < 0x80)
    return np.where(known, kinds << 8 | versions, -1)
