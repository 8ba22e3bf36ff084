"""Contiguous batches with their headers as columns, without an object per batch. PURE.

A run consists of complete batches with correct checksums, without a gap, whose headers allow the fast path
(`vectorized_rows.py`). `quorum_node.records.batches` reads everything else and reports errors. Source: Kafka's
documentation, "Record Batch".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from quorum_node.records.batches import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    Batch,
    read_header,
)
from quorum_pipeline.compiled import Bytes, Numbers
from quorum_pipeline.rows import loops
from quorum_pipeline.rows.loops import READ_AHEAD_BYTES

_OTHER_FORMS = CONTROL_FLAG | COMPRESSION_MASK
Placed = tuple[Batch, int]
"""A batch, and its position in its file."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Batch i is `data[borders[i]:borders[i + 1]]`, and begins at `positions[i]` of its file.

    The last batch is followed by READ_AHEAD_BYTES in `data`. `headers` has a row for each batch: see `loops.headers`.
    """

    data: Bytes
    borders: Numbers
    positions: Numbers
    headers: Numbers

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def base_offset(self) -> int:
        """Base offset of the first batch."""
        return int(self.headers[0, loops.BASE_OFFSET])

    @property
    def end_offset(self) -> int:
        """End offset of the last batch (exclusive)."""
        return int(self.headers[-1, loops.BASE_OFFSET] + self.headers[-1, loops.COUNT])

    @property
    def end_position(self) -> int:
        """End position of the last batch in its file."""
        return int(self.positions[0] + self.borders[-1] - self.borders[0])

    def batch(self, number: int) -> Placed:
        """Return one batch and its position."""
        begin, end = self.borders[number : number + 2]
        data = self.data[begin:end].data
        return Batch(read_header(data), data), int(self.positions[number])


def may_be_canonical(batch: Batch) -> bool:
    """Return whether a batch's header has the canonical form. Memory is allocated for its record count, so that has to be plausible."""
    header = batch.header
    return not header.attributes & _OTHER_FORMS and (
        header.record_count == header.last_offset_delta + 1 < header.size_bytes
    )


def run_of(batches: Sequence[Placed]) -> BatchRun:
    """Join batches that may be canonical into a run."""
    parts = [batch.data for batch, _ in batches]
    headers = [
        (h.base_offset, h.record_count, h.leader_epoch, h.base_timestamp_ms, h.crc)
        for h in (batch.header for batch, _ in batches)
    ]
    return BatchRun(
        np.frombuffer(b"".join([*parts, bytes(READ_AHEAD_BYTES)]), np.uint8),
        np.cumsum([0, *map(len, parts)]),
        np.array([position for _, position in batches], np.int64),
        np.array(headers, np.int64),
    )


def first_run(data: Bytes, size: int, position: int, offset: int) -> BatchRun | None:
    """Return the run of canonical batches from `offset` on at the begin of `data`, within its first `size` bytes; None if there is none.

    `position`: position of `data` in its file. READ_AHEAD_BYTES must follow those bytes.
    """
    most = size // HEADER_BYTES
    borders, headers = np.empty(most + 1, np.int64), np.empty((most, loops.HEADERS), np.int64)
    count = loops.headers(data, size, offset, _OTHER_FORMS, borders, headers)
    begins = zip(borders[: count + 1].tolist(), headers[:count, loops.CRC].tolist(), strict=False)
    ends = borders[1 : count + 1].tolist()
    view = data.data
    for number, ((begin, crc), end) in enumerate(zip(begins, ends, strict=True)):
        if crc32c(view[begin + CRC_COVERS_FROM : end]) != crc:
            count = number
            break
    if not count:
        return None
    borders = borders[: count + 1]
    return BatchRun(data, borders, borders[:-1] + position, headers[:count])
