"""Collects batches into blocks of rows: canonical batches are decoded type by type, others record by record. PURE.

The reader decides when a block is large enough, so memory is bounded.
"""

from collections.abc import Iterator

from quorum_node.records.batches import Batch
from quorum_pipeline.rows.runs import BatchRun, Placed, may_be_canonical, run_of
from quorum_pipeline.rows.table import Rows
from quorum_pipeline.rows.vectorized_rows import VectorizedRows, vectorized_blocks

ROWS_AT_ONCE = 131_072
"""Rows of a block: enough to outweigh its fixed cost, and few enough to fit into memory with all columns."""
BYTES_AT_ONCE = 64 << 20
"""Limit of a block's bytes of batches, for long records."""

AnyRows = Rows | VectorizedRows


class Gathering:
    """Collects batches of one source. `source`: file or address of the rows."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._blocks: list[list[Placed] | BatchRun | Rows] = []
        self._count = self._size_bytes = 0

    @property
    def is_enough(self) -> bool:
        """Whether the block is large enough for `take`."""
        return self._count >= ROWS_AT_ONCE or self._size_bytes >= BYTES_AT_ONCE

    def add(self, batch: Batch, position: int, start_offset: int, end_offset: int) -> None:
        """Add the records of a batch from `start_offset` to `end_offset` (exclusive)."""
        header = batch.header
        is_whole = start_offset <= header.base_offset < header.end_offset <= end_offset
        self._count += header.record_count
        self._size_bytes += header.size_bytes
        if not is_whole or not may_be_canonical(batch):
            self._by_record().add(batch, position, start_offset, end_offset)
        elif self._blocks and isinstance(self._blocks[-1], list):
            self._blocks[-1].append((batch, position))
        else:
            self._blocks.append([(batch, position)])

    def add_run(self, run: BatchRun) -> None:
        """Add all records of a run of batches."""
        self._count += run.end_offset - run.base_offset
        self._size_bytes += len(run.data)
        self._blocks.append(run)

    def add_problem(self, offset: int, epoch: int, position: int, problem: str) -> None:
        """Add a row for a place whose records can't be read."""
        self._count += 1
        self._by_record().add_problem(offset, epoch, position, problem)

    def take(self) -> Iterator[AnyRows]:
        """Yield the rows that were added since the last call."""
        blocks, self._blocks, self._count, self._size_bytes = self._blocks, [], 0, 0
        for block in blocks:
            found = [block] if isinstance(block, Rows) else self._decoded(block)
            yield from (rows for rows in found if len(rows))

    def _by_record(self) -> Rows:
        if not self._blocks or not isinstance(self._blocks[-1], Rows):
            self._blocks.append(Rows(self._source))
        rows = self._blocks[-1]
        assert isinstance(rows, Rows)
        return rows

    def _decoded(self, batches: list[Placed] | BatchRun) -> Iterator[AnyRows]:
        others = Rows(self._source)
        run = batches if isinstance(batches, BatchRun) else run_of(batches)
        for found in vectorized_blocks(self._source, run):
            if isinstance(found, VectorizedRows):
                yield others
                yield found
                others = Rows(self._source)
            else:
                batch, position = found
                others.add(batch, position, batch.header.base_offset, batch.header.end_offset)
        yield others
