"""What the node tells the world of its snapshots: log lines.

Owns wording. Knows nothing of how things come about.
"""

from collections.abc import Sequence

import structlog

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.snapshots.writing import NotWritten, Written
from quorum_node.storage.errors import DiskFull, StorageFailure

_LOG = structlog.get_logger("quorum_node")


class SnapshotEvents:
    """Of one replica. `prefix` names its partition, or is empty."""

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
        """A snapshot was due and is not begun; said once for each reason in a row."""
        if why != self._refusal:
            self._refusal = why
            _LOG.warning(f"{self._prefix}no snapshot is written: {why}")

    def not_written(self, result: NotWritten, backoff_seconds: float) -> None:
        """A snapshot was begun and given up."""
        error, again = result.error, f"tried again in {backoff_seconds:.0f} s"
        text = f"{self._prefix}snapshot {result.id} was not written"
        if isinstance(error, DiskFull) and error.at_sync:
            _LOG.error(f"{text}: a sync failed because the disk is full ({error}); the node ends")
        elif isinstance(error, DiskFull):
            _LOG.warning(
                f"{text}: the disk is full ({error}). Nothing is lost, the log is kept, but it grows until"
                f" there is room for a snapshot; {again}"
            )
        elif isinstance(error, StorageFailure):
            _LOG.error(f"{text}: {error}")
        else:
            _LOG.error(f"{text}: a bug; {again}", exc_info=error)

    def installed(self, id: SnapshotId, size_bytes: int) -> None:
        """A downloaded snapshot took the place of the log."""
        _LOG.info(
            f"{self._prefix}the log begins anew behind downloaded snapshot {id} ({size_bytes} bytes)",
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
        """Retention."""
        gone = ", ".join(map(str, snapshots))
        _LOG.info(
            f"{self._prefix}the log starts at offset {start.end_offset}"
            + (f"; deleted older snapshots {gone}" if gone else ""),
            logStartOffset=start.end_offset,
        )
