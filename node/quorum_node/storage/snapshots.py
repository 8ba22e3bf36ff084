"""The snapshots of one replica on disk: lists, reads, downloads them, and sets damaged ones aside.

Owns every file beside the log whose name begins with a snapshot id:

    <id>.checkpoint            frozen: complete since it has this name
    <id>.checkpoint.writing    a local snapshot being written; removed at open
    <id>.checkpoint.part       an interrupted download; continues where it stopped
    <id>.checkpoint.corrupt    found damaged; never read again, never removed by the node

Must not know when snapshots are written, nor the meaning of their records. KIP-630, "Snapshot Format".

Threads: `create` and its writer belong to a worker, everything else to the driver's thread; the list of ids is
shared under a lock.
"""

import os
import threading
from bisect import insort
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from crc32c import crc32c

from quorum_node.records.batches import HEADER_BYTES, Batch, CorruptBatch, read_header
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_node.storage.atomic_file import drop_cached, sync_directory, sync_file, write_fully
from quorum_node.storage.errors import classify, storage_errors
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.scrub import PIECE_BYTES
from quorum_node.storage.snapshot_writer import WRITING_SUFFIX, SnapshotWriter

PARTIAL_SUFFIX = ".part"
CORRUPT_SUFFIX = ".corrupt"
_PIECE_BYTES = 1 << 20


class SnapshotMissing(Exception):
    """There is no frozen snapshot of that id."""


