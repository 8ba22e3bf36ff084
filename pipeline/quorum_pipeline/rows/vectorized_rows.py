"""Rows of many canonical batches, decoded type by type: the hot path of reading. PURE.

Owns which records are decoded together. A canonical batch is not compressed, has no control records and no gap between
offsets; its records have no keys, no headers, and the batch's timestamp. `runs.py` and `vectorized_blocks` detect anything
else, and the caller then uses the reference path (`table.py`). Source: Kafka's documentation, "Record Batch".
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE, MetadataMessage
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compiled import Bytes, Numbers
from quorum_pipeline.rows import loops
from quorum_pipeline.rows.column_arrays import bytes_array, field_array
from quorum_pipeline.rows.columnar import Indexes, fields_of
from quorum_pipeline.rows.content import Content, metadata_content
from quorum_pipeline.rows.runs import BatchRun, Placed

_HEAD_BYTES = 3
"""Frame version, type and version of a record, if each is one byte."""


@dataclass(frozen=True, slots=True)
class OneType:
    """Records of one type and version: their indexes in the block, in order, and the values of their fields by name."""

    indexes: Indexes
    cls: type[MetadataMessage]
    version: int
    columns: dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Records that were decoded one by one: their indexes in the block, in order, and their contents."""

    indexes: Indexes
    contents: list[Content]

    @property
    def records(self) -> Iterator[tuple[int, Content]]:
        """Pairs of index and content."""
        return zip(self.indexes.tolist(), self.contents, strict=True)


class VectorizedRows:
    """Columns of equal length, like those of `Rows`; the bytes of record i are `data[begins[i]:ends[i]]`."""

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
        """The contents of all records, decoded one by one."""
        return [metadata_content(each) for each in self.values]

    def value_array(self) -> pa.Array:
        """Return `values` as an Arrow array."""
        return bytes_array(self.data, self.begins, self.ends)

    def problems(self) -> Iterator[tuple[int, str]]:
        """Yield index and problem of each row that could not be decoded."""
        for group in self.groups:
            if isinstance(group, OneByOne):
                for index, content in group.records:
                    if content.problem is not None:
                        yield index, content.problem

    @cached_property
    def groups(self) -> list[OneType | OneByOne]:
        """All rows in groups of one type and version; each row is in one group, and the rows of a group are in order."""
        data, begins = self.data, self.begins
        is_long_enough = self.ends - begins >= _HEAD_BYTES
        head = np.where(is_long_enough, _heads(data, begins), -1).astype(np.int16)
        order = np.argsort(head, kind="stable")
        borders = np.flatnonzero(np.diff(head[order])) + 1
        return [self._group(int(head[indexes[0]]), indexes) for indexes in np.split(order, borders)]

    def by_group(self) -> Iterator["VectorizedRows"]:
        """Yield the same rows in one block for each group."""
        for group in self.groups:
            rows = copy(self)
            for name, values in vars(self).items():
                if isinstance(values, np.ndarray) and name != "data":
                    setattr(rows, name, values.take(group.indexes))
            alone = replace(group, indexes=np.arange(len(group.indexes)))
            vars(rows).pop("contents", None)
            vars(rows)["groups"] = [alone]
            yield rows

    def _group(self, head: int, indexes: Indexes) -> OneType | OneByOne:
        cls, version = RECORDS_BY_TYPE.get(head >> 8) if head >= 0 else None, head & 0xFF
        if cls is not None and version <= cls.HIGHEST_VERSION:
            try:
                return OneType(indexes, cls, version, self._columns(cls, version, indexes))
            except Unsupported:
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


def vectorized_blocks(source: str, run: BatchRun) -> Iterator[VectorizedRows | Placed]:
    """Yield the batches of a run in order: contiguous canonical ones as one block, others as batches."""
    counts = run.headers[:, loops.COUNT]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    begins, ends = np.empty(firsts[-1], np.int64), np.empty(firsts[-1], np.int64)
    is_canonical = loops.frames(run.data, run.borders, firsts, begins, ends)
    for some in np.split(np.arange(len(run)), np.flatnonzero(np.diff(is_canonical)) + 1):
        if not is_canonical[some[0]]:
            yield from map(run.batch, some)
            continue
        own = slice(firsts[some[0]], firsts[some[-1] + 1])
        rows = VectorizedRows(source, run.data, begins[own], ends[own])
        _add_headers(rows, run, slice(some[0], some[-1] + 1))
        yield rows


def _add_headers(rows: VectorizedRows, run: BatchRun, some: slice) -> None:
    """Fill in the columns that all records of a batch share."""
    headers = run.headers[some]
    counts = headers[:, loops.COUNT]
    rows.epochs = np.repeat(headers[:, loops.EPOCH], counts)
    rows.timestamps_ms = np.repeat(headers[:, loops.TIMESTAMP_MS], counts)
    rows.batch_offsets = np.repeat(headers[:, loops.BASE_OFFSET], counts)
    rows.batch_crcs = np.repeat(headers[:, loops.CRC], counts)
    rows.positions = np.repeat(run.positions[some], counts)
    firsts = np.cumsum(counts) - counts
    rows.offsets = rows.batch_offsets + np.arange(len(rows)) - np.repeat(firsts, counts)


def _heads(data: Bytes, begins: Numbers) -> Numbers:
    """Return type and version as one number; -1 if they are not one byte each, or the frame version is another one."""
    kinds, versions = data[begins + 1].astype(np.int64), data[begins + 2].astype(np.int64)
    known = (data[begins] == FRAME_VERSION) & (kinds < 0x80) & (versions < 0x80)
    return np.where(known, kinds << 8 | versions, -1)
