"""Batches as blocks of rows, in order: plain batches in blocks that are decoded type by type, all others record by record. PURE.

Owns which way a batch takes. Who reads says when there is enough for a block, so what is in memory at a time is bounded.
"""

from collections.abc import Iterator

from quorum_node.records.batches import Batch
from quorum_pipeline.rows.columnar import Unusual
from quorum_pipeline.rows.plain_rows import FramedBatch, PlainRows, framed
from quorum_pipeline.rows.table import Rows

ROWS_AT_ONCE = 32_768
"""A block is worth the steps that it takes whatever its size, and fits into memory with all its columns."""
BYTES_AT_ONCE = 64 << 20
"""Of batches: also where records are long."""

AnyRows = Rows | PlainRows


class Gathering:
    """`source`: the file or the address that the rows are from."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._blocks: list[list[FramedBatch] | Rows] = []
        self._count = self._size_bytes = 0

    @property
    def is_enough(self) -> bool:
        """Whether it is time to `take`."""
        return self._count >= ROWS_AT_ONCE or self._size_bytes >= BYTES_AT_ONCE

    def add(self, batch: Batch, position: int, start_offset: int, end_offset: int) -> None:
        """The records of a batch from `start_offset` on and below `end_offset`."""
        header = batch.header
        is_whole = start_offset <= header.base_offset < header.end_offset <= end_offset
        plain = framed(batch, position) if is_whole else None
        self._count += header.record_count
        self._size_bytes += header.size_bytes
        if plain is None:
            self._by_record().add(batch, position, start_offset, end_offset)
        elif self._blocks and isinstance(self._blocks[-1], list):
            self._blocks[-1].append(plain)
        else:
            self._blocks.append([plain])

    def add_problem(self, offset: int, epoch: int, position: int, problem: str) -> None:
        """A place where records should be that can't be read."""
        self._count += 1
        self._by_record().add_problem(offset, epoch, position, problem)

    def take(self) -> Iterator[AnyRows]:
        """What came since the last time."""
        blocks, self._blocks, self._count, self._size_bytes = self._blocks, [], 0, 0
        for block in blocks:
            rows = block if isinstance(block, Rows) else self._decoded(block)
            if len(rows):
                yield rows

    def _by_record(self) -> Rows:
        if not self._blocks or not isinstance(self._blocks[-1], Rows):
            self._blocks.append(Rows(self._source))
        rows = self._blocks[-1]
        assert isinstance(rows, Rows)
        return rows

    def _decoded(self, batches: list[FramedBatch]) -> AnyRows:
        try:
            return PlainRows(self._source, batches)
        except Unusual:
            rows = Rows(self._source)
            for each in batches:
                header = each.batch.header
                rows.add(each.batch, each.position, header.base_offset, header.end_offset)
            return rows
