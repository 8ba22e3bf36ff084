"""Copies the newest snapshot and the committed log after it from the leader into files like a replica's."""

from pathlib import Path

from quorum_node.client.committed_log import CommittedLog
from quorum_node.records.batches import Batch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.atomic_file import sync_file, write_fully
from quorum_node.storage.leader_epochs import EpochStarts, write_checkpoint

SEGMENT_BYTES = 64 << 20


_AGAIN = (
    ". Run the backup again; if it fails again, back up from another leader (`quorumctl resign`)"
)


class CompleteLog:
    """Copies into an empty directory. Every call may raise CommittedLogError, OSError or StorageFailure."""

    def __init__(self, log: CommittedLog, partition: Path) -> None:
        self._log, self._partition = log, partition
        self._epoch_starts: EpochStarts = []

    def copy(self) -> int:
        """Copy everything; returns the end offset.

        All records below it were committed when the copy began, and are on the disk.
        """
        snapshot = self._log.newest_snapshot()
        if snapshot is not None:
            self._copy_snapshot(snapshot)
        offset = snapshot.end_offset if snapshot is not None else 0
        end_offset = max(self._log.committed().end_offset, offset)
        while offset < end_offset:
            offset = self._copy_segment(offset, end_offset)
        write_checkpoint(self._partition, self._epoch_starts)
        return offset

    def _copy_snapshot(self, id: SnapshotId) -> None:
        position, size = 0, 1
        with (self._partition / id.file_name).open("wb", buffering=0) as file:
            while position < size:
                data, size = self._log.snapshot_part(id, position)
                if not data:
                    raise self._log.error(
                        f"{self._log.leader} returned no bytes of snapshot {id} from byte {position}{_AGAIN}"
                    )
                write_fully(file.fileno(), data)
                position += len(data)
            sync_file(file.fileno())

    def _copy_segment(self, offset: int, end_offset: int) -> int:
        """Copy one segment; returns the base offset of the next one."""
        size, first = 0, None
        parts: list[bytes] = []
        path = self._partition / f"{offset:020d}.log"
        with path.open("wb", buffering=0) as file:
            while offset < end_offset and size < SEGMENT_BYTES:
                batches = self._log.read(offset, end_offset)
                if not batches:
                    raise self._log.error(
                        f"{self._log.leader} returned no records at offset {offset}, though {end_offset} was committed{_AGAIN}"
                    )
                first = batches[0].header.base_offset if first is None else first
                for batch in batches:
                    if batch.header.end_offset > offset:
                        self._note(batch)
                        parts.append(bytes(batch.data))
                        offset = batch.header.end_offset
                data = b"".join(parts)
                parts.clear()
                write_fully(file.fileno(), data)
                size += len(data)
            sync_file(file.fileno())
        if first is not None and path.name != f"{first:020d}.log":
            # a batch may extend beyond the snapshot's end
            path.rename(path.with_name(f"{first:020d}.log"))
        return offset

    def _note(self, batch: Batch) -> None:
        epoch = batch.header.leader_epoch
        if not self._epoch_starts or self._epoch_starts[-1][0] != epoch:
            self._epoch_starts.append((epoch, batch.header.base_offset))
