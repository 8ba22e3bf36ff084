"""The producer snapshots of a partition.

Owns the list, and the reconstruction of the state at an offset from the newest earlier snapshot, in a file or in memory, and
the batches after it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.producer_copies import ProducerCopies
from quorum_node.storage.broker.producer_snapshot import (
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow_in_segment
from quorum_node.storage.file_system import FileSystem


class ProducerSnapshots:
    """`offsets`: of the files, ascending. `copies`: in memory. OSErrors are handled by the log."""

    __slots__ = ("_directory", "_files", "copies", "offsets")

    def __init__(
        self, files: FileSystem, directory: Path, offsets: list[int], copies: ProducerCopies
    ) -> None:
        self._files = files
        self._directory = directory
        self.offsets = offsets
        self.copies = copies

    def take(self, table: ProducerTable, offset: int, *, sync: bool = False) -> None:
        """Write a snapshot at `offset`."""
        if offset not in self.offsets:
            path = snapshot_path(self._directory, offset)
            write_snapshot(self._files, path, table.states.values(), sync=sync)
            self.offsets.append(offset)
            self.offsets.sort()

    def take_last(self, table: ProducerTable, segment: DataSegment) -> None:
        """Write a snapshot at the end of the last segment, before a clean stop.

        And one of each copy in the segment, of which the next start reads nothing: a later truncation begins there.
        """
        for copy in self.copies.after(segment.base_offset):
            self.take(copy, copy.end_offset)
        self.take(table, segment.end_offset, sync=True)

    def drop(self, goes: Callable[[int], bool]) -> bool:
        """Remove the snapshots at these offsets; whether there were any files of them."""
        self.copies.drop(goes)
        return self._drop_files(goes)

    def _drop_files(self, goes: Callable[[int], bool]) -> bool:
        gone = [each for each in self.offsets if goes(each)]
        for offset in gone:
            self._files.unlink(snapshot_path(self._directory, offset), missing_ok=True)
            self.offsets.remove(offset)
        return bool(gone)

    def newest(self, offset: int) -> ProducerTable | None:
        """State at the newest snapshot at or before `offset`; damaged ones are removed."""
        copy = self.copies.newest(offset)
        # A copy has more than the last batch of each producer.
        begin = -1 if copy is None else copy.end_offset
        while before := [each for each in self.offsets if begin < each <= offset]:
            states = read_snapshot(self._files, snapshot_path(self._directory, before[-1]))
            if states is not None:
                return ProducerTable(before[-1], states)
            self._drop_files(before[-1].__eq__)
        return copy

    def rebuilt(
        self, segments: Iterable[DataSegment], start_offset: int, end_offset: int
    ) -> ProducerTable:
        """State at the end of a log with these segments, after a truncation."""
        self.copies.go_back()
        table = self.newest(end_offset) or ProducerTable(start_offset)
        begin = table.end_offset
        for segment in segments:
            if segment.end_offset > begin:
                for batch in segment.batches(max(begin, segment.base_offset)):
                    # The log can start within a batch.
                    if batch.end_offset > begin:
                        follow_in_segment(table, segment, batch)
                        self.copies.applied(batch.size_bytes, table)
        table.end_offset = end_offset
        return table
