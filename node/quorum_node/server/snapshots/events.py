"""Log lines about snapshots.

Owns the texts. Must not know the causes of the events.
"""

from collections.abc import Sequence

import structlog

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.snapshots.writing import NotWritten, Written
from quorum_node.storage.errors import DiskFull, StorageFailure

_LOG = structlog.get_logger("quorum_node")


class SnapshotEvents:
    """The snapshots of one replica. `prefix` names its partition, or is empty."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._refusal = ""

    def written(self, result: Written) -> None:
        """A local snapshot is durable."""
        self._refusal = ""
        _LOG.info(
            f"{self._prefix}wrote snapshot {result.id}: {result.size_bytes} bytes"
            f" in {result.seconds:.2f} s",
            snapshot=str(result.id),
            sizeBytes=result.size_bytes,
            seconds=result.seconds,
        )

    def refused(self, why: str) -> None:
        """A snapshot was due and was not begun; logged once for each reason in a row."""
        if why != self._refusal:
            self._refusal = why
            _LOG.warning(f"{self._prefix}a snapshot is due but can't be written: {why}")

    def not_written(self, result: NotWritten, backoff_seconds: float) -> None:
        """A snapshot was begun and has failed."""
        error, again = result.error, f"next attempt in {backoff_seconds:.0f} s"
        text = f"{self._prefix}snapshot {result.id} was not written"
        if isinstance(error, DiskFull) and error.at_sync:
            _LOG.error(f"{text}: a sync failed because the disk is full ({error}); the node ends")
        elif isinstance(error, DiskFull):
            _LOG.warning(
                f"{text}: the disk is full ({error}). No data is lost, but the log grows until"
                f" there is space for a snapshot; {again}"
            )
        elif isinstance(error, StorageFailure):
            _LOG.error(f"{text}: {error}")
        else:
            _LOG.error(f"{text}: internal error; {again}", exc_info=error)

    def installed(self, id: SnapshotId, size_bytes: int) -> None:
        """A downloaded snapshot has replaced the log."""
        _LOG.info(
            f"{self._prefix}the log was replaced by downloaded snapshot {id} ({size_bytes} bytes)",
            snapshot=str(id),
        )

    def rejected(self, detail: str) -> None:
        """A downloaded snapshot is damaged."""
        _LOG.warning(
            f"{self._prefix}a downloaded snapshot was set aside and is fetched again: {detail}"
        )

    def damaged(self, id: SnapshotId, detail: str, aside: str) -> None:
        """A snapshot of this replica is damaged."""
        _LOG.warning(
            f"{self._prefix}{detail}; snapshot {id} was set aside as {aside} and is not used any more",
            snapshot=str(id),
        )

    def deleted(self, start: SnapshotId, snapshots: Sequence[SnapshotId]) -> None:
        """Retention has deleted records or snapshots."""
        gone = ", ".join(map(str, snapshots))
        _LOG.info(
            f"{self._prefix}the log starts at offset {start.end_offset}"
            + (f"; deleted older snapshots {gone}" if gone else ""),
            logStartOffset=start.end_offset,
        )
