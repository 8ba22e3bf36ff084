"""The driver's access to the snapshots on disk: chunks for other replicas, and the download of this replica.

Owns the thread that verifies a finished download. Must not know local snapshots and when they are written.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

from quorum_node.raft.events import SnapshotInstalled, SnapshotRejected
from quorum_node.records.snapshot_format import CorruptSnapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.snapshots import SnapshotMissing, SnapshotStore

Finished = SnapshotInstalled | SnapshotRejected


class DevicePort(Protocol):
    """Informed of results, on the loop's thread."""

    def snapshot_finished(self, event: Finished) -> None:
        """A download was verified and is durable, or it is damaged."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk failed."""

    def download_begins(self, id: SnapshotId) -> None:
        """Another replica requested the first chunk of a snapshot."""


class SnapshotDevice:
    """The driver's `Snapshots`."""

    def __init__(self, store: SnapshotStore, port: DevicePort) -> None:
        self._store = store
        self._port = port
        self._loop = asyncio.get_running_loop()

    def size_bytes(self, id: SnapshotId) -> int | None:
        """Size in bytes; None if there is no such snapshot."""
        try:
            return self._store.size_bytes(id)
        except SnapshotMissing:
            return None

    def checksum(self, id: SnapshotId) -> int | None:
        """CRC-32C of the whole file, if it is known."""
        return self._store.checksum(id)

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Bytes of the file from `position` on."""
        if position == 0:
            self._port.download_begins(id)
        return self._store.read(id, position, max_bytes)

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        """Append the next chunk of a download."""
        self._store.append_partial(id, position, data)

    def drop_partial(self, id: SnapshotId) -> None:
        """Delete the download."""
        self._store.drop_partial(id)

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        """Verify the complete file in the background."""
        threading.Thread(
            target=self._finish,
            args=(id, size_bytes, checksum),
            name="snapshot-verifier",
            daemon=True,
        ).start()

    def _finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        tell: Callable[[], None]
        try:
            bounds = self._store.finish_partial(id, size_bytes, checksum)
            event = SnapshotInstalled(id, bounds.voters, bounds.kraft_version)
            tell = lambda: self._port.snapshot_finished(event)  # noqa: E731
        except CorruptSnapshot as error:
            rejected = SnapshotRejected(id, str(error))
            tell = lambda: self._port.snapshot_finished(rejected)  # noqa: E731
        except (StorageFailure, DiskFull) as error:
            failure = error
            tell = lambda: self._port.fail_storage(failure)  # noqa: E731
        call_on_loop(self._loop, tell)
