"""The producer snapshots of a partition.

Owns the list, and the reconstruction of the state at an offset from the newest earlier snapshot and
the batches after it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.producer_snapshot import (
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow_in_segment
from quorum_node.storage.file_system import FileSystem


class ProducerSnapshots:
    """`offsets`: ascending. OSErrors are handled by the log."""

    __slots__ = ("_directory", "_files", "offsets")

    def __init__(self, files: FileSystem, directory: Path, offsets: list[int]) -> None:
        self._files = files
        self._directory = directory
        self.offsets = offsets

    def take(self, table: ProducerTable, offset: int, *, sync: bool = False) -> None:
        """Write a snapshot at `offset`."""
        if offset not in self.offsets:
            path = snapshot_path(self._directory, offset)
            write_snapshot(self._files, path, table.states.values(), sync=sync)
            self.offsets.append(offset)
            self.offsets.sort()

    def drop(self, goes: Callable[[int], bool]) -> bool:
        """Remove the snapshots at these offsets; whether there were any."""
        gone = [each for each in self.offsets if goes(each)]
        for offset in gone:
            self._files.unlink(snapshot_path(self._directory, offset), missing_ok=True)
            self.offsets.remove(offset)
        return bool(gone)

    def newest(self, offset: int) -> ProducerTable | None:
        """State at the newest snapshot at or before `offset`; damaged ones are removed."""
        while before := [each for each in self.offsets if each <= offset]:
            states = read_snapshot(self._files, snapshot_path(self._directory, before[-1]))
            if states is not None:
                return ProducerTable(before[-1], states)
            self.drop(before[-1].__eq__)
        return None

    def rebuilt(
        self, segments: Iterable[DataSegment], start_offset: int, end_offset: int
    ) -> ProducerTable:
        """State at the end of a log with these segments."""
        table = self.newest(end_offset) or ProducerTable(start_offset)
        begin = table.end_offset
        for segment in segments:
            if segment.end_offset > begin:
                for batch in segment.batches(max(begin, segment.base_offset)):
                    # The log can start within a batch.
                    if batch.end_offset > begin:
                        follow_in_segment(table, segment, batch)
        table.end_offset = end_offset
        return table