class SnapshotStore:
    """See the module. Every method may raise StorageFailure; writing ones also DiskFull."""

    def __init__(self, directory: Path, files: FileSystem = POSIX) -> None:
        """List the existing files; remove unfinished ones of an earlier process."""
        self._files = files
        self._directory = directory
        self._lock = threading.Lock()
        self._sizes: dict[SnapshotId, int] = {}
        self._ids: list[SnapshotId] = []
        self._checksums: dict[SnapshotId, int] = {}
        self._timestamps_ms: dict[SnapshotId, int] = {}
        self._partials: dict[SnapshotId, int] = {}
        with storage_errors(f"look for snapshots in {directory}"):
            files.make_directories(directory)
            for name in sorted(files.names(directory)):
                if name.endswith(WRITING_SUFFIX):
                    files.unlink(directory / name)
                elif (found := parse_snapshot_name(name)) is not None:
                    self._note(found, files.size_of(directory / name))

    # -- frozen snapshots

    def ids(self) -> tuple[SnapshotId, ...]:
        """Every frozen snapshot, oldest first."""
        with self._lock:
            return tuple(self._ids)

    def latest(self) -> SnapshotId | None:
        """The newest one."""
        with self._lock:
            return self._ids[-1] if self._ids else None

    def size_bytes(self, id: SnapshotId) -> int:
        """Size of a frozen snapshot. Raises SnapshotMissing."""
        with self._lock:
            size_bytes = self._sizes.get(id)
        if size_bytes is None:
            raise SnapshotMissing(str(id))
        return size_bytes

    def checksum(self, id: SnapshotId) -> int | None:
        """CRC-32C of the whole file, once it was written or verified by this process."""
        with self._lock:
            return self._checksums.get(id)

    def timestamp_ms(self, id: SnapshotId) -> int:
        """Timestamp of the last record that the snapshot covers. Raises SnapshotMissing, CorruptSnapshot."""
        if id not in self._timestamps_ms:
            if not self._files.exists(self._path(id)):
                raise CorruptSnapshot(f"{self._path(id)} is not there")
            try:
                header = read_header(self.read(id, 0, HEADER_BYTES))
            except CorruptBatch as error:
                raise CorruptSnapshot(f"{self._path(id)} is damaged: {error}") from error
            self._timestamps_ms[id] = header.max_timestamp_ms
        return self._timestamps_ms[id]

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Raw bytes of a frozen snapshot; b"" at its end. Raises SnapshotMissing."""
        self.size_bytes(id)
        path = self._path(id)
        with storage_errors(f"read {path}"):
            fd = self._files.open(path, os.O_RDONLY)
            try:
                return self._files.pread(fd, max_bytes, position)
            finally:
                self._files.close(fd)

    def batches(self, id: SnapshotId) -> Iterator[Batch]:
        """The data batches. Raises CorruptSnapshot, possibly only at the end: load everything before use."""
        reader = SnapshotReader(id)
        yield from self._batches(self._path(id), reader)
        reader.finish()

    def verify(self, id: SnapshotId) -> SnapshotBounds:
        """Verify a frozen snapshot; returns the content of its control records. Raises CorruptSnapshot."""
        reader = SnapshotReader(id)
        bounds, checksum = self._verify(self._path(id), reader)
        with self._lock:
            if id in self._sizes:
                self._checksums[id] = checksum
        return bounds

    def scrub(self, id: SnapshotId, pause: Callable[[int], bool]) -> None:
        """Read a frozen snapshot again; on a worker. `pause` as in `scrub.py`. Raises CorruptSnapshot.

        A snapshot that this process verified or wrote is compared by its checksum, without
        decoding.
        """
        known, path = self.checksum(id), self._path(id)
        if known is not None:
            found = 0
            with storage_errors(f"read {path}"):
                try:
                    fd = self._files.open(path, os.O_RDONLY)
                except FileNotFoundError:
                    return  # deleted meanwhile
                try:
                    self._files.fadvise_dontneed(fd)
                    while data := self._files.read(fd, PIECE_BYTES):
                        found = crc32c(data, found)
                        if not pause(len(data)):
                            return
                finally:
                    self._files.close(fd)
            if found == known:
                return
        if id in self.ids():
            self.verify(id)
            pause(self._sizes.get(id, 0))

    def set_aside(self, id: SnapshotId) -> Path:
        """Rename a damaged snapshot: it is not used any more, and is kept for inspection.

        If the file does not exist any more, it is only removed from the list.
        """
        with self._lock:
            self._ids = [other for other in self._ids if other != id]
            self._forget(id)
        return self._rename_corrupt(self._path(id), id)

    def delete_before(
        self, id: SnapshotId, keep: Collection[SnapshotId] = ()
    ) -> tuple[SnapshotId, ...]:
        """Remove frozen snapshots older than `id` that are not being downloaded; returns their ids."""
        with self._lock:
            doomed = [other for other in self._ids if other < id and other not in keep]
            self._ids = [other for other in self._ids if other not in doomed]
            for other in doomed:
                self._forget(other)
        for other in doomed:
            with storage_errors(f"delete {self._path(other)}"):
                self._files.unlink(self._path(other), missing_ok=True)
        return tuple(doomed)

    # -- local ones

    def create(self, id: SnapshotId) -> SnapshotWriter:
        """Begin a local snapshot; `freeze` completes it."""
        return SnapshotWriter(self._directory, id, self._note, self._files)

    # -- downloads

    def partial(self, id: SnapshotId) -> int:
        """Size of a partial download. After a crash it is checked and kept up to its last valid batch."""
        known = self._partials.get(id)
        if known is None:
            known = self._partials[id] = self._recover_partial(id)
        return known

    def partials(self) -> tuple[SnapshotId, ...]:
        """Downloads in progress, oldest first."""
        with storage_errors(f"look for downloads in {self._directory}"):
            names = self._files.names(self._directory)
        found = [
            parse_snapshot_name(name.removesuffix(PARTIAL_SUFFIX))
            for name in names
            if name.endswith(PARTIAL_SUFFIX)
        ]
        return tuple(sorted(each for each in found if each is not None))

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        """Write the next bytes of a download. Data after `position` is truncated; 0 restarts it."""
        known = self.partial(id) if position else 0
        assert position <= known, f"download of {id} at {position}, {known} bytes are there"
        path = self._partial_path(id)
        with storage_errors(f"write {path}"):
            fd = self._files.open(path, os.O_WRONLY | os.O_CREAT)
            try:
                self._files.ftruncate(fd, position)
                self._files.seek(fd, position)
                self._partials[id] = position
                write_fully(fd, data, self._files)
            except OSError:
                self._files.ftruncate(fd, position)
                raise
            finally:
                self._files.close(fd)
        self._partials[id] = position + len(data)

    def finish_partial(
        self, id: SnapshotId, size_bytes: int | None = None, checksum: int | None = None
    ) -> SnapshotBounds:
        """Verify a download, then make it durable and complete it. Can run on a worker.

        Raises CorruptSnapshot: the file is set aside, and the download restarts.
        """
        path = self._partial_path(id)
        self._partials.pop(id, None)
        reader = SnapshotReader(id)
        try:
            bounds, found = self._verify(path, reader)
            if size_bytes not in (None, reader.checked_bytes) or checksum not in (None, found):
                raise CorruptSnapshot(
                    f"snapshot {id} differs from that of the leader: {reader.checked_bytes} bytes with"
                    f" CRC-32C {found:08x}, not {size_bytes} with {checksum or 0:08x}"
                )
        except CorruptSnapshot:
            self._rename_corrupt(path, id)
            raise
        with storage_errors(f"finish {path}"):
            self._sync_file(path)
            self._files.rename(path, self._path(id))
            sync_directory(self._directory, self._files)
        self._note(id, reader.checked_bytes, found)
        return bounds

    def drop_partial(self, id: SnapshotId) -> None:
        """Delete a download."""
        self._partials.pop(id, None)
        path = self._partial_path(id)
        with storage_errors(f"delete {path}"):
            self._files.unlink(path, missing_ok=True)

    def drop_partials(self, keep: SnapshotId | None = None) -> None:
        """Delete all downloads except `keep`."""
        for each in self.partials():
            if each != keep:
                self.drop_partial(each)

    # -- inside

    def _forget(self, id: SnapshotId) -> None:
        for known in (self._sizes, self._checksums, self._timestamps_ms):
            known.pop(id, None)

    def _path(self, id: SnapshotId) -> Path:
        return self._directory / id.file_name

    def _partial_path(self, id: SnapshotId) -> Path:
        return self._directory / (id.file_name + PARTIAL_SUFFIX)

    def _note(self, id: SnapshotId, size_bytes: int, checksum: int | None = None) -> None:
        with self._lock:
            if id not in self._sizes:
                insort(self._ids, id)
            self._sizes[id] = size_bytes
            if checksum is not None:
                self._checksums[id] = checksum

    def _rename_corrupt(self, path: Path, id: SnapshotId) -> Path:
        aside = self._directory / (id.file_name + CORRUPT_SUFFIX)
        with storage_errors(f"set {path} aside"):
            if self._files.exists(path):
                self._files.rename(path, aside)
            sync_directory(self._directory, self._files)
        return aside

    def _recover_partial(self, id: SnapshotId) -> int:
        """After a crash pages may be missing: keep the valid batches from the start."""
        path = self._partial_path(id)
        reader = SnapshotReader(id)
        try:
            with storage_errors(f"read {path} from the disk"):
                self._drop_cached(path)
            for _ in self._batches(path, reader):
                pass
        except FileNotFoundError:
            return 0
        except CorruptSnapshot:
            pass  # verified data before it is still valid; the next part truncates the rest
        return reader.checked_bytes

    def _verify(self, path: Path, reader: SnapshotReader) -> tuple[SnapshotBounds, int]:
        """Content of the control records, and the CRC-32C of the file."""
        checksum = 0
        try:
            for batch in self._batches(path, reader, every=True):
                checksum = crc32c(batch.data, checksum)
        except FileNotFoundError:
            raise CorruptSnapshot(f"{path} is not there") from None
        return reader.finish(), checksum

    def _batches(
        self, path: Path, reader: SnapshotReader, *, every: bool = False
    ) -> Iterator[Batch]:
        """Data batches, or all. Raises FileNotFoundError, CorruptSnapshot, StorageFailure."""
        try:
            fd = self._files.open(path, os.O_RDONLY)
            try:
                while data := self._files.read(fd, _PIECE_BYTES):
                    for batch in reader.feed(data):
                        if every or not batch.header.is_control:
                            yield batch
            finally:
                self._files.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise classify(error, f"read {path}") from error

    def _drop_cached(self, path: Path) -> None:
        if not self._files.exists(path):
            return
        fd = self._files.open(path, os.O_RDWR)
        try:
            drop_cached(fd, self._files)
        finally:
            self._files.close(fd)

    def _sync_file(self, path: Path) -> None:
        fd = self._files.open(path, os.O_RDWR)
        try:
            sync_file(fd, self._files)
        finally:
            self._files.close(fd)
