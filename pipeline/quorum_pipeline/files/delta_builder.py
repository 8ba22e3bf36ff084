"""Computes the delta of rows while they are written to an archive, so that nothing is read or decoded twice.

Damage, and records that the compiled loops don't support, end it: that part then has no delta, and its records are
read when needed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from quorum_node.records.batches import DecodedRecord
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.record_run import known_run, run_of_values
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.files.delta_file import DeltaHead, write_delta
from quorum_pipeline.files.sealed_file import stem_of
from quorum_pipeline.rows.gathering import AnyRows
from quorum_pipeline.rows.table import Rows
from quorum_pipeline.rows.vectorized_rows import VectorizedRows
from quorum_pipeline.state.compiled_span import CompiledSpan

_OFFSETS_DIGITS = 20


class DeltaBuilder:
    """The delta of one part of an archive."""

    def __init__(self) -> None:
        self._span: CompiledSpan | None = CompiledSpan()
        self._at: Summary | None = None

    def through(self, blocks: Iterable[AnyRows]) -> Iterator[AnyRows]:
        """Yield the same blocks, and add them to the delta."""
        for rows in blocks:
            if self._span is not None and len(rows):
                try:
                    self._take(self._span, rows)
                except (Unsupported, MalformedRecord):
                    self._span = None
            yield rows

    def write(self, directory: Path) -> tuple[str, int]:
        """Write the file; return its name and number of rows, or an empty name if there is no delta. Raises OSError."""
        if self._span is None or self._at is None:
            return "", 0
        at = self._at
        try:
            pieces = list(self._span.pieces())
        except Unsupported:
            return "", 0
        stem = part_stem(at.start_offset, at.end_offset)
        head = DeltaHead(at, self._span.boundary, self._span.is_open)
        return write_delta(directory, stem, head, pieces)

    def _take(self, span: CompiledSpan, rows: AnyRows) -> None:
        offsets = np.asarray(rows.offsets, np.int64)
        if self._at is None:
            self._at = Summary(int(offsets[0]), int(offsets[0]))
        if not np.array_equal(
            offsets, np.arange(self._at.end_offset, self._at.end_offset + len(rows))
        ):
            raise Unsupported
        if isinstance(rows, VectorizedRows):
            span.add(known_run(rows.data.copy(), rows.begins, rows.ends), offsets)
        else:
            self._at = _one_by_one(span, rows, self._at)
        self._at = replace(
            self._at,
            end_offset=int(offsets[-1]) + 1,
            epoch=int(rows.epochs[-1]),
            timestamp_ms=int(rows.timestamps_ms[-1]),
            latest_ms=max(self._at.latest_ms, int(np.max(rows.timestamps_ms))),
            records=self._at.records + len(rows),
        )


def part_stem(start: int, end: int) -> str:
    """Stem of the name of these offsets' delta."""
    return f"part-{start:0{_OFFSETS_DIGITS}d}-{end:0{_OFFSETS_DIGITS}d}"


def parsed_part(name: str) -> tuple[int, int] | None:
    """Parse the offsets in such a name; None for other names."""
    parts = stem_of(name).split("-")
    if len(parts) != 3 or parts[0] != "part" or not all(each.isdigit() for each in parts[1:]):
        return None
    return int(parts[1]), int(parts[2])


def _one_by_one(span: CompiledSpan, rows: Rows, at: Summary) -> Summary:
    values: list[tuple[int, bytes]] = []
    for index, offset in enumerate(rows.offsets):
        value = rows.values[index]
        if rows.contents[index].problem is not None:
            raise Unsupported
        if rows.controls[index]:
            record = DecodedRecord(
                offset, rows.timestamps_ms[index], rows.record_keys[index], value
            )
            at = at.control(record, rows.epochs[index])
        elif value is not None:
            values.append((offset, value))
    if values:
        run = run_of_values([value for _, value in values])
        span.add(run, np.array([offset for offset, _ in values], np.int64))
    return at
